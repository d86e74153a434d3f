"""Plants wrong answers and true changes, and counts what is published unseen and what stays held.

Each wrong answer is given on two days, so that second readings agree with the first.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import cycle, islice, zip_longest
from types import SimpleNamespace
from typing import Any, TypeAlias
from unittest.mock import patch
from zoneinfo import ZoneInfo

import httpx
import time_machine
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import LISTS, Account, Column, Dataset, Kind, Window, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import ImplausibleReadingError, SellerPlatformError
from seller_platform.ingest.loads.accounts import discover
from seller_platform.ingest.loads.loading import SliceLoader, load_each
from seller_platform.ingest.loads.slices import SliceRequest, load_slice, published
from seller_platform.orchestration.assets.checks import judgements
from seller_platform.warehouse.connections.accounts import KnownAccount, KnownConnection, accounts, save_connection
from seller_platform.warehouse.loads.holds import Judge
from seller_platform.warehouse.loads.receipts import Slice, open_holds
from seller_platform.warehouse.loads.slices import open_load
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support.http_upstream import FakeTime, MovingList, api_of
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
        days = (asked.get("start_date", "0"), asked.get("end_date", "9")) if self.dataset.is_divisible else ("0", "9")
        chosen = [row for part, day, row in self.rows if value in (None, part) and days[0] <= str(day) <= days[1]]
        envelope = ("total", "last_page") if self.dataset.announces_total else ()
        listed = MovingList(chosen, page_size=self.dataset.fixed_page_size, envelope=envelope)
        listed.change = lambda page, _: self.distort(page)
        return listed(request)


Change: TypeAlias = Callable[[Upstream], None]
LEDGER = dataset_named("transactions")
_WHERE = {"two days": 2, "all days": None}


def without(share: float, rng: random.Random) -> Change:
    """Return what takes away a share of the rows."""

    def shrink(upstream: Upstream) -> None:
        kept = round(len(upstream.rows) * (1 - share))
        upstream.rows = sorted(rng.sample(upstream.rows, kept), key=lambda row: row[1])

    return shrink


def changed(change: Callable[[Dataset, WireRow], WireRow], days: int | None = None, share: float = 1) -> Change:
    """Return what changes a share of the rows, of all days or of so many."""

    def apply(upstream: Upstream) -> None:
        upstream.rows = [
            (part, day, change(upstream.dataset, row) if (part, day, row) in chosen else row)
            for chosen in [_chosen(upstream, days, share)]
            for part, day, row in upstream.rows
        ]

    return apply


def repeated(
    times: int, days: int | None, share: float = 1, change: Callable[[Dataset, WireRow], WireRow] = lambda _, row: row
) -> Change:
    """Return what lists a share of the rows of some days again, or one row of them many times."""

    def apply(upstream: Upstream) -> None:
        rows = _chosen(upstream, days, share)
        more = rows if times == 2 else [rows[0]] * times
        again = [(part, day, change(upstream.dataset, row)) for part, day, row in more]
        upstream.rows = sorted([*upstream.rows, *again], key=lambda row: row[1])

    return apply


def _chosen(upstream: Upstream, days: int | None, share: float) -> list[tuple[str | None, date, WireRow]]:
    """Return a share of the rows of all days, or of so many."""
    chosen = sorted({day for _, day, _ in upstream.rows})[5:][:days]
    of_days = [row for row in upstream.rows if days is None or row[1] in chosen]
    return of_days[:: round(1 / share)]


def _with(names: Callable[[Dataset], Iterable[str]], value: Callable[[Any], object]) -> Callable[..., WireRow]:
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
    texts = {name: f"foreign-{each}" for name, each in row.items() if isinstance(each, str) and "-" in each[:-4]}
    days = {column.name for column in dataset.columns if column.kind in (Kind.DATE, Kind.TIMESTAMP)}
    amounts = {name: row[name] * 2.7 + 3 for name in _amounts(dataset) if row.get(name) is not None}
    return row | {name: each for name, each in texts.items() if name not in days} | amounts


def _elements(**changes: object) -> Change:
    """Return what gives every cost other elements; without changes none."""

    def change(_: Dataset, row: WireRow) -> WireRow:
        elements = [each | changes for each in json.loads(row["cost_elements"])] if changes else []
        return row | {"cost_elements": json.dumps(elements)}

    return changed(change)


def _exchange_channels(upstream: Upstream) -> None:
    split = upstream.dataset.split_by
    if split is not None and split.tag is not None:
        another = dict(zip(split.values, reversed(split.values), strict=True))
        upstream.rows = [(another[str(part)], day, row) for part, day, row in upstream.rows]


def _all_but_a_cent(upstream: Upstream) -> None:
    changed(_with(_amounts, lambda _: 0))(upstream)
    part, day, row = upstream.rows[0]
    upstream.rows[0] = part, day, row | dict.fromkeys(_amounts(upstream.dataset)[:1], 0.01)


def _distorted(distort: Callable[[Body], Body]) -> Change:
    return lambda upstream: setattr(upstream, "distort", distort)


_OF_ROWS: Mapping[str, Callable[..., WireRow]] = {
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
_OF_ANY_DAY: Mapping[str, Callable[[random.Random], Change]] = {
    "empty": lambda rng: without(1, rng),
    "half": lambda rng: without(0.55, rng),
    "short": lambda rng: without(0.3, rng),
    "one page of several": lambda rng: without(0.8, rng),
    "amounts of zero": lambda _: changed(_with(_amounts, lambda _: 0)),
    "amounts of null": lambda _: changed(_with(_amounts, lambda _: None)),
    "amounts of zero but one cent": lambda _: _all_but_a_cent,
    "an error beside the data": lambda _: _distorted(lambda body: {**body, "data": [], "total": 0, "error": "later"}),
    "an empty object": lambda _: _distorted(lambda _: {"data": {}}),
    "empty, and no total": lambda _: _distorted(lambda _: {"data": []}),
}
_OF_SETTLED_DAYS: Mapping[str, Change] = {
    **{f"{kind}, {where}": changed(each, days) for kind, each in _OF_ROWS.items() for where, days in _WHERE.items()},
    **{f"every row twice, {where}": repeated(2, days) for where, days in _WHERE.items()},
    **{f"one row 620 times, {where}": repeated(620, days) for where, days in _WHERE.items()},
    "quantities with another sign, all days": changed(_with(_quantities, lambda each: -each)),
    "no quantities, all days": changed(_with(_quantities, lambda _: 0)),
    "amounts of a third of the rows times 3, all days": changed(_with(_amounts, lambda each: each * 3), share=1 / 3),
    "every twelfth row twice, all days": repeated(2, None, share=1 / 12),
    "sales channels exchanged, all days": _exchange_channels,
    "fees of null, all days": changed(_with(_further_amounts, lambda _: None)),
}
_OF_SNAPSHOTS: Mapping[str, Change] = {
    "stock of zero": changed(_with(_quantities, lambda _: 0)),
    "stock times ten": changed(_with(_quantities, lambda each: each * 10)),
    "stock of a tenth": changed(_with(_quantities, lambda each: each // 10)),
    "negative stock": changed(_with(_quantities, lambda each: -each)),
    "products without names": changed(_with(_names("name"), lambda _: None)),
    "products of another account": changed(_foreign),
    "every product twice": repeated(2, None),
}
_OF_COSTS: Mapping[str, Change] = {
    "costs times 100": _elements(amount="1250.00"),
    "costs in another currency": _elements(currency="JPY"),
    "costs without elements": _elements(),
    "costs of half of the products": without(0.55, random.Random(1)),
}


def true_changes(rng: random.Random, dataset: Dataset) -> Mapping[str, Change]:
    """Return every kind of true change."""
    kinds: dict[str, Change] = {
        "1 % deleted": without(0.01, rng),
        "5 % deleted": without(0.05, rng),
        "10 % deleted": without(0.1, rng),
        "an account that closed": without(1, rng),
        "products that are renamed": changed(_with(_names("product_name", "asin"), lambda each: f"new {each}")),
        "a status that changed": changed(_with(_names("status"), lambda _: "Returned")),
        "a tenth more rows": repeated(2, None, share=1 / 10, change=_foreign),
        "another catalogue": changed(_foreign),
    }
    if dataset.money:
        kinds["everything cancelled"] = changed(_with(_amounts, lambda _: 0))
        kinds["5 % corrected"] = changed(_with(_amounts, lambda each: each + 1), share=0.05)
        kinds["a day corrected"] = changed(_with(_amounts, lambda each: each * 2), days=1)
        kinds["a tax that was added"] = changed(_with(_amounts, lambda each: each * 1.19))
        kinds["prices of a third"] = changed(_with(_amounts, lambda each: each * 1.5), share=1 / 3)
        kinds["a tenth refunded"] = repeated(2, None, share=1 / 10, change=_with(_amounts, lambda each: -each))
        kinds["deferrals"] = _defer
    if not dataset.is_dated:
        kinds["a stock-take"] = changed(_with(_quantities, lambda each: each + each % 3))
        kinds["a third sold out"] = changed(_with(_quantities, lambda _: 0), share=1 / 3)
    if dataset == COST_PERIODS:
        kinds["new costs"] = _elements(amount="13.10")
        kinds["costs of another supplier"] = _elements(amount="90.00", currency="CNY")
    return kinds


def _defer(upstream: Upstream) -> None:
    """Date some rows a day later."""
    for number in range(3, len(upstream.rows), 40):
        part, day, row = upstream.rows[number]
        later = day + timedelta(days=1)
        moved = {name: value.replace(str(day), str(later)) for name, value in row.items() if isinstance(value, str)}
        upstream.rows[number] = part, later, row | moved
    upstream.rows.sort(key=lambda row: row[1])


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
    count = len(days) if dataset.name == "sales_by_date" else ROWS
    rows = []
    for number, part in zip(range(count), parts, strict=False):
        day = days[number % len(days)]
        row = {column.name: _value(column, number, day) for column in dataset.columns}
        if dataset.split_by and dataset.split_by.field:
            row[dataset.split_by.field] = part
        rows.append((part, day, row))
    return Upstream(dataset, sorted(rows, key=lambda row: row[1]))


@dataclass
class Market:
    """A connection of five accounts, with a ledger each."""

    number: int
    accounts: list[WireRow]
    lists: dict[str, Upstream]

    @classmethod
    def of(cls, number: int, size: int = 5) -> "Market":
        facts = {"account_title": "Shop", "currency_code": "EUR", "timezone": "UTC", "country_code": "DE"}
        sellers = [f"S{number}-{place}" for place in range(size)]
        accounts = [
            facts | {"id": 10 * number + place, "seller_id": seller, "marketplace": "M"}
            for place, seller in enumerate(sellers)
        ]
        accounts[1] |= {"currency_code": "USD", "timezone": "America/Los_Angeles"}
        market = cls(number, accounts, {each: _upstream(LEDGER, SETTLED) for each in sellers})
        for seller in sellers[1:]:
            changed(_foreign)(market.lists[seller])
        market.place()
        return market

    @property
    def connection(self) -> str:
        return f"c{self.number}"

    def __call__(self, request: httpx.Request) -> httpx.Response:
        seller = request.url.params.get("seller_id")
        if seller is None:
            return httpx.Response(200, json={"accounts": self.accounts, "user": {"id": 1, "name": "Ada"}})
        return self.lists[seller](request)

    def place(self) -> None:
        """List each row on its day in its account's zone."""
        for each in self.accounts:
            upstream, zone = self.lists[each["seller_id"]], ZoneInfo(each["timezone"])
            upstream.rows = [
                (part, datetime.fromisoformat(row["posted_date"]).astimezone(zone).date(), row)
                for part, _, row in upstream.rows
            ]

    def move(self, *places: int, **facts: str) -> None:
        for place in places:
            self.accounts[place] |= facts
        self.place()

    def exchange(self, one: int, other: int) -> None:
        """Send the facts and the ledger of one account as those of another."""
        first, second = self.accounts[one], self.accounts[other]
        for name in ("currency_code", "timezone"):
            first[name], second[name] = second[name], first[name]
        one_seller, other_seller = first["seller_id"], second["seller_id"]
        self.lists[one_seller], self.lists[other_seller] = self.lists[other_seller], self.lists[one_seller]

    def multiply(self, place: int, factor: float) -> None:
        changed(_with(_amounts, lambda each: each * factor))(self.lists[self.accounts[place]["seller_id"]])


