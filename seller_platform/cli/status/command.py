"""`seller-platform status`: one screen with what is stored, and what needs attention."""

import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Literal

import click
import msgspec

from seller_platform.cli.installation import Installation, open_stored_installation
from seller_platform.cli.output import Document, Moment, MonthText, Output, fail_on_option, json_option, with_title
from seller_platform.cli.status.overview import Overview, overview
from seller_platform.cli.status.screen import Size, screen
from seller_platform.cli.terminal.colours import is_terminal
from seller_platform.warehouse.loads.history_start import history_start_in
from seller_platform.warehouse.monitoring.coverage import Coverage, coverage
from seller_platform.warehouse.monitoring.problems import Problem, exit_code_of, failing
from seller_platform.warehouse.monitoring.restatements import Restatement
from seller_platform.warehouse.monitoring.sampling import Stratum
from seller_platform.warehouse.monitoring.slice_states import SliceState
from seller_platform.warehouse.postgres.location import data_elsewhere, has_demo

_NOT_CONNECTED = "Nothing is connected yet; run `seller-platform connect`, or try `seller-platform demo`."
_BUT_DEMO = "Nothing is connected yet; run `seller-platform connect`. `seller-platform --demo status` shows the demo."
_GRANTS = ("connection", "state", "refused", "rotations", "issued_at", "expires_at")
_COVERED = ("dataset", "last_day", "missing_days", "rows", "age_hours")
_CLEAR = "\x1b[H\x1b[2J"
_USUAL_HEIGHT = 24
_SECONDS = 10.0


class ConnectionGrant(Document, frozen=True):
    """The grant of a connection.

    Attributes:
        reason: Why it is refused.
        rotations: How many times the token pair was replaced.
        expires_at: When its access token ends.
        ends_at: When its refresh token ends, unless it is rotated before.
    """

    connection: str
    state: Literal["granted", "refused"]
    refused: str | None = msgspec.field(name="reason")
    rotations: int
    issued_at: Moment
    expires_at: Moment
    dies_at: Moment = msgspec.field(name="ends_at")


class RecentLoads(Document, frozen=True):
    """How much was read.

    Attributes:
        rows_came: Rows that were not stored before.
    """

    loads: int
    rows_came: int


class StatusDocument(Document, frozen=True):
    """What is stored, and what needs attention.

    Attributes:
        problems: What is wrong, what matters most first, as in the view `platform.problems`.
        months: The worst state of any dataset, by account and month.
        requests_per_day: How many requests each connection may send; null for any number.
        requests_today: How many each connection has sent; null where they are not limited, and not counted.
        sample: What random comparisons with the upstream say of all slices, in one sentence.
        differing_at_most: The share of slices, by their rows, that differ at most with 95 % confidence: of those that
            are settled, and of those that may still change. Without those of which none was compared.
    """

    history_start: date
    problems: list[Problem]
    coverage: list[Coverage]
    grants: list[ConnectionGrant]
    months: dict[str, dict[MonthText, SliceState]]
    restated: list[Restatement]
    requests_per_day: int | None
    requests_today: dict[str, int] | None
    since_yesterday: RecentLoads
    sample: str
    differing_at_most: dict[Stratum, float]


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
@fail_on_option
@json_option(StatusDocument)
def status(*, shows_all: bool, by_dataset: bool, watch: bool, seconds: float, fail_on: str, output: Output) -> None:
    """Show on one screen what is stored of each account and month, and what needs attention.

    The map has a row for each account and a sign for each month, with the worst state of any dataset. Below it are the
    problems, errors first, each with the command for it, and what was restated since yesterday: days that had been read
    after they were over. It ends with 3 if a grant is refused, with 4 if the upstream is away, and with 5 for any other
    error; what is acknowledged is shown, and counts no more.
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
            found = _show_datasets(installation, output)
        else:
            found = _show(installation, output, shows_all=shows_all)
    if not watch:
        sys.exit(exit_code_of(failing(found, fail_on)))


def _show(installation: Installation, output: Output, *, shows_all: bool, clears: bool = False) -> Sequence[Problem]:
    """Print the screen, and return the problems.

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
        terminal = shutil.get_terminal_size((80, _USUAL_HEIGHT))
        size = Size(
            terminal.columns if sys.stdout.isatty() else None,
            None if shows_all else max(terminal.lines, _USUAL_HEIGHT) - 1,  # the last line is for the shell's prompt
        )
        lines = screen(state, size, data) if state.grants else []
    text = "\n".join(lines)
    output.line(f"{_CLEAR}{text}" if clears else text) if lines else output.say(_first_step(installation))
    return state.problems if state.grants else ()


def _show_datasets(installation: Installation, output: Output) -> Sequence[Problem]:
    """Print the grants, and the table of every dataset and account; return the problems."""
    database, now = installation.database, datetime.now(UTC)
    since = _since(installation)
    with output.progress("Counting the stored rows"):
        covered = coverage(database, since=since, now=now)
        per_day = installation.settings.requests_per_day
        state = overview(database, since=since, now=now, requests_per_day=per_day)
    document = _document(state, covered)
    output.document(document)
    if not state.grants:
        output.say(_first_step(installation))
        return ()
    output.table("Grants", document.grants, _GRANTS)
    output.table("Coverage", covered, _COVERED, lambda each: with_title(each.account, state.titles))
    if never := sum(each.rows is None for each in covered):
        output.say(f"{never} of {len(covered)} were never loaded; `seller-platform sync` loads what is missing.")
    return state.problems


def _first_step(installation: Installation) -> str:
    return _BUT_DEMO if has_demo(installation.settings.home) else _NOT_CONNECTED


def _since(installation: Installation) -> date:
    return history_start_in(installation.database, installation.settings)


def _document(state: Overview, coverage: list[Coverage]) -> StatusDocument:
    """Return what the screen shows, and what is stored of every dataset and account."""
    months = [f"{month.start:%Y-%m}" for month in state.states.months]
    sent = state.requests_today
    return StatusDocument(
        history_start=state.since,
        problems=[*state.problems],
        coverage=coverage,
        grants=msgspec.convert(state.grants, list[ConnectionGrant], from_attributes=True),
        months={
            account.key: dict(zip(months, state.states.months_of(account.key), strict=True))
            for account in state.accounts
        },
        restated=[*state.activity.restatements],
        requests_per_day=state.requests_per_day,
        requests_today=sent
        if sent is None
        else {each.connection: sent.get(each.connection, 0) for each in state.grants},
        since_yesterday=msgspec.convert(state.activity, RecentLoads, from_attributes=True),
        sample=str(state.sample),
        differing_at_most=state.sample.bounds,
    )
