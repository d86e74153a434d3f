"""What needs attention, with the exact command for each: the problems in their order, then what was restated."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seller_platform.cli.output import with_title
from seller_platform.cli.status.overview import StatusDocument
from seller_platform.cli.terminal.colours import Colour
from seller_platform.counts import count_of
from seller_platform.errors import first_few
from seller_platform.warehouse.monitoring.problems import Problem

_COLOURS = {"error": Colour.BAD, "warning": Colour.DOUBTFUL, "note": Colour.FAINT}
_LISTED = 'seller-platform query "SELECT * FROM platform.problems'
_COMMAND = re.compile("`(seller-platform [^`]+)`")
_READ_AGAIN = ("failed", "mismatched", "altered")


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


def findings(status: StatusDocument) -> list[Notice]:
    """Return what needs attention: a finding for each problem, whose datasets are named together."""
    groups: dict[tuple[object, ...], list[Problem]] = {}
    for each in status.problems:
        groups.setdefault((each.kind, each.severity, each.message, each.acknowledged_by), []).append(each)
    return [*(_notice(status, group) for group in groups.values()), *_restated(status)]


def _notice(status: StatusDocument, group: Sequence[Problem]) -> Notice:
    first = group[0]
    key = first.accounts[0]
    text, named = first.message, f"{first.dataset} of {key}"
    if text.startswith(f"{named}, "):
        text = f"{first.dataset} of {with_title(key, status.titles)}{text.removeprefix(named)}"
    elif first.dataset != "accounts":
        owners = max(each.owners for each in group)
        whose = with_title(key, status.titles) if owners == 1 else count_of(owners, "account")
        text = f"{first_few([each.dataset for each in group])} of {whose}{_months(first)}: {first.message}"
    if first.amount is not None:
        text += f" {first.amount:,f} {first.currency or ''}".rstrip()
    if first.acknowledged_by is not None:
        until = f" until {first.acknowledged_until}" if first.acknowledged_until else ""
        text += f" (acknowledged by {first.acknowledged_by}{until})"
    colour = Colour.FAINT if first.acknowledged_by else _COLOURS[first.severity]
    is_error = first.severity == "error" and first.acknowledged_by is None
    return Notice(first.kind, colour, text, _command_of(group), is_error)


def _months(problem: Problem) -> str:
    first, last = problem.first_month, problem.last_month
    if first is None or last is None:
        return ""
    return f", {first:%Y-%m}" if first == last else f", {first:%Y-%m}..{last:%Y-%m}"


def _command_of(group: Sequence[Problem]) -> str:
    """Return what ends a problem, or else what lists its rows."""
    first = group[0]
    if first.kind in _READ_AGAIN and "." not in first.dataset:
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


def _restated(status: StatusDocument) -> Iterator[Notice]:
    for each in status.since_yesterday.restatements:
        month = f" {each.first_day:%Y-%m}" if f"{each.first_day:%Y-%m}" == f"{each.last_day:%Y-%m}" else ""
        days = f"{each.first_day}" if each.first_day == each.last_day else f"{each.first_day}..{each.last_day}"
        amount = "" if each.amount is None else f"{each.amount_name} {each.amount:+,f}; "
        rows = f"{count_of(each.rows_came, 'row')} came, {each.rows_went:,} went"
        text = f"{each.dataset} of {with_title(each.account, status.titles)}, {days}: {amount}{rows}"
        yield Notice("restated", Colour.HEADING, text, f"seller-platform diff {each.dataset} {each.account}{month}")