_OF_ACCOUNTS: Mapping[str, Callable[[Market], None]] = {
    "an account in another currency": lambda market: market.move(0, currency_code="USD"),
    "two accounts exchanged": lambda market: market.exchange(0, 1),
    "most accounts in another zone": lambda market: market.move(0, 2, 3, timezone="Asia/Tokyo"),
    "all accounts in another currency": lambda market: market.move(0, 2, 3, 4, currency_code="GBP"),
    "a seller under another number": lambda market: market.accounts[0].update(id=10 * market.number + 9),
    "one account of five": lambda market: market.accounts.__delitem__(slice(1, None)),
}


def _change_currency(market: Market) -> None:
    market.multiply(0, 1.17)
    market.move(0, currency_code="USD")


def _add_accounts(market: Market) -> None:
    others = Market.of(market.number + 500_000)
    market.accounts += others.accounts
    market.lists |= others.lists


_TRUE_OF_ACCOUNTS: Mapping[str, Callable[[Market], None]] = {
    "an account that moves to another zone": lambda market: market.move(0, timezone="America/New_York"),
    "an account that changes its currency": _change_currency,
    "accounts that are new": _add_accounts,
    "an account with another title": lambda market: market.move(2, account_title="Another"),
}


About: TypeAlias = Upstream | Market


