"""Generates the rows of one account, day by day."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import date, timedelta
from typing import TypeAlias

import numpy as np
from numpy.random import Generator

from seller_platform.contract import Dataset, Slicing, Window, dataset_named
from seller_platform.sandbox.catalogue import Product, generate_catalogue, unusual_products
from seller_platform.sandbox.demand import UNITS_PER_ORDER, generate_demand
from seller_platform.sandbox.late_changes import LISTED_DAYS
from seller_platform.sandbox.ledger import LAST_ENTRY_DAYS, Ledger
from seller_platform.sandbox.local_days import local_days
from seller_platform.sandbox.marketplaces import CONNECTION, SandboxAccount
from seller_platform.sandbox.notifications import IDS_OF_AN_ACCOUNT, Notifications
from seller_platform.sandbox.orders import Grant, Texts, daily_rows, draw_sales, order_ids, order_rows
from seller_platform.sandbox.random_numbers import Ints, generator, money
from seller_platform.sandbox.stock import VELOCITY_DAYS, Stock, inventory_rows, shipment_rows, warehouse_rows
from seller_platform.warehouse.loads.copy_format import Row

_ORDERS_PER_PRODUCT = 6
_FEWEST_PRODUCTS, _MOST_PRODUCTS = 12, 2_000
_ELSEWHERE = 0.08
_WEEK = 7
_REPEATED_DAYS = LISTED_DAYS + LAST_ENTRY_DAYS
_PLATFORM = "platform"

_ACCOUNTS = dataset_named("accounts")
_ORDERS = dataset_named("orders")
_DAILY = dataset_named("daily_product_sales")
_TRANSACTIONS = dataset_named("transactions")
_UNKNOWN = 0.05
_ELEMENTS = (
    ("Manufacturing", (3_000, 5_200), "Tsubaki Works 椿", "Ex works; see the \"frame contract\""),
    ("Freight", (400, 900), "Möller & Søn", ""),
    ("Packaging", (100, 300), "Papier, Pappe + Co.", "2 parts,\nglued"),
)  # fmt: skip
_RISE_BASIS_POINTS = 10_400


Sink: TypeAlias = Callable[[Dataset, Sequence[Row], str, tuple[str, ...]], object]
"""Takes rows of a dataset, with their account and tags."""


class AccountHistory:
    """One account from its first day until yesterday, as its lists are read today.

    Random numbers depend on the seed, the account and the day only. A history that ends a day later differs by the rows
    of that day, and by the changes that `late_changes` declares.

    Attributes:
        today_number: The index of today among the account's days.
        days: Its days to the end of today's month.
    """

    def __init__(self, sandbox: SandboxAccount, period: Window, *, orders_per_month: int, seed: int) -> None:
        self.sandbox, self._seed = sandbox, seed
        market = sandbox.marketplace
        self._demanded = orders_per_month * sandbox.size
        count = min(_MOST_PRODUCTS, max(_FEWEST_PRODUCTS, round(self._demanded / _ORDERS_PER_PRODUCT)))
        self.products: tuple[Product, ...] = generate_catalogue(count, seed)
        self._texts = Texts.of(self.products)
        self._ledger = Ledger(market, self._texts, lambda day: self._rng(9, day.toordinal()))
        self._continue_until(period)
        forecast = self.demand.popularity * self._demanded / 30 * UNITS_PER_ORDER * (1 - _ELSEWHERE)
        self.stock: Stock = Stock(self._rng(1), forecast)
        self._week = np.ceil(forecast * _WEEK).astype(np.int64)
        first_id = (sandbox.number + 1) * IDS_OF_AN_ACCOUNT
        self.notifications: Notifications = Notifications(self.products, self.demand, market.currency, first_id)
        self.sold_lately: Ints = np.zeros(count, dtype=np.int64)
        self.sold_elsewhere: Ints = np.zeros(count, dtype=np.int64)
        self._numbers: Counter[str] = Counter()
        self._days_written = 0

    def _continue_until(self, period: Window) -> None:
        self.period, self.today_number = period, period.days
        whole_months = Window(self.period.start, Window.month_of(self.period.end).end)
        self.days = local_days(self.sandbox.account.timezone, whole_months.start, whole_months.days)
        self.demand = generate_demand(
            self._rng(0),
            tuple(whole_months.each_day()),
            products=len(self.products),
            rarely_sold=unusual_products(self.products),
            per_month=self._demanded,
            market=self.sandbox.marketplace,
        )
        self._ledger.continue_until(self.today_number, self.demand, self.days)

    def as_of(self, today: date, sink: Sink) -> "AccountHistory":
        """Write the rows that may differ on a later day, and return the history that ends there.

        The rows of the last three months are computed again. The rows of all days before them do not change.
        """
        self._continue_until(Window(self.period.start, today))
        self._ledger.written_from = self.today_number
        for _ in self._write_until(lambda *_: None, self.today_number - _REPEATED_DAYS):
            pass
        shared = (self.sandbox, self.products, self.demand, self.days, self._texts)
        other = deepcopy(self, {id(each): each for each in shared})  # which continues by itself
        other._ledger.written_from = self.today_number - LISTED_DAYS
        for _ in other.write(sink):
            pass
        return other

    @property
    def today(self) -> date:
        return self.period.end

    def write(self, sink: Sink) -> Iterator[Window]:
        """Write the rows of the days that are not written yet, and yield each month after its last day."""
        # The fields of an account are the columns of the list of accounts, in its order.
        self._add(sink, _ACCOUNTS, [(*self.sandbox.account.row, CONNECTION)])
        yield from self._write_until(sink, self.today_number)
        self.stock.receive(self.today_number)
        self._write_generated(sink, Slicing.SNAPSHOT, (4,), self.today_number)

    def _write_until(self, sink: Sink, end: int) -> Iterator[Window]:
        if self._days_written >= end:
            return
        for month in Window(self.days[self._days_written].date, self.days[end - 1].date + timedelta(days=1)).months():
            for day in month.each_day():
                self._write_day(sink, (day - self.period.start).days)
            yield month
        self._days_written = end

    def product_rows(self) -> list[tuple[object, ...]]:
        """Return the rows of `service.products` for today."""
        rng = self._rng(2)
        prices = self.demand.prices_on(self.today_number)
        offered = np.where(rng.random(len(prices)) < 0.15, prices * 95 // 100, prices).tolist()
        ranks = (np.argsort(np.argsort(-self.demand.popularity)) + 1) * 37
        rows = list[tuple[object, ...]]()
        for product, price, rank in zip(self.products, offered, ranks.tolist(), strict=True):
            names = (product.sku, product.asin, product.parent_asin, product.name)
            rows.append((self.sandbox.key, *names, money(price), rank, product.lead_time_days))
        return rows

    def _write_day(self, sink: Sink, day_number: int) -> None:
        """Write the orders of a day with what follows from them, charges of the account, and dated lists."""
        day = self.days[day_number]
        rng = self._rng(3, day.date.toordinal())
        self.stock.receive(day_number)
        demanded = self.demand.orders[day_number]
        elsewhere = int(rng.binomial(demanded, _ELSEWHERE))
        self._write_sales(sink, rng, day_number, demanded - elsewhere, _PLATFORM)
        self._write_sales(sink, rng, day_number, elsewhere, "non-platform")
        self._add(sink, _TRANSACTIONS, self._ledger.charges(self._rng(6, day.date.toordinal()), day_number))
        self._write_generated(sink, Slicing.MONTH, (5, day.date.toordinal()), day_number)
        reordered = self.stock.reorder(rng, day_number)
        self.notifications.watch(
            rng, day, day_number, stock=self.stock, weekly=self._week, reordered=reordered, today=self.today_number
        )

    def _write_sales(self, sink: Sink, rng: Generator, day_number: int, demanded: int, channel: str) -> None:
        if not demanded:
            return
        day, market, today = self.days[day_number], self.sandbox.marketplace, self.today_number
        is_platform = channel == _PLATFORM
        prefix = f"{'' if is_platform else 'S'}{100 + self.sandbox.number % 900}"
        ids = order_ids(prefix, self._numbers[channel], demanded)
        # The seller's own warehouses are refilled without a trace in the data.
        grant: Grant = self.stock.grant if is_platform else lambda _, units: units
        sales = draw_sales(rng, self.demand, day, day_number, ids=ids, tax=market.tax, grant=grant)
        self._numbers[channel] += demanded
        if day_number >= self._ledger.written_from:
            placed = order_rows(sales, self._texts, self.days, day_number, market.currency, today=today)
            self._add(sink, _ORDERS, placed, channel)
            self._add(sink, _DAILY, daily_rows(sales, self._texts, day, today=today), channel)
        if is_platform:
            listing = self._rng(7, day.date.toordinal())
            self._add(sink, _TRANSACTIONS, self._ledger.settle(rng, listing, sales))
            is_open = sales.is_open(today)
            np.add.at(self.stock.reserved, sales.product[is_open], sales.quantity[is_open])
            ended = sales.settled[sales.order]
            for last in np.unique(ended[~sales.is_paid]).tolist():
                lines = ~sales.is_paid & (ended == last)
                self.stock.give_back(last + 1, sales.product[lines], sales.quantity[lines])
        else:
            np.add.at(self.sold_elsewhere, sales.product[sales.is_paid], sales.quantity[sales.is_paid])
        if day_number >= today - VELOCITY_DAYS:
            is_sale = sales.is_sale(today)
            np.add.at(self.sold_lately, sales.product[is_sale], sales.quantity[is_sale])

    def _write_generated(self, sink: Sink, slicing: Slicing, purpose: tuple[int, ...], day_number: int) -> None:
        """Write what `GENERATORS` has for one day, or for today's snapshots."""
        rng = None
        for name, generate in GENERATORS.items():
            dataset = dataset_named(name)
            if dataset.slicing is slicing:
                rng = rng or self._rng(*purpose)
                self._add(sink, dataset, generate(self, rng, day_number))

    def _add(self, sink: Sink, dataset: Dataset, rows: Sequence[Row], *tags: str) -> None:
        sink(dataset, rows, self.sandbox.key, tags)

    def _rng(self, *purpose: int) -> Generator:
        return generator(self._seed, self.sandbox.number, *purpose)


