"""Walks over the pages of lists that change all the time, and counts those that are not of one moment.

`python -m seller_platform_tests.benchmarks.walks [--walks 10000] [--minutes 60] [--pinned no]` prints a table.

A service in a process of its own serves two lists of an account. Loaders replace their slices all the time: three days
of orders, each by a loader of its own, and snapshots of stock, now of the same day, now of the next. A load writes
its number into every second row and has another number of rows than the load before. The client's own code walks over
both lists in turn.

A walk is whole if it is complete on the first attempt, and the rows of each slice are exactly those of one load. The
loads that the walks saw are compared, too: of any two walks one saw no later load of any slice than the other. With
`--pinned no` the client ignores the links between pages, which shows how often the lists change during a walk.
"""

import argparse
import itertools
import statistics
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

from rich.console import Console
from rich.table import Table

from seller_platform.client.decoding.pages import Page, PageDecoder
from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.pagination import WalkEndedError, read_pages
from seller_platform.client.lists.prefetch import PageFetcher
from seller_platform.client.oauth.tokens import TokenAuth
from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.service.oauth.temporary_access import temporary_access
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.slices import Slice, open_load
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.benchmarks.serving import service
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.served import list_accounts

KEY, ACCOUNT = "S1.US", Account(1, "Moving", "US", "USD", "UTC", "US", "S1")
ORDERS, STOCK = dataset_named("orders"), dataset_named("warehouse_stock")
FIRST_DAY, DAYS = date(2026, 3, 1), 3
SNAPSHOTS_A_DAY = 5
_PAUSE_SECONDS = 0.05
_ATTEMPTS = 20

Contents = Counter[tuple[str, int]]
"""The rows of a slice: their keys and the loads that they name."""


@dataclass(frozen=True)
class Walk:
    """What one walk saw.

    Attributes:
        loads: The number of the load of each slice; None where the rows are those of no load.
    """

    dataset: Dataset
    loads: tuple[int | None, ...]
    pages: int
    attempts: int
    seconds: float

    @property
    def is_whole(self) -> bool:
        return self.attempts == 1 and None not in self.loads


