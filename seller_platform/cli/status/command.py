"""`seller-platform status`: one screen with what is stored, and what needs attention."""

import shutil
import sys
import time
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import click

from seller_platform.cli.installation import Installation, open_stored_installation
from seller_platform.cli.output import Output, json_option
from seller_platform.cli.status.by_dataset import coverage_rows, show_coverage
from seller_platform.cli.status.overview import Overview, overview
from seller_platform.cli.status.screen import Size, screen
from seller_platform.cli.terminal.colours import is_terminal
from seller_platform.warehouse.connections.grants import GrantFacts
from seller_platform.warehouse.loads.history_start import history_start_in
from seller_platform.warehouse.loads.slices import doubt_of
from seller_platform.warehouse.monitoring.coverage import coverage
from seller_platform.warehouse.postgres.location import data_elsewhere, has_demo

_NOT_CONNECTED = "Nothing is connected yet; run `seller-platform connect`, or try `seller-platform demo`."
_BUT_DEMO = "Nothing is connected yet; run `seller-platform connect`. `seller-platform --demo status` shows the demo."
_CLEAR = "\x1b[H\x1b[2J"
_USUAL_HEIGHT = 24
_SECONDS = 10.0


@click.command()
@click.option("--all", "shows_all", is_flag=True, help="Show every account and everything that needs attention.")
@click.option("--datasets", "by_dataset", is_flag=True, help="Show the days, rows and age of each dataset and account.")
@click.option("--watch", is_flag=True, help="Show the screen again and again, until Ctrl-C.")
@click.option(
    "--seconds",
    default=_SECONDS,
    show_default=True,
    type=click.FloatRange(min=1),
    help="With --watch: how long to wait before the screen is shown again.",
)
@json_option
def status(*, shows_all: bool, by_dataset: bool, watch: bool, seconds: float, output: Output) -> None:
    """Show on one screen what is stored of each account and month, and what needs attention.

    The map has a row for each account and a sign for each month, with the worst state of any dataset. Below it is what
    was refused, failed, is held, late, missing, repeated in the ledger of another account or was restated since
    yesterday, each with the command for it. A day is restated if it had been read after it was over.
    """
    if watch and (output.as_json or by_dataset):
        raise click.UsageError("--watch shows the screen; leave out --json and --datasets")
    with open_stored_installation() as installation:
        if watch:
            with suppress(KeyboardInterrupt):
                while True:
                    _show(installation, output, shows_all=shows_all, clears=is_terminal(sys.stdout))
                    time.sleep(seconds)
        elif output.as_json or by_dataset:
            _show_datasets(installation, output)
        else:
            _show(installation, output, shows_all=shows_all)


def _show(installation: Installation, output: Output, *, shows_all: bool, clears: bool = False) -> None:
    """Print the screen.

    Args:
        clears: Whether to remove what the terminal shows.
    """
    settings = installation.settings
    data = data_elsewhere(settings.home) if settings.database_url is None else None
    with output.progress("Reading what is stored"):
        per_day = settings.requests_per_day
        state = overview(
            installation.database, since=_since(installation), now=datetime.now(UTC), requests_per_day=per_day
        )
        size = _size(shows_all=shows_all)
        lines = screen(state, size, data) if state.grants else []
    text = "\n".join(lines)
    output.line(f"{_CLEAR}{text}" if clears else text) if lines else output.say(_first_step(installation))


def _size(*, shows_all: bool) -> Size:
    terminal = shutil.get_terminal_size((80, _USUAL_HEIGHT))
    return Size(
        terminal.columns if sys.stdout.isatty() else None,
        None if shows_all else max(terminal.lines, _USUAL_HEIGHT) - 1,  # the last line is for the shell's prompt
    )


def _show_datasets(installation: Installation, output: Output) -> None:
    """Print the grants, and the table of every dataset and account."""
    database, now = installation.database, datetime.now(UTC)
    since = _since(installation)
    with output.progress("Counting the stored rows"):
        covered = coverage(database, since=since)
        rows = coverage_rows(database, covered, now)
        per_day = installation.settings.requests_per_day
        state = overview(database, since=since, now=now, requests_per_day=per_day)
    granted = [_grant(each) for each in state.grants]
    output.document({"history_start": since, "coverage": rows, "grants": granted, **_document(state)})
    if not granted:
        output.say(_first_step(installation))
        return
    names = ("connection", "state", "rotations", "issued_at", "expires_at")
    output.table("Grants", names, [tuple(grant[name] for name in names) for grant in granted])
    show_coverage(output, covered, rows, state.titles)


def _first_step(installation: Installation) -> str:
    return _BUT_DEMO if has_demo(installation.settings.home) else _NOT_CONNECTED


def _since(installation: Installation) -> date:
    return history_start_in(installation.database, installation.settings)


def _grant(grant: GrantFacts) -> dict[str, Any]:
    return {
        "connection": grant.connection,
        "state": f"refused: {grant.refused}" if grant.refused else "granted",
        "rotations": grant.generation - 1,
        "issued_at": f"{grant.issued_at:%Y-%m-%d %H:%M} UTC",
        "expires_at": f"{grant.expires_at:%Y-%m-%d %H:%M} UTC",
        "ends_at": f"{grant.dies_at:%Y-%m-%d %H:%M} UTC",
    }


def _document(state: Overview) -> dict[str, Any]:
    """Return what the screen shows."""
    months = [f"{month:%Y-%m}" for month in state.months.months]
    return {
        "months": {
            account.key: dict(zip(months, state.months.states_of(account.key), strict=True))
            for account in state.accounts
        },
        "late": [
            {
                "dataset": each.dataset,
                "account": each.account,
                "read_at": each.read_at and each.read_at.isoformat(),
                "age_hours": round(each.age_hours(state.now), 1),
            }
            for each in (*state.late, *state.unread)
        ],
        "held": [
            {
                "load": each.id,
                "dataset": each.dataset,
                "account": each.account,
                "window": str(each.window),
                "reason": doubt_of(each).reason,
            }
            for each in state.held
        ],
        "repeated": [
            {
                "account": each.account,
                "other": each.other,
                "month": f"{each.month:%Y-%m}",
                "rows": each.rows,
                "percent": round(100 * each.share, 1),
                "amounts": each.amounts,
            }
            for each in state.repeated
        ],
        "restated": [
            {
                "dataset": each.dataset,
                "account": each.account,
                "first_day": each.first_day,
                "last_day": each.last_day,
                "rows_came": each.rows_came,
                "rows_went": each.rows_went,
                "amount": each.amount,
                "amount_of": each.amount_name,
            }
            for each in state.activity.restatements
        ],
        "requests_per_day": state.requests_per_day,
        "requests_today": {each.connection: state.requests_today.get(each.connection, 0) for each in state.grants},
        "postponed": state.postponed,
        "since_yesterday": {"loads": state.activity.loads, "rows_came": state.activity.rows_came},
    }