GENERATORS: Mapping[str, Callable[[AccountHistory, Generator, int], Sequence[Row]]] = {
    "cost_periods": lambda history, rng, _: cost_period_rows(
        rng, history.products, history.demand.prices[0], history.period, currency=history.sandbox.marketplace.currency
    ),
    "inventory": lambda history, _, __: inventory_rows(
        history.products, history.stock, history.sold_lately, history.today
    ),
    "warehouse_stock": lambda history, rng, _: warehouse_rows(
        rng, history.products, history.sold_elsewhere, history.days[: history.today_number], history.today
    ),
    "inbound_shipments": lambda history, _, __: shipment_rows(
        history.stock.shipments, history.period, prefix=f"SHP{history.sandbox.number + 1:04d}"
    ),
    "notifications": lambda history, _, __: history.notifications.rows(history.today),
}
"""The generator of each list. Orders, daily sales and transactions are drawn together and have none here.

A generator takes the account's history, random numbers and the index of a day, and returns rows. It is called for each
day of a dated list, and for a snapshot once, with one past the last index. All generators of a day share the random
numbers in this order, so a new one at the end leaves the rows of all others as they are.
"""


def cost_period_rows(
    rng: Generator, products: Sequence[Product], prices: Ints, period: Window, *, currency: str
) -> list[Row]:
    """Return two adjoining periods for most products.

    The second begins in the first year of sales and ends with the year after today's.

    Args:
        prices: The price of each product, in cents; its cost is a share of the price.
    """
    today, start, turn = period.end, period.start.replace(month=1, day=1), period.start + timedelta(days=45)
    end = today.replace(year=today.year + 1, month=12, day=31)
    has_costs = rng.random(len(products)) >= _UNKNOWN
    shares = np.stack([rng.integers(*bounds, len(products)) for _, bounds, _, _ in _ELEMENTS], axis=1)
    costs = np.maximum(1, prices[:, np.newaxis] * shares // 10_000)
    rows: list[Row] = []
    for product in np.flatnonzero(has_costs).tolist():
        sku, cents = products[product].sku, costs[product].tolist()
        risen = [each * _RISE_BASIS_POINTS // 10_000 + 1 for each in cents]
        rows.append((sku, start, turn, _elements(cents, currency), today))
        rows.append((sku, turn + timedelta(days=1), end, _elements(risen, currency), today))
    return rows


def _elements(cents: Sequence[int], currency: str) -> str:
    """Return the elements as JSON. Amounts keep two decimals, which floats would lose."""
    elements = []
    for (name, _, provider, notes), amount in zip(_ELEMENTS, cents, strict=True):
        details = json.dumps({"currency": currency, "provider": provider, "notes": notes}, ensure_ascii=False)
        elements.append(f'{{"cost_element": {json.dumps(name)}, "amount": {money(amount)}, {details[1:]}')
    return f"[{', '.join(elements)}]"