class MovingLists:
    """Loads the slices of both lists again and again, in threads."""

    def __init__(self, database: Database) -> None:
        self._database, self._is_over = database, threading.Event()
        self.loads = 0
        for number in range(DAYS):
            self._load_day(number, 1)
        self._load_snapshot(1)

    def run(self, number: int) -> None:
        """Load one slice until `end` is called; the last is the stock."""
        for load in itertools.count(2):
            if self._is_over.is_set():
                return
            if number < DAYS:
                self._load_day(number, load)
            else:
                self._load_snapshot(load)
            self.loads += 1
            self._is_over.wait(_PAUSE_SECONDS)

    def end(self) -> None:
        self._is_over.set()

    def _load_day(self, number: int, load: int) -> None:
        day = FIRST_DAY + timedelta(days=number)
        rows: list[Row] = [
            (f"O-{row:04}", f"{day}T12:00:00Z", "Shipped", "1.00", "USD", quantity, "SKU", None, "Tea", day)
            for row, quantity in enumerate(_quantities(number, load))
        ]
        self._store(Slice(ORDERS, KEY, Window.day(day)), rows)

    def _load_snapshot(self, load: int) -> None:
        day = FIRST_DAY + timedelta(days=load // SNAPSHOTS_A_DAY)
        rows: list[Row] = [
            (f"SKU-{row:04}", "Main", quantity, "A", "available", None, day)
            for row, quantity in enumerate(_quantities(DAYS, load))
        ]
        self._store(Slice(STOCK, KEY, Window.day(day)), rows)

    def _store(self, slice_: Slice, rows: Sequence[Row]) -> None:
        with open_load(self._database, slice_) as load:
            load.spool.write(rows, tags=("platform",) if slice_.dataset.tags else (), page=1)
            facts = LoadFacts(1, 1, 0, len(rows), CountVerdict.MATCH)
            load.store(facts, started_at=datetime.now(UTC))


def _quantities(slice_number: int, load: int) -> list[int]:
    """Return the quantity in each row of a load: its number in every second row, else 0."""
    fewest, most = (90, 210) if slice_number < DAYS else (25, 65)
    rows = Random(f"{slice_number} {load}").randrange(fewest, most)
    return [load if row % 2 else 0 for row in range(rows)]


def walk(api: SellerApi, dataset: Dataset, *, is_pinned: bool) -> Walk:
    """Walk over a list until an attempt leaves no doubt, as the client does."""
    window = Window(FIRST_DAY, FIRST_DAY + timedelta(days=DAYS)) if dataset.is_dated else None
    query = ListQuery(dataset, ACCOUNT, window, per_page=min(dataset.page_sizes))
    decoder = PageDecoder(dataset, ZoneInfo("UTC"), FIRST_DAY)
    began = time.perf_counter()
    with PageFetcher(api, decoder, 2) as fetcher:
        for attempts in range(1, _ATTEMPTS + 1):  # noqa: B007  # the last one is what is returned
            pages: list[Page] = []
            first = fetcher.one(query)
            first = first if is_pinned else replace(first, as_of=None)
            try:
                result = read_pages(fetcher, query, first, pages.append)
            except WalkEndedError:
                continue
            if not is_pinned or not result.doubts:
                break
    return Walk(dataset, _loads_of(dataset, pages), len(pages), attempts, time.perf_counter() - began)


def _loads_of(dataset: Dataset, pages: Sequence[Page]) -> tuple[int | None, ...]:
    """Return the load of each slice whose rows the pages have."""
    names = [column.name for column in dataset.columns]
    key, quantity = (
        names.index(name) for name in (("platform_order_id", "quantity_ordered"), ("sku", "quantity"))[dataset is STOCK]
    )
    slices: dict[object, list[tuple[str, int]]] = {}
    for page in pages:
        for row in page.rows:
            slices.setdefault(row[-1] if dataset.is_dated else DAYS, []).append((row[key], row[quantity]))
    numbers = [str(FIRST_DAY + timedelta(days=number)) for number in range(DAYS)] if dataset.is_dated else [DAYS]
    loads: list[int | None] = []
    for number, name in enumerate(numbers, start=0 if dataset.is_dated else DAYS):
        rows = slices.pop(name, [])
        load = max((load for _, load in rows), default=0)
        prefix = "O" if dataset.is_dated else "SKU"
        expected = [(f"{prefix}-{row:04}", quantity) for row, quantity in enumerate(_quantities(number, load))]
        loads.append(load if load and rows == expected else None)
    return tuple(loads) if not slices else (None,)


def count_disordered(walks: Sequence[Walk]) -> int:
    """Return how many walks saw an earlier load of one slice and a later one of another than the walk before them."""
    seen = sorted(walk.loads for walk in walks if walk.is_whole)
    return sum(
        any(after < before for before, after in zip(one, other, strict=True))  # type: ignore[operator]
        for one, other in itertools.pairwise(seen)
    )


def run(walks: int, readers: int, minutes: float, *, is_pinned: bool, url: str, folder: Path) -> Table:
    """Walk over both lists, and return the table."""
    with Database(url) as database:
        database.migrate()
        list_accounts(database, {KEY: ACCOUNT})
        lists = MovingLists(database)
        with (
            temporary_access(database, [KEY]) as token,
            service(url, folder) as (base_url, _),
            SellerApi(base_url, auth=TokenAuth(token)) as api,
            ThreadPoolExecutor(readers) as threads,
            ThreadPoolExecutor(DAYS + 1) as loaders,
        ):
            loads, began = [loaders.submit(lists.run, number) for number in range(DAYS + 1)], time.perf_counter()
            try:
                datasets = itertools.cycle((ORDERS, STOCK))
                done: list[Walk] = []
                while len(done) < walks and time.perf_counter() - began < 60 * minutes:
                    some = itertools.islice(datasets, min(walks - len(done), 25 * readers))
                    done += threads.map(lambda dataset: walk(api, dataset, is_pinned=is_pinned), some)
            finally:
                lists.end()
            seconds = time.perf_counter() - began
            for load in loads:
                load.result()
    table = Table(title=f"{len(done):,} walks in {seconds:,.0f} s, beside {lists.loads:,} loads")
    for name in ("list", "walks", "pages", "whole", "attempts", "torn", "out of order", "different", "ms, median"):
        table.add_column(name, justify="left" if name == "list" else "right")
    for dataset in (ORDERS, STOCK):
        own = [each for each in done if each.dataset is dataset]
        figures: tuple[float, ...] = (
            len(own),
            sum(each.pages for each in own),
            sum(each.is_whole for each in own),
            sum(each.attempts for each in own),
            sum(None in each.loads for each in own),
            count_disordered(own),
            len({each.loads for each in own}),
            round(1_000 * statistics.median(each.seconds for each in own)),
        )
        table.add_row(dataset.name, *(f"{figure:,}" for figure in figures))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Walks over lists that change all the time.")
    parser.add_argument("--walks", type=int, default=10_000)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=60, help="The longest time; then what was done is printed.")
    parser.add_argument("--pinned", choices=("yes", "no"), default="yes")
    arguments = parser.parse_args()
    with temporary_folder() as folder:
        server = EmbeddedServer(folder / "postgres")
        try:
            url, is_pinned = server.database("walks"), arguments.pinned == "yes"
            walks, readers, minutes = arguments.walks, arguments.readers, arguments.minutes
            table = run(walks, readers, minutes, is_pinned=is_pinned, url=url, folder=folder)
        finally:
            server.close()
    Console().print(table)


if __name__ == "__main__":
    main()
