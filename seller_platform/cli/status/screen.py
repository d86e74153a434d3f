"""The screen of `status`: what the warehouse stores, as a heat map of accounts and months, and what needs attention."""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from textwrap import wrap

from rich.cells import cell_len

from seller_platform.cli.installation import Installation
from seller_platform.cli.output import Document, Moment, MonthText, printable, with_title
from seller_platform.cli.terminal.colours import Colour, coloured
from seller_platform.commands import runnable, runnable_command
from seller_platform.contract.window import read_month
from seller_platform.counts import count_of
from seller_platform.errors import first_few
from seller_platform.settings import origins
from seller_platform.warehouse.connections.accounts import account_titles
from seller_platform.warehouse.connections.grants import GrantFacts
from seller_platform.warehouse.loads.history_start import history_start_in
from seller_platform.warehouse.monitoring.coverage import Coverage, coverage
from seller_platform.warehouse.monitoring.metrics import Activity, facts
from seller_platform.warehouse.monitoring.problems import Problem, problems
from seller_platform.warehouse.monitoring.slice_states import SliceState, slice_states

_ANY_WIDTH = 10_000
_MOST_MONTHS = 36
_FEWEST_ACCOUNTS = 3
_INDENT = 13
_YEAR_WIDTH = 5  # with the space before the next one
# Letters for what a person must act on, so that the map can be read without colours.
_SIGNS = {
    SliceState.LOADED: ("■", "#", Colour.GOOD),
    SliceState.LATE: ("▪", "-", Colour.DOUBTFUL),
    SliceState.INCOMPLETE: ("▪", "+", Colour.DOUBTFUL),
    SliceState.MISSING: ("·", ".", Colour.FAINT),
    SliceState.MISMATCHED: ("M", "M", Colour.BAD),
    SliceState.ALTERED: ("A", "A", Colour.BAD),
    SliceState.HELD: ("H", "H", Colour.DOUBTFUL),
    SliceState.FAILED: ("F", "F", Colour.BAD),
}

_COLOURS = {"error": Colour.BAD, "warning": Colour.DOUBTFUL, "note": Colour.FAINT}
_LISTED = 'seller-platform query "SELECT * FROM platform.problems'
_COMMAND = re.compile("`(seller-platform [^`]+)`")


class StatusDocument(Document, frozen=True):
    """What is stored, and what needs attention.

    Attributes:
        titles: The titles of all accounts, by key.
        problems: What is wrong, what matters most first, as in the view `platform.problems`.
        months: The worst state of any dataset, by account and month.
        settings: Those that are not as by default: of each its variable, or the project file that has it.
        requests_per_day: How many requests each connection may send; null for any number.
        requests_today: How many each connection has sent; null where they are not limited, and not counted.
        sample: What random comparisons with the upstream say of all slices, in one sentence.
        differing_at_most: The share of slices, by their rows, that differ at most with 95 % confidence: of those that
            are settled, and of those that may still change. Without those of which none was compared.
    """

    read_at: Moment
    history_start: date
    settings: dict[str, str]
    titles: dict[str, str]
    problems: tuple[Problem, ...]
    coverage: list[Coverage]
    grants: tuple[GrantFacts, ...]
    months: dict[str, dict[MonthText, SliceState]]
    requests_per_day: int | None
    requests_today: dict[str, int] | None
    since_yesterday: Activity
    sample: str
    differing_at_most: dict[str, float]


def overview(installation: Installation, now: datetime, *, covers: bool = False) -> StatusDocument:
    """Read the state of the warehouse at a moment, of the datasets and accounts that the settings choose.

    Args:
        covers: Whether to read the days, rows and age of each dataset and account.
    """
    database, settings, datasets = installation.database, installation.settings, installation.datasets
    since, listed = history_start_in(database, settings), installation.accounts()
    states = slice_states(database, since=since, now=now, refreshed=datasets, listed=listed)
    months, known = [f"{month.start:%Y-%m}" for month in states.months], facts(database, now)
    return StatusDocument(
        read_at=now,
        history_start=since,
        settings=origins(settings),
        titles=dict(account_titles(database)),
        problems=problems(database),
        coverage=coverage(database, since=since, now=now, datasets=datasets, listed=listed) if covers else [],
        grants=known.grants,
        months={
            account.key: dict(zip(months, states.months_of(account.key), strict=True)) for account in states.accounts
        },
        requests_per_day=settings.requests_per_day,
        requests_today=None if settings.requests_per_day is None else known.requests_today,
        since_yesterday=known.since_yesterday,
        sample=known.evidence.sentence,
        differing_at_most=dict(known.evidence.differing_at_most),
    )


