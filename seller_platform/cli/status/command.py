"""`seller-platform status`: one screen with what is stored, and what needs attention."""

import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

import click

from seller_platform.cli.installation import Installation, open_stored_installation
from seller_platform.cli.output import Output, fail_on_option, json_option, with_title
from seller_platform.cli.status.screen import StatusDocument, overview, screen
from seller_platform.cli.terminal.colours import is_terminal
from seller_platform.warehouse.monitoring.problems import Problem, exit_code_of, failing
from seller_platform.warehouse.postgres.location import data_elsewhere, has_demo

_NOT_CONNECTED = "Nothing is connected yet; run `seller-platform connect`, or try `seller-platform demo`."
_BUT_DEMO = "Nothing is connected yet; run `seller-platform connect`. `seller-platform --demo status` shows the demo."
_COVERED = ("dataset", "last_day", "missing_days", "rows", "age_hours")
_USUAL_HEIGHT = 24


@click.command()
@click.option("--all", "shows_all", is_flag=True, help="Show every account and everything that needs attention.")
@click.option("--datasets", "by_dataset", is_flag=True, help="Show the days, rows and age of each dataset and account.")
@click.option("--watch", is_flag=True, help="Show the screen again and again, until Ctrl-C.")
@click.option(
    "--seconds",
    default=10.0,
    show_default=True,
    type=click.FloatRange(min=1),
    help="With --watch: how long to wait before the screen is shown again.",
)
@fail_on_option
@json_option(StatusDocument)
def status(
    *, shows_all: bool, by_dataset: bool, watch: bool, seconds: float, fail_on: str | None, output: Output
) -> None:
    """Show on one screen what is stored of each account and month, and what needs attention.

    The map has a row for each account and a sign for each month, with the worst state of any dataset. Below it are the
    problems, errors first, each with the command for it, and what was restated since yesterday: days that had been read
    after they were over. It ends with 3 if a grant is refused, with 4 if the upstream is away, and with 5 for any other
    error, but with 2 if only settings are wrong. What is acknowledged is shown, and counts no more.
    """
    if watch and (output.as_json or by_dataset):
        raise click.UsageError("--watch shows the screen; leave out --json and --datasets")
    with open_stored_installation() as installation:
        if watch:
            with suppress(KeyboardInterrupt):
                while True:
                    _show(installation, output, shows_all=shows_all, clears=is_terminal(sys.stdout))
                    time.sleep(seconds)
        else:
            found = _show(installation, output, shows_all=shows_all, by_dataset=by_dataset)
    if not watch:
        sys.exit(exit_code_of(failing(found, fail_on or installation.settings.fail_on)))


def _show(
    installation: Installation, output: Output, *, shows_all: bool, by_dataset: bool = False, clears: bool = False
) -> Sequence[Problem]:
    """Print the screen, or the grants and the table of every dataset and account; return the problems."""
    settings, covers = installation.settings, by_dataset or output.as_json
    with output.progress("Counting the stored rows" if covers else "Reading what is stored"):
        state = overview(installation, datetime.now(UTC), covers=covers)
    output.document(state)
    if not state.grants and (covers or not state.problems):
        output.say(_BUT_DEMO if has_demo(settings.home) else _NOT_CONNECTED)
    elif covers:
        output.table("Grants", state.grants, ("connection", "state", "refused", "rotations", "issued_at", "expires_at"))
        output.table("Coverage", state.coverage, _COVERED, lambda each: with_title(each.account, state.titles))
        if never := sum(each.rows is None for each in state.coverage):
            text = f"{never} of {len(state.coverage)} were never loaded"
            output.say(f"{text}; `seller-platform sync` loads what is missing.")
    else:
        data = data_elsewhere(settings.home) if settings.database_url is None else None
        terminal = shutil.get_terminal_size((80, _USUAL_HEIGHT))
        width = terminal.columns if sys.stdout.isatty() else None
        height = None if shows_all else max(terminal.lines, _USUAL_HEIGHT) - 1  # the last line is the shell's prompt
        text = "\n".join(screen(state, width, height, data))
        output.line(f"\x1b[H\x1b[2J{text}" if clears else text)
    return state.problems