@dataclass(frozen=True)
class Bench:
    """The warehouse and an account, or a connection, for each case."""

    database: Database

    def read(self, about: About, key: str, window: Window, now: datetime) -> None:
        """Refresh: read a slice, and once more if the reading is implausible; or all of a connection."""
        with time_machine.travel(now, tick=True), api_of(about, time=FakeTime()) as api:
            if isinstance(about, Market):
                self._read_market(about, api, now)
                return
            account = KnownAccount(key, "default", Account(1, key, "DE", "EUR", "UTC", "M", "S"))
            span = window if about.dataset.is_dated else Window.day(now.date())
            if about.dataset == COST_PERIODS:
                self._store_costs(about, Slice.of(account, COST_PERIODS, span), now)
                return
            request = SliceRequest(about.dataset, key, span)
            try:
                load_slice(api, self.database, account, request, span, run_id=None)
            except ImplausibleReadingError:
                load_slice(api, self.database, account, replace(request, is_second=True), span, run_id=None)

    def _store_costs(self, upstream: Upstream, slice_: Slice, now: datetime) -> None:
        """Load costs without a request for each product."""
        names = [column.name for column in COST_PERIODS.columns]
        with open_load(self.database, slice_) as load:
            rows = [(*map(row.get, names), str(slice_.window.start)) for _, _, row in upstream.rows]
            load.spool.write(rows, page=1)
            facts = LoadFacts(1, 1, 0, None, CountVerdict.UNVERIFIABLE)
            published(load.store(facts, started_at=now, judge=Judge(is_second=True)))

    def _read_market(self, market: Market, api: SellerApi, now: datetime) -> None:
        connection = KnownConnection(market.connection, "http://api", "http://api", "client")
        save_connection(self.database, connection)
        listed, _ = discover(lambda _: api, self.database, connection, run_id=None)
        loader = SliceLoader(self.database, lambda _: api, now, adaptive=False)
        requests = [SliceRequest(LEDGER, each.key, SETTLED) for each in listed]
        for result in [*load_each(requests, loader, second_reading_seconds=0)]:
            if result.error is not None:
                raise result.error

    def keys(self, about: About, key: str) -> list[str]:
        """Return the accounts of a case."""
        if isinstance(about, Upstream):
            return [key]
        return [each.key for each in accounts(self.database, with_retired=True) if each.connection == about.connection]

    def content(self, dataset: Dataset, keys: Sequence[str]) -> list[Any]:
        """Return the newest rows of accounts."""
        sums = "count(*), sum(hashtext(row_hash::text))"
        statement = f"SELECT {sums} FROM seller.{dataset.name} WHERE account = ANY (:keys)"
        return list(self.database.execute(text(statement), {"keys": keys}).one())


