"""Plants wrong answers and true changes, and counts what is published unseen and what stays held.

Each wrong answer is given on two days, so that second readings agree with the first.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import cycle, islice, product
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import httpx
import time_machine
from sqlalchemy import text

from seller_platform.contract import LISTS, Account, Column, Dataset, Kind, Window
from seller_platform.errors import ImplausibleReadingError, SellerPlatformError
from seller_platform.ingest.loads.slices import SliceRequest, load_slice
from seller_platform.orchestration.assets.checks import judgements
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support.http_upstream import FakeTime, api_of
from seller_platform_tests.support.installation import temporary_warehouse

NOW = datetime(2026, 6, 20, 12, tzinfo=UTC)
SETTLED = Window(date(2026, 3, 1), date(2026, 4, 1))
RECENT = Window(date(2026, 6, 10), date(2026, 6, 20))
ROWS = 300
REFRESHES = 4

Body = dict[str, Any]
WireRow = dict[str, Any]


@dataclass
class Upstream:
    """One list of one account, in memory.

    Attributes:
        rows: The rows by value of the filter by which the list is read in parts.
        distort: What happens to an answer before it is sent.
    """

    dataset: Dataset
    rows: list[tuple[str | None, date, WireRow]]
    distort: Callable[[Body], Body] = field(default=lambda body: body)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        asked = request.url.params
        value = asked.get(self.dataset.split_by.parameter) if self.dataset.split_by else None
        first, last = asked.get("start_date", "0"), asked.get("end_date", "9")
        is_summed = self.dataset.is_dated and not self.dataset.is_divisible
        chosen = [
            row
            for part, day, row in self.rows
            if value in (None, part) and (not self.dataset.is_dated or is_summed or first <= str(day) <= last)
        ]
        size = int(asked.get("per_page", self.dataset.fixed_page_size or 500))
        page = int(asked.get("page", 1))
        body: Body = {"data": chosen[(page - 1) * size : page * size]}
        if self.dataset.announces_total:
            body |= {"total": len(chosen), "last_page": max(1, -(-len(chosen) // size))}
        return httpx.Response(200, json=self.distort(body))


def without(share: float, rng: random.Random) -> Callable[[Upstream], None]:
    """Return what takes away a share of the rows."""

    def shrink(upstream: Upstream) -> None:
        upstream.rows = sorted(
            rng.sample(upstream.rows, round(len(upstream.rows) * (1 - share))), key=lambda row: row[1]
        )

    return shrink


def changed(
    change: Callable[[Dataset, WireRow], WireRow], days: int | None = None, share: float = 1
) -> Callable[[Upstream], None]:
    """Return what changes a share of the rows, of all days or of so many."""

    def apply(upstream: Upstream) -> None:
        chosen = sorted({day for _, day, _ in upstream.rows})[5:][:days]
        every = round(1 / share)
        upstream.rows = [
            (
                part,
                day,
                change(upstream.dataset, row) if (days is None or day in chosen) and not number % every else row,
            )
            for number, (part, day, row) in enumerate(upstream.rows)
        ]

    return apply


def repeated(times: int, days: int | None) -> Callable[[Upstream], None]:
    """Return what lists each row of some days again, or one row of them many times."""

    def apply(upstream: Upstream) -> None:
        chosen = sorted({day for _, day, _ in upstream.rows})[5:][:days]
        of_days = [row for row in upstream.rows if days is None or row[1] in chosen]
        more = of_days if times == 2 else [of_days[0]] * times
        upstream.rows = sorted([*upstream.rows, *more], key=lambda row: row[1])

    return apply


def _with(names: Callable[[Dataset], Iterable[str]], value: Callable[[Any], object]) -> Callable[..., WireRow]:
    def change(dataset: Dataset, row: WireRow) -> WireRow:
        return row | {name: value(row[name]) for name in names(dataset) if row.get(name) is not None}

    return change


def _amounts(dataset: Dataset) -> list[str]:
    return [column.name for column in dataset.money]


def _further_amounts(dataset: Dataset) -> list[str]:
    return [] if dataset.is_computed else _amounts(dataset)[1:]


def _quantities(dataset: Dataset) -> list[str]:
    return [column.name for column in dataset.columns if column.kind is Kind.INTEGER]


def _currencies(dataset: Dataset) -> list[str]:
    return [column.currency for column in dataset.money if column.currency]


def _names(*ends: str) -> Callable[[Dataset], list[str]]:
    return lambda dataset: [column.name for column in dataset.columns if column.name.endswith(ends)]


def _foreign(dataset: Dataset, row: WireRow) -> WireRow:
    """Return the row of another account: other names and numbers, on the same day."""
    texts = {name: f"foreign-{each}" for name, each in row.items() if isinstance(each, str) and "-" in each[:-4]}
    days = {column.name for column in dataset.columns if column.kind in (Kind.DATE, Kind.TIMESTAMP)}
    amounts = {name: row[name] * 2.7 + 3 for name in _amounts(dataset) if row.get(name) is not None}
    return row | {name: each for name, each in texts.items() if name not in days} | amounts


_WITH_AMOUNTS: Mapping[str, Callable[..., WireRow]] = {
    "rows of another account": _foreign,
    "amounts times 100": _with(_amounts, lambda each: each * 100),
    "amounts with another sign": _with(_amounts, lambda each: -each),
    "another currency": _with(_currencies, lambda _: "JPY"),
    "no currency": _with(_currencies, lambda _: None),
    "no SKU": _with(_names("sku"), lambda _: None),
    "no order": _with(_names("order_id"), lambda _: None),
    "no name": _with(_names("product_name"), lambda _: None),
    "no ASIN": _with(_names("asin"), lambda _: None),
    "amounts of a hundredth": _with(_amounts, lambda each: each / 100),
    "other amounts beside the first": _with(_further_amounts, lambda each: each * 2),
    "empty names": _with(_names("product_name", "asin"), lambda _: ""),
}


def content_answers() -> Mapping[str, Callable[[Upstream], None]]:
    """Return the wrong answers whose rows are as many as before, on two days and on all days."""
    kinds: dict[str, Callable[[Upstream], None]] = {}
    for days in (2, None):
        where = "two days" if days else "all days"
        kinds |= {f"{kind}, {where}": changed(change, days) for kind, change in _WITH_AMOUNTS.items()}
        kinds |= {f"every row twice, {where}": repeated(2, days), f"one row 620 times, {where}": repeated(620, days)}
    kinds["quantities with another sign, all days"] = changed(_with(_quantities, lambda each: -each))
    return kinds


def _differs(upstream: Upstream, kind: Callable[[Upstream], None]) -> bool:
    """Whether a wrong answer changes anything in a list of this dataset."""
    before = list(upstream.rows)
    kind(upstream)
    return upstream.rows != before


def _all_but_a_cent(upstream: Upstream) -> None:
    changed(_with(_amounts, lambda _: 0))(upstream)
    part, day, row = upstream.rows[0]
    upstream.rows[0] = part, day, row | {_amounts(upstream.dataset)[0]: 0.01}


def _distorted(distort: Callable[[Body], Body]) -> Callable[[Upstream], None]:
    return lambda upstream: setattr(upstream, "distort", distort)


def wrong_answers(rng: random.Random) -> Mapping[str, Callable[[Upstream], None]]:
    """Return every kind of wrong answer."""
    return {
        "empty": without(1, rng),
        "half": without(0.55, rng),
        "short": without(0.3, rng),
        "one page of several": without(0.8, rng),
        "amounts of zero": changed(_with(_amounts, lambda _: 0)),
        "amounts of null": changed(_with(_amounts, lambda _: None)),
        "amounts of zero but one cent": _all_but_a_cent,
        "an error beside the data": _distorted(lambda body: {**body, "data": [], "total": 0, "error": "later"}),
        "an empty object": _distorted(lambda _: {"data": {}}),
        "empty, and no total": _distorted(lambda _: {"data": []}),
    }


def true_changes(rng: random.Random, dataset: Dataset) -> Mapping[str, Callable[[Upstream], None]]:
    """Return every kind of true change."""
    kinds: dict[str, Callable[[Upstream], None]] = {
        "1 % deleted": without(0.01, rng),
        "5 % deleted": without(0.05, rng),
        "10 % deleted": without(0.1, rng),
        "an account that closed": without(1, rng),
        "products that are renamed": changed(_with(_names("product_name", "asin"), lambda each: f"new {each}")),
        "a status that changed": changed(_with(_names("status"), lambda _: "Returned")),
    }
    if dataset.money:
        kinds["everything cancelled"] = changed(_with(_amounts, lambda _: 0))
        kinds["5 % corrected"] = changed(_with(_amounts, lambda each: each + 1), share=0.05)
        kinds["a day corrected"] = changed(_with(_amounts, lambda each: each * 2), days=1)
        kinds["a tax that was added"] = changed(_with(_amounts, lambda each: each * 1.19))
    return kinds


def _value(column: Column, number: int, day: date) -> object:
    values: dict[Kind, object] = {
        Kind.MONEY: 1.25 + number,
        Kind.NUMBER: 1.25 + number,
        Kind.INTEGER: number,
        Kind.BOOLEAN: True,
        Kind.DATE: str(day),
        Kind.TIMESTAMP: f"{day}T10:00:00+00:00",
        Kind.JSON: [],
    }
    return values.get(column.kind, f"{column.name}-{number}")


def _upstream(dataset: Dataset, window: Window) -> Upstream:
    days = list(window.each_day())
    parts = cycle(dataset.split_by.values) if dataset.split_by else cycle([None])
    count = len(days) if dataset.name == "sales_by_date" else ROWS
    rows = []
    for number, part in zip(range(count), parts, strict=False):
        day = days[number % len(days)]
        row = {column.name: _value(column, number, day) for column in dataset.columns}
        if dataset.split_by and dataset.split_by.field:
            row[dataset.split_by.field] = part
        rows.append((part, day, row))
    return Upstream(dataset, sorted(rows, key=lambda row: row[1]))


@dataclass(frozen=True)
class Bench:
    """The warehouse and an account for each case."""

    database: Database

    def read(self, upstream: Upstream, key: str, window: Window, now: datetime) -> Receipt:
        """Refresh: read the slice, and once more if the reading is implausible."""
        account = KnownAccount(key, "default", Account(1, key, "DE", "EUR", "UTC", "M", "S"))
        span = window if upstream.dataset.is_dated else Window.day(now.date())
        with time_machine.travel(now, tick=True), api_of(upstream, time=FakeTime()) as api:
            request = SliceRequest(upstream.dataset, key, span)
            try:
                return load_slice(api, self.database, account, request, span, run_id=None)
            except ImplausibleReadingError:
                return load_slice(api, self.database, account, replace(request, is_second=True), span, run_id=None)

    def content(self, dataset: Dataset, key: str) -> list[Any]:
        """Return the newest rows of an account."""
        statement = f"SELECT count(*), sum(hashtext(row_hash::text)) FROM seller.{dataset.name} WHERE account = :key"
        return list(self.database.execute(text(statement), {"key": key}).one())


def plant(database: Database, *, answers: int, seed: int) -> list[Figure]:
    """Plant wrong answers and true changes, and count what became of them."""
    rng, bench = random.Random(seed), Bench(database)
    windows = {True: (SETTLED, RECENT), False: (RECENT,)}
    wrong = [
        (dataset, window, kind)
        for dataset in LISTS
        for window, kind in product(windows[dataset.is_dated], wrong_answers(rng))
        if dataset.money or "amounts" not in kind
        # Of a snapshot only the loss of more than half is implausible; a dated list of few rows may lose some.
        if kind != "short" or (dataset.is_dated and dataset.name != "sales_by_date")
    ]
    kinds = {**wrong_answers(rng), **content_answers()}
    wrong += [
        (dataset, SETTLED, kind)
        for dataset in LISTS
        for kind, change in content_answers().items()
        # Rows that sum up their window have no days.
        if dataset.money
        and (dataset.is_divisible or "all days" in kind)
        and _differs(_upstream(dataset, SETTLED), change)
    ]
    rng.shuffle(wrong)
    ends: Counter[str] = Counter()
    unseen: list[str] = []
    for number, (dataset, window, kind) in enumerate(islice(cycle(wrong), answers)):
        key = f"wrong-{number}"
        upstream = _upstream(dataset, window)
        for age in (60, 1):
            bench.read(upstream, key, window, NOW - timedelta(days=age))
        before = bench.content(dataset, key)
        kinds[kind](upstream)
        try:
            # The next day the upstream still says so.
            with suppress(SellerPlatformError):
                bench.read(upstream, key, window, NOW)
            receipt = bench.read(upstream, key, window, NOW + timedelta(days=1))
        except SellerPlatformError as error:
            ends[type(error).__name__] += 1
            if bench.content(dataset, key) != before:
                unseen.append(f"{kind} of {dataset.name}: rows changed in spite of {type(error).__name__}")
            continue
        red = [str(each.check_name) for each in judgements(database, dataset, [key]) if not each.passed]
        is_same = bench.content(dataset, key) == before and not receipt.changed
        ends["unchanged" if is_same else f"published, {', '.join(red) or 'unseen'}"] += 1
        if not is_same and not red:
            unseen.append(f"{kind} of {dataset.name}, {window}")
    still = 0
    true_ones = [
        (dataset, window, kind)
        for dataset in LISTS
        for window, kind in product(windows[dataset.is_dated], true_changes(rng, dataset))
    ]
    for number, (dataset, window, kind) in enumerate(islice(cycle(true_ones), answers)):
        key = f"true-{number}"
        upstream = _upstream(dataset, window)
        for age in (60, 1):
            bench.read(upstream, key, window, NOW - timedelta(days=age))
        true_changes(rng, dataset)[kind](upstream)
        for refresh in range(REFRESHES):
            try:
                bench.read(upstream, key, window, NOW + timedelta(days=refresh))
            except SellerPlatformError:
                still += refresh == REFRESHES - 1
    return [
        Figure("wrong answers", answers),
        *(Figure(f"  {end}", count) for end, count in ends.most_common()),
        *(Figure("  published unseen", each, "none", is_kept=False) for each in sorted(set(unseen))),
        Figure("published unseen", len(unseen), "0", not unseen),
        Figure("true changes", answers),
        Figure("held for more than three refreshes", still, "at most 1 %", still <= answers // 100),
        Figure("readings that are held at the end", len(open_holds(database))),
    ]


def measure(*, answers: int = 1_000, seed: int = 7) -> Promises:
    """Options: wrong answers, as many true changes, and the seed of both."""
    # The pauses before retries of passing faults take no time.
    no_pause = SimpleNamespace(sleep=lambda _: None)
    with patch("tenacity.nap.time", no_pause), temporary_warehouse() as (url, _), Database(url) as database:
        return Promises("Wrong answers", plant(database, answers=answers, seed=seed))
