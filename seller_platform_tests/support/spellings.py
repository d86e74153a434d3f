"""Hypothesis strategies for JSON rows as our service and other upstreams spell them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from seller_platform.contract import Column, Dataset, Kind, Window

ZONE = ZoneInfo("Europe/Berlin")
# October, whose last Sunday has an hour twice.
WINDOW = Window(date(2026, 10, 1), date(2026, 11, 1))

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
_DAYS = st.dates(WINDOW.start, WINDOW.last_day)
_FIRST_MOMENT = datetime(2026, 10, 1, tzinfo=ZONE).astimezone(UTC)
_MOMENTS = st.integers(0, 31 * 86_400 - 1).map(
    lambda seconds: (_FIRST_MOMENT + timedelta(seconds=seconds)).astimezone(ZONE)
)


@dataclass(frozen=True)
class Spelled:
    """One value: its JSON text in our own spelling, and in another one."""

    own: str
    other: str


@st.composite
def _number(draw: st.DrawFn) -> Spelled:
    number = draw(st.decimals(-(10**9), 10**9, places=2) | st.decimals(-1, 1, places=6))
    own, grouped = f"{number:f}", f"{number:,f}"
    return Spelled(own, draw(st.sampled_from([own, f'"{own}"', f'"{grouped}"', f'" {grouped} "'])))


@st.composite
def _integer(draw: st.DrawFn) -> Spelled:
    number = draw(st.integers(-(2**63), 2**63 - 1) | st.integers(-2000, 2000))
    return Spelled(str(number), draw(st.sampled_from([str(number), f'"{number}"', f'"{number:,}"', f"{number}.0"])))


@st.composite
def _boolean(draw: st.DrawFn) -> Spelled:
    value = draw(st.booleans())
    spellings = ["true", "1", '"1"', '"true"', '"True"'] if value else ["false", "0", '"0"', '"false"']
    return Spelled(spellings[0], draw(st.sampled_from(spellings)))


@st.composite
def _timestamp(draw: st.DrawFn) -> Spelled:
    moment = draw(_MOMENTS)
    own = moment.isoformat()
    spellings = [own, own.replace("T", " ")]
    if moment.replace(tzinfo=None, fold=0).replace(tzinfo=ZONE).isoformat() == own:
        bare = moment.replace(tzinfo=None).isoformat()
        spellings += [bare, bare.replace("T", " ")]
    return Spelled(f'"{own}"', f'"{draw(st.sampled_from(spellings))}"')


def _same(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Spelled]:
    return values.map(lambda value: Spelled(json.dumps(value), json.dumps(value, ensure_ascii=False)))


_VALUES: dict[Kind, Callable[[], st.SearchStrategy[Spelled]]] = {
    Kind.TEXT: lambda: _same(_TEXT),
    Kind.INTEGER: _integer,
    Kind.MONEY: _number,
    Kind.NUMBER: _number,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: lambda: _same(_DAYS.map(date.isoformat)),
    Kind.TIMESTAMP: _timestamp,
    Kind.JSON: lambda: st.just(Spelled('[{"amount":1.10}]', '[{"amount":1.10}]')),
}


@st.composite
def rows_in_two_spellings(draw: st.DrawFn, dataset: Dataset) -> tuple[list[str], list[str]]:
    """Return rows as JSON texts in our spelling, and the same rows in another."""
    pairs = [draw(_row(dataset)) for _ in range(draw(st.integers(0, 4)))]
    return [own for own, _ in pairs], [other for _, other in pairs]


@st.composite
def _row(draw: st.DrawFn, dataset: Dataset) -> tuple[str, str]:
    own, other = [], []
    for column in dataset.columns:
        if not column.key and column.name != dataset.day and draw(st.booleans()):
            own.append(_field(column.name, "null"))
            other += draw(st.sampled_from([[], [_field(column.name, "null")]]))
            continue
        value = draw(_VALUES[column.kind]())
        own.append(_field(column.name, value.own))
        other += [_field(name, value.other) for name in draw(st.sampled_from(_names(column)))]
    return "{" + ",".join(own) + "}", "{" + ", ".join(draw(st.permutations(other))) + "}"


def _names(column: Column) -> list[tuple[str, ...]]:
    return [
        (column.name,),
        *((alias,) for alias in column.aliases),
        *((column.name, alias) for alias in column.aliases),
    ]


def _field(name: str, text: str) -> str:
    return f"{json.dumps(name)}: {text}"


def page_of(rows: list[str], *, container: str = "array", counts: str = "numbers") -> bytes:
    """Return the body of a page with these rows."""
    if container == "bare":
        return f"[{','.join(rows)}]".encode()
    data = (
        "{" + ",".join(f'"{number}": {row}' for number, row in enumerate(rows)) + "}"
        if container == "keyed"
        else f"[{','.join(rows)}]"
    )
    envelope = {
        "numbers": f', "total": {len(rows)}, "per_page": 500, "last_page": 1, "current_page": 1',
        "strings": f', "total": "{len(rows)}", "per_page": "1,500", "last_page": "1", "current_page": "1"',
        "absent": ', "links": {"next": null}',
    }
    return f'{{"data": {data}{envelope[counts]}}}'.encode()