@dataclass(frozen=True)
class Case:
    """A wrong answer or a true change, and what it is about."""

    kind: str
    dataset: Dataset
    window: Window
    change: Callable[[Any], None]

    def begin(self, bench: Bench, number: int, key: str) -> About:
        """Store what is true, on two days."""
        about: About = Market.of(number) if self.dataset == ACCOUNTS else _upstream(self.dataset, self.window)
        for age in (60, 1):
            bench.read(about, key, self.window, NOW - timedelta(days=age))
        return about


def _cases(rng: random.Random, kinds: Callable[[Dataset, Window], Mapping[str, Any]]) -> list[Case]:
    """Return the cases of all datasets in which anything is another: one of each kind, and then another one."""
    cases = [
        Case(kind, dataset, window, change)
        for dataset in (*LISTS, COST_PERIODS, ACCOUNTS)
        for window in ((SETTLED, RECENT) if dataset.is_dated else (RECENT,))
        for kind, change in kinds(dataset, window).items()
    ]
    rng.shuffle(cases)
    turns: dict[str, list[Case]] = defaultdict(list)
    for each in cases:
        if each.dataset == ACCOUNTS or _differs(_upstream(each.dataset, each.window), each.change):
            turns[each.kind].append(each)
    return [each for turn in zip_longest(*turns.values()) for each in turn if each is not None]