@dataclass(frozen=True)
class Notice:
    """One thing that needs attention.

    Attributes:
        word: What it is, in one word.
        command: What to run; without backticks.
        is_error: Whether it is always shown.
    """

    word: str
    colour: Colour
    text: str
    command: str
    is_error: bool = False


def screen(status: StatusDocument, width: int | None, height: int | None, data: Path | None = None) -> list[str]:
    """Return the lines of the screen, at most as many as it is high.

    Args:
        width: That of the screen; None for as wide as it needs.
        height: That of the screen; None for as high as it needs.
        data: The folder with the rows, where it is not part of the home folder.
    """
    width = width or _ANY_WIDTH
    head = _head(status, width, data)
    room = None if height is None else height - len(head) - 2
    attention = _attention(findings(status), width, None if room is None else room - _FEWEST_ACCOUNTS - 4)
    if room is not None:
        room -= len(attention) + 4  # the two heads of the map, the rest of the accounts, and the legend
    return [*head, *_map(status, width, room), "", *attention]


def _head(status: StatusDocument, width: int, data: Path | None) -> list[str]:
    now, activity = status.read_at.astimezone(UTC), status.since_yesterday
    text = (
        f"{now:%a %d %b %Y %H:%M} UTC. {count_of(len(status.months), 'account')} since {status.history_start}. Since "
        f"yesterday: {count_of(activity.loads, 'load')}, {count_of(activity.rows_came, 'new row')}."
    )
    if status.requests_today is not None:
        sent = (f"{connection} {requests:,}" for connection, requests in status.requests_today.items())
        text += f" Requests of today, of {status.requests_per_day:,}: {', '.join(sent)}."
    if status.differing_at_most:
        text += f" {status.sample}."
    of_file = {name: origin for name, origin in status.settings.items() if "." in origin}  # a variable has no dot
    if of_file:
        text += f" {next(iter(of_file.values()))} sets {', '.join(of_file)}."
    if data is not None:
        text += f" The rows are in {data}."
    return [_painted(line, Colour.HEADING) for line in _wrapped(text, width)]


def _map(status: StatusDocument, width: int, room: int | None) -> Iterator[str]:
    """Yield the heat map, the accounts with most problems first."""
    states = {key: list(of_months.values()) for key, of_months in status.months.items()}
    order = sorted(states, key=lambda key: (-_troubled(states[key]), key))
    shown = order if room is None else order[: max(room, _FEWEST_ACCOUNTS)]
    longest, months = max(map(len, shown), default=0), [*next(iter(status.months.values()), ())]
    count = max(1, min(len(months), _MOST_MONTHS, width - longest - 2))
    latest = [read_month(month) for month in months[-count:]]
    years = ""
    for position, month in enumerate(latest):
        # Without room before the next year, the first one has no name; it is the year before.
        if month.month == 1 or (position == 0 and all(each.month != 1 for each in latest[:_YEAR_WIDTH])):
            years = f"{years:<{position}}{month:%Y}"
    yield _painted(years, Colour.FAINT)
    yield _painted("".join("JFMAMJJASOND"[month.month - 1] for month in latest), Colour.FAINT)
    for key in shown:
        account = printable(with_title(key, status.titles))
        fits = cell_len(account) <= width - count - 2  # else the key, which can be typed
        yield f"{''.join(map(_sign, states[key][-count:]))}  {account if fits else key}"
    if len(order) > len(shown):
        rest = order[len(shown) :]
        number = sum(_troubled(states[key]) > 0 for key in rest)
        which = f"{number:,} of them with months that are not loaded" if number else "with every month loaded"
        yield _painted(f"and {count_of(len(rest), 'more account')}, {which}", Colour.FAINT)
    states_shown = {SliceState.LOADED, *(state for key in shown for state in states[key][-count:])}
    legend = [f"{_sign(state)} {state}" for state in SliceState if state in states_shown]
    earlier = len(months) - count
    left_out = [f"({count_of(earlier, 'earlier month')} left out)"] if earlier else []
    yield "  ".join([*legend, *left_out])


