"""Tests that no kind of wrong answer about a list is published unseen, and that every kind of true change is published.

Each wrong answer is given on two days, so that second readings agree with the first. CI tries two lists; the others are
tried every night.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import cycle
from typing import Any, TypeAlias

import httpx
import pytest
import time_machine
from sqlalchemy import text

from seller_platform.contract import LISTS, Account, Column, Dataset, Kind, Window
from seller_platform.errors import ImplausibleReadingError, SellerPlatformError
from seller_platform.ingest.loads.slices import SliceRequest, load_slice
from seller_platform.orchestration.assets.checks import judgements
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import FakeTime, MovingList, api_of
from seller_platform_tests.support.pauses import pauses_take_no_time

__all__ = ["pauses_take_no_time"]

pytestmark = pytest.mark.slow

NOW = datetime(2026, 6, 20, 12, tzinfo=UTC)
SETTLED = Window(date(2026, 3, 1), date(2026, 4, 1))
RECENT = Window(date(2026, 6, 10), date(2026, 6, 20))
ROWS = 300
REFRESHES = 4
IN_CI = ("transactions", "warehouse_stock")

WireRow: TypeAlias = dict[str, Any]
ChangedRow: TypeAlias = Callable[[Dataset, WireRow], WireRow]


@dataclass
class Upstream:
    """One list of one account, in memory.

    Attributes:
        rows: The rows, each with the value of the filter by which the list is read in parts, and its day.
        distort: What happens to a page before it is sent.
    """

    dataset: Dataset
    rows: list[tuple[str | None, date, WireRow]]
    distort: Callable[[WireRow], WireRow] = lambda page: page

    def __call__(self, request: httpx.Request) -> httpx.Response:
        asked = request.url.params
        value = asked.get(self.dataset.split_by.parameter) if self.dataset.split_by else None
        days = (asked.get("start_date", "0"), asked.get("end_date", "9")) if self.dataset.is_divisible else ("0", "9")
        chosen = [row for part, day, row in self.rows if value in (None, part) and days[0] <= str(day) <= days[1]]
        envelope = ("total", "last_page") if self.dataset.announces_total else ()
        size = self.dataset.fixed_page_size
        return MovingList(chosen, page_size=size, envelope=envelope, change=lambda page, _: self.distort(page))(request)


Change: TypeAlias = Callable[[Upstream], object]


def _without(share: float) -> Change:
    def shrink(upstream: Upstream) -> None:
        kept = random.Random(7).sample(upstream.rows, round(len(upstream.rows) * (1 - share)))
        upstream.rows = sorted(kept, key=lambda row: row[1])

    return shrink


def _changed(change: ChangedRow, days: int | None = None, share: float = 1) -> Change:
    """Return what changes a share of the rows, of all days or of so many."""

    def apply(upstream: Upstream) -> None:
        chosen = _chosen(upstream, days, share)
        upstream.rows = [
            (part, day, change(upstream.dataset, row) if (part, day, row) in chosen else row)
            for part, day, row in upstream.rows
        ]

    return apply


def _repeated(times: int, days: int | None, share: float = 1, change: ChangedRow = lambda _, row: row) -> Change:
    """Return what lists a share of the rows of some days again, or one row of them many times."""

    def apply(upstream: Upstream) -> None:
        rows = _chosen(upstream, days, share)
        more = rows if times == 2 else [rows[0]] * times
        again = [(part, day, change(upstream.dataset, row)) for part, day, row in more]
        upstream.rows = sorted([*upstream.rows, *again], key=lambda row: row[1])

    return apply


def _chosen(upstream: Upstream, days: int | None, share: float) -> list[tuple[str | None, date, WireRow]]:
    chosen = sorted({day for _, day, _ in upstream.rows})[5:][:days]
    of_days = [row for row in upstream.rows if days is None or row[1] in chosen]
    return of_days[:: round(1 / share)]


def _with(names: Callable[[Dataset], Iterable[str]], value: Callable[[Any], object]) -> ChangedRow:
    def change(dataset: Dataset, row: WireRow) -> WireRow:
        return row | {name: value(row[name]) for name in names(dataset) if row.get(name) is not None}

    return change


def _amounts(dataset: Dataset) -> list[str]:
    return [column.name for column in dataset.money]


def _further_amounts(dataset: Dataset) -> list[str]:
    return _amounts(dataset)[1:]


def _quantities(dataset: Dataset) -> list[str]:
    return [column.name for column in dataset.columns if column.kind is Kind.INTEGER and column.name not in dataset.key]


def _currencies(dataset: Dataset) -> list[str]:
    return [column.currency for column in dataset.money if column.currency]


def _names(*ends: str) -> Callable[[Dataset], list[str]]:
    return lambda dataset: [column.name for column in dataset.columns if column.name.endswith(ends)]


def _foreign(dataset: Dataset, row: WireRow) -> WireRow:
    """Return the row of another account: other names and numbers, on the same day."""
    days = {column.name for column in dataset.columns if column.kind in (Kind.DATE, Kind.TIMESTAMP)}
    texts = {name: f"foreign-{each}" for name, each in row.items() if isinstance(each, str) and "-" in each[:-4]}
    amounts = {name: row[name] * 2.7 + 3 for name in _amounts(dataset) if row.get(name) is not None}
    return row | {name: each for name, each in texts.items() if name not in days} | amounts


def _exchange_channels(upstream: Upstream) -> None:
    split = upstream.dataset.split_by
    if split is not None and split.tag is not None:
        another = dict(zip(split.values, reversed(split.values), strict=True))
        upstream.rows = [(another[str(part)], day, row) for part, day, row in upstream.rows]


def _all_but_a_cent(upstream: Upstream) -> None:
    _changed(_with(_amounts, lambda _: 0))(upstream)
    part, day, row = upstream.rows[0]
    upstream.rows[0] = part, day, row | dict.fromkeys(_amounts(upstream.dataset)[:1], 0.01)


def _defer(upstream: Upstream) -> None:
    """Date some rows a day later."""
    for number in range(3, len(upstream.rows), 40):
        part, day, row = upstream.rows[number]
        later = day + timedelta(days=1)
        moved = {name: value.replace(str(day), str(later)) for name, value in row.items() if isinstance(value, str)}
        upstream.rows[number] = part, later, row | moved
    upstream.rows.sort(key=lambda row: row[1])


def _distorted(distort: Callable[[WireRow], WireRow]) -> Change:
    return lambda upstream: setattr(upstream, "distort", distort)


OF_ANY_DAY: Mapping[str, Change] = {
    "empty": _without(1),
    "half": _without(0.55),
    "short": _without(0.3),
    "one page of several": _without(0.8),
    "amounts of zero": _changed(_with(_amounts, lambda _: 0)),
    "amounts of null": _changed(_with(_amounts, lambda _: None)),
    "amounts of zero but one cent": _all_but_a_cent,
    "an error beside the data": _distorted(lambda page: {**page, "data": [], "total": 0, "error": "later"}),
    "an empty object": _distorted(lambda _: {"data": {}}),
    "empty, and no total": _distorted(lambda _: {"data": []}),
}
OF_ROWS: Mapping[str, ChangedRow] = {
    "rows of another account": _foreign,
    "amounts times 100": _with(_amounts, lambda each: each * 100),
    "amounts with another sign": _with(_amounts, lambda each: -each),
    "another currency": _with(_currencies, lambda _: "JPY"),
    "no currency": _with(_currencies, lambda _: None),
    "no SKU": _with(_names("sku"), lambda _: None),
    "no order": _with(_names("order_id"), lambda _: None),
    "no name": _with(_names("name"), lambda _: None),
    "no ASIN": _with(_names("asin"), lambda _: None),
    "amounts of a hundredth": _with(_amounts, lambda each: each / 100),
    "other amounts beside the first": _with(_further_amounts, lambda each: each * 2),
    "empty names": _with(_names("name", "asin"), lambda _: ""),
}
OF_ALL_SETTLED_DAYS: Mapping[str, Change] = {
    "quantities with another sign": _changed(_with(_quantities, lambda each: -each)),
    "no quantities": _changed(_with(_quantities, lambda _: 0)),
    "amounts of a third of the rows times 3": _changed(_with(_amounts, lambda each: each * 3), share=1 / 3),
    "every twelfth row twice": _repeated(2, None, share=1 / 12),
    "sales channels exchanged": _exchange_channels,
    "fees of null": _changed(_with(_further_amounts, lambda _: None)),
}
OF_SNAPSHOTS: Mapping[str, Change] = {
    "stock of zero": _changed(_with(_quantities, lambda _: 0)),
    "stock times ten": _changed(_with(_quantities, lambda each: each * 10)),
    "stock of a tenth": _changed(_with(_quantities, lambda each: each // 10)),
    "negative stock": _changed(_with(_quantities, lambda each: -each)),
    "products without names": _changed(_with(_names("name"), lambda _: None)),
    "products of another account": _changed(_foreign),
    "every product twice": _repeated(2, None),
}
TRUE: Mapping[str, Change] = {
    "1 % deleted": _without(0.01),
    "5 % deleted": _without(0.05),
    "10 % deleted": _without(0.1),
    "an account that closed": _without(1),
    "products that are renamed": _changed(_with(_names("product_name", "asin"), lambda each: f"new {each}")),
    "a status that changed": _changed(_with(_names("status"), lambda _: "Returned")),
    "a tenth more rows": _repeated(2, None, share=1 / 10, change=_foreign),
    "another catalogue": _changed(_foreign),
    "everything cancelled": _changed(_with(_amounts, lambda _: 0)),
    "5 % corrected": _changed(_with(_amounts, lambda each: each + 1), share=0.05),
    "a day corrected": _changed(_with(_amounts, lambda each: each * 2), days=1),
    "a tax that was added": _changed(_with(_amounts, lambda each: each * 1.19)),
    "prices of a third": _changed(_with(_amounts, lambda each: each * 1.5), share=1 / 3),
    "a tenth refunded": _repeated(2, None, share=1 / 10, change=_with(_amounts, lambda each: -each)),
    "deferrals": _defer,
    "a stock-take": _changed(_with(_quantities, lambda each: each + each % 3)),
    "a third sold out": _changed(_with(_quantities, lambda _: 0), share=1 / 3),
}


def _wrong(dataset: Dataset, window: Window) -> Mapping[str, Change]:
    """Return the wrong answers that the page *checks* promises to stop in a list on such days."""
    kinds = dict(OF_ANY_DAY)
    if not dataset.is_dated or dataset.name == "sales_by_date":
        del kinds["short"]  # they may lose some rows
    if not dataset.is_dated:
        return {**kinds, **OF_SNAPSHOTS}
    if window == SETTLED:
        kinds |= OF_ALL_SETTLED_DAYS
        # Rows that sum up their window have no days.
        for where, days in {"all days": None, "two days": 2}.items() if dataset.is_divisible else [("all days", None)]:
            kinds |= {f"{kind}, {where}": _changed(each, days) for kind, each in OF_ROWS.items()}
            kinds |= {
                f"every row twice, {where}": _repeated(2, days),
                f"one row 620 times, {where}": _repeated(620, days),
            }
    return kinds


def _value(column: Column, number: int, day: date) -> object:
    values: dict[Kind, object] = {
        Kind.MONEY: 1.25 + number,
        Kind.NUMBER: 1.25 + number,
        Kind.INTEGER: number,
        Kind.BOOLEAN: True,
        Kind.DATE: str(day),
        Kind.TIMESTAMP: f"{day}T{number * 7 % 24:02}:00:00+00:00",
        Kind.JSON: json.dumps([{"cost_element": "Unit", "currency": "EUR", "amount": "12.50"}]),
    }
    return values.get(column.kind, f"{column.name}-{number}")


def _upstream(dataset: Dataset, window: Window) -> Upstream:
    days = list(window.each_day())
    parts = cycle(dataset.split_by.values) if dataset.split_by else cycle([None])
    rows = []
    for number, part in zip(range(len(days) if dataset.name == "sales_by_date" else ROWS), parts, strict=False):
        day = days[number % len(days)]
        row = {column.name: _value(column, number, day) for column in dataset.columns}
        if dataset.split_by and dataset.split_by.field:
            row[dataset.split_by.field] = part
        rows.append((part, day, row))
    return Upstream(dataset, sorted(rows, key=lambda row: row[1]))


def _read(database: Database, upstream: Upstream, key: str, window: Window, now: datetime) -> None:
    """Read a slice, and once more if the reading is implausible."""
    account = KnownAccount(key, "default", Account(1, key, "DE", "EUR", "UTC", "M", "S"))
    span = window if upstream.dataset.is_dated else Window.day(now.date())
    request = SliceRequest(upstream.dataset, key, span)
    with time_machine.travel(now, tick=True), api_of(upstream, time=FakeTime()) as api:
        try:
            load_slice(api, database, account, request, span, run_id=None)
        except ImplausibleReadingError:
            load_slice(api, database, account, replace(request, is_second=True), span, run_id=None)


def _play(
    database: Database, dataset: Dataset, kinds: Callable[[Window], Mapping[str, Change]], refreshes: int
) -> Iterator[tuple[str, bool, bool]]:
    """Yield the account of each kind that changes the list, and whether its rows and its last reading were published.

    Before, what was true is stored.
    """
    content = text(
        f"SELECT count(*), sum(hashtext(row_hash::text)) FROM seller.{dataset.name} WHERE account = :account"
    )
    for window in (SETTLED, RECENT) if dataset.is_dated else (RECENT,):
        for kind, change in kinds(window).items():
            true, upstream, is_published = _upstream(dataset, window), _upstream(dataset, window), False
            change(upstream)
            if upstream == true:
                continue
            account = f"{kind}, {window}".replace("%", "percent")
            _read(database, true, account, window, NOW - timedelta(days=1))
            before = database.execute(content, {"account": account}).one()
            for days in range(refreshes):
                try:
                    _read(database, upstream, account, window, NOW + timedelta(days=days))
                    is_published = True
                except SellerPlatformError:
                    is_published = False
            yield account, database.execute(content, {"account": account}).one() != before, is_published


DATASETS = [pytest.param(each, marks=[] if each.name in IN_CI else pytest.mark.nightly, id=each.name) for each in LISTS]


@pytest.mark.parametrize("dataset", DATASETS)
def test_no_wrong_answer_is_published_unseen(database: Database, dataset: Dataset) -> None:
    assert [
        account
        for account, is_changed, _ in _play(database, dataset, lambda window: _wrong(dataset, window), refreshes=2)
        if is_changed and all(each.passed for each in judgements(database, dataset, [account]))
    ] == []


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_true_change_is_published_after_a_few_refreshes(database: Database, dataset: Dataset) -> None:
    changes = _play(database, dataset, lambda _: TRUE, REFRESHES)

    assert [account for account, _, is_published in changes if not is_published] == []