def _differs(upstream: Upstream, change: Change) -> bool:
    before = (list(upstream.rows), upstream.distort)
    change(upstream)
    return before != (upstream.rows, upstream.distort)


def _wrong(rng: random.Random, dataset: Dataset, window: Window) -> Mapping[str, Any]:
    """Return the wrong answers that the page *checks* promises to stop in a list on such days."""
    if dataset == ACCOUNTS:
        return _OF_ACCOUNTS
    if dataset == COST_PERIODS:
        return _OF_COSTS
    kinds = {kind: change(rng) for kind, change in _OF_ANY_DAY.items()}
    if not dataset.is_dated or dataset.name == "sales_by_date":
        del kinds["short"]  # they may lose some rows
    if not dataset.is_dated:
        return {**kinds, **_OF_SNAPSHOTS}
    if window == SETTLED:
        # Rows that sum up their window have no days.
        kinds |= {kind: each for kind, each in _OF_SETTLED_DAYS.items() if dataset.is_divisible or "all days" in kind}
    return kinds


def plant(database: Database, *, answers: int, seed: int) -> list[Figure]:
    """Plant wrong answers and true changes, and count what became of them."""
    rng, bench = random.Random(seed), Bench(database)
    wrong = _cases(rng, lambda dataset, window: _wrong(rng, dataset, window))
    true = _cases(rng, lambda dataset, _: _TRUE_OF_ACCOUNTS if dataset == ACCOUNTS else true_changes(rng, dataset))
    ends: Counter[str] = Counter()
    unseen: Counter[str] = Counter()
    for number, case in enumerate(islice(cycle(wrong), answers)):
        key, dataset = f"wrong-{number}", LEDGER if case.dataset == ACCOUNTS else case.dataset
        about = case.begin(bench, number, key)
        keys = bench.keys(about, key)
        before = bench.content(dataset, keys)
        case.change(about)
        end = "unchanged"
        for day in range(2):  # the next day the upstream still says so
            try:
                bench.read(about, key, case.window, NOW + timedelta(days=day))
            except SellerPlatformError as error:
                end = type(error).__name__
        if bench.content(dataset, keys) != before:
            red = [str(each.check_name) for each in judgements(database, dataset, keys) if not each.passed]
            end = f"published, {', '.join(red) or 'unseen'}"
            unseen[f"{case.kind} of {case.dataset.name}, {case.window}"] += not red
        ends[end] += 1
    held: Counter[str] = Counter()
    for number, case in enumerate(islice(cycle(true), answers)):
        key = f"true-{number}"
        about = case.begin(bench, 10_000 + number, key)
        case.change(about)
        for refresh in range(REFRESHES):
            try:
                bench.read(about, key, case.window, NOW + timedelta(days=refresh))
            except SellerPlatformError:
                held[f"{case.kind} of {case.dataset.name}, {case.window}"] += refresh == REFRESHES - 1
    still = held.total()
    return [
        Figure("wrong answers", answers),
        Figure("kinds", len({each.kind for each in wrong})),
        *(Figure(f"  {end}", count) for end, count in ends.most_common()),
        *(Figure("  published unseen", each, "none", is_kept=False) for each in +unseen),
        Figure("published unseen", unseen.total(), "0", not unseen.total()),
        Figure("true changes", answers),
        Figure("kinds", len({each.kind for each in true})),
        *(Figure("  still held", each) for each in +held),
        Figure("held for more than three refreshes", still, "at most 1 %", still <= answers // 100),
        Figure("readings that are held at the end", len(open_holds(database))),
    ]


def measure(*, answers: int = 1_500, seed: int = 7) -> Promises:
    """Options: wrong answers, as many true changes, and the seed of both."""
    # The pauses before retries of passing faults take no time.
    no_pause = SimpleNamespace(sleep=lambda _: None)
    with patch("tenacity.nap.time", no_pause), temporary_warehouse() as (url, _), Database(url) as database:
        return Promises("Wrong answers", plant(database, answers=answers, seed=seed))