def _attention(notices: Sequence[Notice], width: int, room: int | None) -> list[str]:
    """Return the lines of the notices that fit, of errors all, and how many others there are."""
    if not notices:
        return [_painted("Everything is loaded, and nothing needs attention.", Colour.GOOD)]
    lines, left_out = list[str](), list[Notice]()
    for notice in notices:
        command = runnable_command(notice.command)
        first, *others = _wrapped(printable(notice.text), max(width - _INDENT, 1))
        indent = " " * _INDENT if len(command) + _INDENT <= width else ""
        of_notice = [
            f"{_painted(f'{notice.word:<{_INDENT}}', notice.colour)}{first}",
            *(f"{' ' * _INDENT}{line}" for line in others),
            f"{indent}{_painted(command, Colour.HEADING)}",  # on a line of its own, to be copied
        ]
        is_cut = room is not None and (left_out or len(lines) + len(of_notice) > room - (notice is not notices[-1]))
        if is_cut and not notice.is_error:
            left_out.append(notice)
        else:
            lines += of_notice
    if left_out:
        words = ", ".join(dict.fromkeys(notice.word for notice in left_out))
        lines += _wrapped(f"More ({words}): {runnable('`seller-platform status --all`')}", width)
    return lines


def _troubled(states: Sequence[SliceState]) -> int:
    return sum(state is not SliceState.LOADED for state in states)


def _sign(state: SliceState) -> str:
    sign, plain, colour = _SIGNS[state]
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return _painted(sign if is_unicode else plain, colour)


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines that are broken at spaces; a longer word has a line of its own."""
    return wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _painted(text: str, colour: Colour) -> str:
    return coloured(text, colour, sys.stdout)


def findings(status: StatusDocument) -> list[Notice]:
    """Return what needs attention: a notice for each problem, whose datasets are named together, and restatements."""
    groups: dict[tuple[object, ...], list[Problem]] = {}
    for each in status.problems:
        groups.setdefault((each.kind, each.severity, each.message, each.acknowledged_by), []).append(each)
    notices = [_notice(status, group) for group in groups.values()]
    for change in status.since_yesterday.restatements:
        month = f" {change.first_day:%Y-%m}" if f"{change.first_day:%Y-%m}" == f"{change.last_day:%Y-%m}" else ""
        days = "..".join(map(str, sorted({change.first_day, change.last_day})))
        amount = "" if change.amount is None else f"{change.amount_name} {change.amount:+,f}; "
        rows = f"{count_of(change.rows_came, 'row')} came, {change.rows_went:,} went"
        text = f"{change.dataset} of {with_title(change.account, status.titles)}, {days}: {amount}{rows}"
        command = f"seller-platform diff {change.dataset} {change.account}{month}"
        notices.append(Notice("restated", Colour.HEADING, text, command))
    return notices


def _notice(status: StatusDocument, group: Sequence[Problem]) -> Notice:
    first = group[0]
    key = first.accounts[0]
    text, named = first.message, f"{first.dataset} of {key}"
    if text.startswith(f"{named}, "):
        text = f"{first.dataset} of {with_title(key, status.titles)}{text.removeprefix(named)}"
    elif first.dataset != "accounts":
        owners = max(each.owners for each in group)
        whose = with_title(key, status.titles) if owners == 1 else count_of(owners, "account")
        months = dict.fromkeys(f"{each:%Y-%m}" for each in (first.first_month, first.last_month) if each)
        of_months = f", {'..'.join(months)}" if months else ""
        text = f"{first_few([each.dataset for each in group])} of {whose}{of_months}: {first.message}"
    if first.amount is not None:
        text += f" {first.amount:,f} {first.currency or ''}".rstrip()
    if first.acknowledged_by is not None:
        until = f" until {first.acknowledged_until}" if first.acknowledged_until else ""
        text += f" (acknowledged by {first.acknowledged_by}{until})"
    colour = Colour.FAINT if first.acknowledged_by else _COLOURS[first.severity]
    is_error = first.severity == "error" and first.acknowledged_by is None
    return Notice(first.kind, colour, text, _command_of(group), is_error)


def _command_of(group: Sequence[Problem]) -> str:
    """Return what ends a problem, or else what lists its rows."""
    first = group[0]
    if first.kind in ("failed", "mismatched", "altered") and "." not in first.dataset:
        command = "seller-platform sync"
        if first.dataset != "accounts":
            command += "".join(f" --dataset {each.dataset}" for each in group)
            command += f" --account {first.accounts[0]}" if first.owners == 1 else ""
        if first.first_month and first.last_month:
            command += f" --from {first.first_month:%Y-%m} --to {first.last_month:%Y-%m}"
        return command
    if first.kind == "postponed":
        return "seller-platform sync --plan"
    if named := _COMMAND.search(f"{first.next_step or ''} {first.message}"):
        return named[1]
    return f"{_LISTED} WHERE kind = '{first.kind}'\""
