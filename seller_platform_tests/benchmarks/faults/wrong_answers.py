"""Plants wrong answers and true shrinkings, and counts what is published unseen and what stays held.

`python -m seller_platform_tests.benchmarks.faults.wrong_answers [--answers 500]` prints one table.

Each wrong answer is given on two days, so that second readings agree with the first.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
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
from seller_platform.ingest.loads.slices import load_slice
from seller_platform.orchestration.assets.checks import judgements
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.benchmarks.faults.figures import Figure, print_figures
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


def _with_amounts(value: object) -> Callable[[Upstream], None]:
    def change(upstream: Upstream) -> None:
        names = {column.name for column in upstream.dataset.money}
        upstream.rows = [
            (part, day, {name: value if name in names else each for name, each in row.items()})
            for part, day, row in upstream.rows
        ]

    return change


def _distorted(distort: Callable[[Body], Body]) -> Callable[[Upstream], None]:
    return lambda upstream: setattr(upstream, "distort", distort)


def wrong_answers(rng: random.Random) -> Mapping[str, Callable[[Upstream], None]]:
    """Return every kind of wrong answer."""
    return {
        "empty": without(1, rng),
        "half": without(0.55, rng),
        "short": without(0.3, rng),
        "one page of several": without(0.8, rng),
        "amounts of zero": _with_amounts(0),
        "amounts of null": _with_amounts(None),
        "an error beside the data": _distorted(lambda body: {**body, "data": [], "total": 0, "error": "later"}),
        "an empty object": _distorted(lambda _: {"data": {}}),
        "empty, and no total": _distorted(lambda _: {"data": []}),
    }


def true_shrinkings(rng: random.Random, dataset: Dataset) -> Mapping[str, Callable[[Upstream], None]]:
    """Return every kind of true shrinking."""
    kinds: dict[str, Callable[[Upstream], None]] = {
        "1 % deleted": without(0.01, rng),
        "5 % deleted": without(0.05, rng),
        "10 % deleted": without(0.1, rng),
        "an account that closed": without(1, rng),
    }
    if dataset.money:
        kinds["everything cancelled"] = _with_amounts(0)
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
            try:
                return load_slice(api, self.database, account, upstream.dataset, span, run_id=None)
            except ImplausibleReadingError:
                return load_slice(api, self.database, account, upstream.dataset, span, run_id=None, is_second=True)

    def content(self, dataset: Dataset, key: str) -> list[Any]:
        """Return the newest rows of an account."""
        statement = f"SELECT count(*), sum(hashtext(row_hash::text)) FROM seller.{dataset.name} WHERE account = :key"
        with self.database.begin() as connection:
            return list(connection.execute(text(statement), {"key": key}).one())


def plant(database: Database, *, answers: int, seed: int) -> list[Figure]:
    """Plant wrong answers and true shrinkings, and count what became of them."""
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
    ends: Counter[str] = Counter()
    unseen: list[str] = []
    for number, (dataset, window, kind) in enumerate(islice(cycle(wrong), answers)):
        key = f"wrong-{number}"
        upstream = _upstream(dataset, window)
        for age in (60, 1):
            bench.read(upstream, key, window, NOW - timedelta(days=age))
        before = bench.content(dataset, key)
        wrong_answers(rng)[kind](upstream)
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
        red = [check.name for check, judgement in judgements(dataset, receipt) if not judgement.passed]
        is_same = bench.content(dataset, key) == before and not receipt.changed
        ends["unchanged" if is_same else f"published, {', '.join(red) or 'unseen'}"] += 1
        if not is_same and not red:
            unseen.append(f"{kind} of {dataset.name}, {window}")
    still = 0
    shrinkings = [
        (dataset, window, kind)
        for dataset in LISTS
        for window, kind in product(windows[dataset.is_dated], true_shrinkings(rng, dataset))
    ]
    for number, (dataset, window, kind) in enumerate(islice(cycle(shrinkings), answers)):
        key = f"true-{number}"
        upstream = _upstream(dataset, window)
        for age in (60, 1):
            bench.read(upstream, key, window, NOW - timedelta(days=age))
        true_shrinkings(rng, dataset)[kind](upstream)
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
        Figure("true shrinkings", answers),
        Figure("held for more than three refreshes", still, "at most 1 %", still <= answers // 100),
        Figure("readings that are held at the end", len(open_holds(database))),
    ]


def main() -> int:
    """Plant the answers and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--answers", type=int, default=500)
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args()
    # The pauses before retries of passing faults take no time.
    no_pause = SimpleNamespace(sleep=lambda _: None)
    with patch("tenacity.nap.time", no_pause), temporary_warehouse() as (url, _), Database(url) as database:
        figures = plant(database, answers=chosen.answers, seed=chosen.seed)
    return print_figures("Wrong answers", figures)


if __name__ == "__main__":
    sys.exit(main())
