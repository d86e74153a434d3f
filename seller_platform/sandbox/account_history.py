"""Generates the rows of one account, day by day."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import date

import numpy as np

from seller_platform.contract import Dataset, Slicing, Window, dataset_named
from seller_platform.sandbox.catalogue import Product, invent_catalogue
from seller_platform.sandbox.copy_buffer import CopyBuffer
from seller_platform.sandbox.costs import cost_period_rows
from seller_platform.sandbox.demand import UNITS_PER_ORDER, invent_demand
from seller_platform.sandbox.ledger import Ledger
from seller_platform.sandbox.local_days import local_days
from seller_platform.sandbox.marketplaces import CONNECTION, SandboxAccount
from seller_platform.sandbox.notifications import IDS_OF_AN_ACCOUNT, Notifications
from seller_platform.sandbox.orders import Texts, daily_rows, draw_sales, order_rows
from seller_platform.sandbox.random_numbers import Ints, generator, money
from seller_platform.sandbox.shipments import shipment_rows
from seller_platform.sandbox.snapshots import VELOCITY_DAYS, inventory_rows, warehouse_rows
from seller_platform.sandbox.stock import Stock
from seller_platform.warehouse.loads.copy_format import Row

_ORDERS_PER_PRODUCT = 12
_FEWEST_PRODUCTS, _MOST_PRODUCTS = 12, 2_000
_ELSEWHERE = 0.08
_WEEK = 7

_ACCOUNTS = dataset_named("accounts")
_ORDERS = dataset_named("orders")
_DAILY = dataset_named("daily_product_sales")
_TRANSACTIONS = dataset_named("transactions")


@dataclass(frozen=True)
class Channel:
    """A sales channel and the prefix of its order identifiers."""

    tag: str
    is_platform: bool
    prefix: str


PLATFORM = Channel("platform", is_platform=True, prefix="")
ELSEWHERE = Channel("non-platform", is_platform=False, prefix="S")


class AccountHistory:
    """One account from its first day until yesterday.

    Random numbers depend on the seed, the account and the day only. A history that ends a day later has the same
    rows for the days before.
    """

    def __init__(self, sandbox: SandboxAccount, period: Window, *, orders_per_month: int, seed: int) -> None:
        self.sandbox, self.period, self._seed = sandbox, period, seed
        account, market = sandbox.account, sandbox.marketplace
        demanded = orders_per_month * sandbox.size
        count = min(_MOST_PRODUCTS, max(_FEWEST_PRODUCTS, round(demanded / _ORDERS_PER_PRODUCT)))
        self.products: tuple[Product, ...] = invent_catalogue(_MOST_PRODUCTS, seed)[:count]
        self._texts = Texts.of(self.products)
        self.days = local_days(account.timezone, period.start, period.days)
        whole_months = Window(period.start, Window.month_of(period.last_day).end)
        self.demand = invent_demand(
            self._rng(0),
            tuple(whole_months.each_day()),
            products=count,
            orders_per_month=demanded,
            market=market,
        )
        forecast = self.demand.popularity * demanded / 30 * UNITS_PER_ORDER * (1 - _ELSEWHERE)
        self.stock = Stock(self._rng(1), forecast)
        self._week = np.ceil(forecast * _WEEK).astype(np.int64)
        self._ledger = Ledger(market, self._texts, self.demand, self.days)
        first_id = (sandbox.number + 1) * IDS_OF_AN_ACCOUNT
        self.notifications = Notifications(self.products, self.demand, market.currency, first_id)
        self.sold_lately: Ints = np.zeros(count, dtype=np.int64)
        self._numbers: Counter[str] = Counter()

    @property
    def today(self) -> date:
        return self.period.end

    def write(self, buffer: CopyBuffer) -> Iterator[Window]:
        """Write every row of the account, and yield each month after its last day."""
        # The fields of an account are the columns of the list of accounts, in its order.
        self._add(buffer, _ACCOUNTS, [(*astuple(self.sandbox.account), CONNECTION)])
        for month in self.period.months():
            for day in month.each_day():
                self._write_day(buffer, (day - self.period.start).days)
            yield month
        self.stock.receive(len(self.days))
        self._write_generated(buffer, Slicing.SNAPSHOT, self._rng(4), len(self.days))

    def product_rows(self) -> list[tuple[object, ...]]:
        """Return the rows of `service.products` for today."""
        rng = self._rng(2)
        prices = self.demand.prices_on(len(self.days))
        offered = np.where(rng.random(len(prices)) < 0.15, prices * 95 // 100, prices).tolist()
        ranks = (np.argsort(np.argsort(-self.demand.popularity)) + 1) * 37
        return [
            (
                self.sandbox.key,
                product.sku,
                product.asin,
                product.parent_asin,
                product.name,
                money(price),
                rank,
                product.lead_time_days,
            )
            for product, price, rank in zip(self.products, offered, ranks.tolist(), strict=True)
        ]

    def _write_day(self, buffer: CopyBuffer, day_number: int) -> None:
        rng = self._rng(3, self.days[day_number].date.toordinal())
        self.stock.receive(day_number)
        demanded = self.demand.orders[day_number]
        elsewhere = int(rng.binomial(demanded, _ELSEWHERE))
        self._write_sales(buffer, rng, day_number, demanded - elsewhere, PLATFORM)
        self._write_sales(buffer, rng, day_number, elsewhere, ELSEWHERE)
        charging = self._rng(6, self.days[day_number].date.toordinal())
        self._add(buffer, _TRANSACTIONS, self._ledger.charges(charging, day_number))
        self._write_generated(buffer, Slicing.MONTH, self._rng(5, self.days[day_number].date.toordinal()), day_number)
        reordered = self.stock.reorder(rng, day_number)
        self.notifications.watch(
            rng,
            self.days,
            day_number,
            stock=self.stock,
            weekly=self._week,
            reordered=reordered,
            today=self.today,
        )

    def _write_sales(
        self, buffer: CopyBuffer, rng: np.random.Generator, day_number: int, demanded: int, channel: Channel
    ) -> None:
        if not demanded:
            return
        day, market = self.days[day_number], self.sandbox.marketplace
        sales = draw_sales(
            rng,
            self.demand,
            day,
            day_number,
            demanded=demanded,
            first_number=self._numbers[channel.tag],
            prefix=f"{channel.prefix}{100 + self.sandbox.number % 900}",
            tax=market.tax,
            # The seller's own warehouses are refilled without a trace in the data.
            grant=self.stock.grant if channel.is_platform else lambda _, units: units,
        )
        self._numbers[channel.tag] += demanded
        self._add(buffer, _ORDERS, order_rows(sales, self._texts, self.days, day_number, market.currency), channel.tag)
        self._add(buffer, _DAILY, daily_rows(sales, self._texts, day), channel.tag)
        if channel.is_platform:
            reimbursing = self._rng(7, day.date.toordinal())
            self._add(buffer, _TRANSACTIONS, self._ledger.settle(rng, reimbursing, sales))
            is_open = sales.is_sale & (sales.settled >= len(self.days))[sales.order]
            self.stock.reserve(sales.product[is_open], sales.quantity[is_open])
        if day_number >= len(self.days) - VELOCITY_DAYS:
            np.add.at(self.sold_lately, sales.product[sales.is_sale], sales.quantity[sales.is_sale])

    def _write_generated(self, buffer: CopyBuffer, slicing: Slicing, rng: np.random.Generator, day_number: int) -> None:
        """Write what `GENERATORS` has for one day, or for today's snapshots."""
        for name, generate in GENERATORS.items():
            dataset = dataset_named(name)
            if dataset.slicing is slicing:
                self._add(buffer, dataset, generate(self, rng, day_number))

    def _add(self, buffer: CopyBuffer, dataset: Dataset, rows: Sequence[Row], *tags: str) -> None:
        buffer.add(dataset, rows, account=self.sandbox.key, tags=tags)

    def _rng(self, *purpose: int) -> np.random.Generator:
        return generator(self._seed, self.sandbox.number, *purpose)


GENERATORS: Mapping[str, Callable[[AccountHistory, np.random.Generator, int], Sequence[Row]]] = {
    "cost_periods": lambda history, rng, _: cost_period_rows(
        rng,
        history.products,
        history.demand.prices[0],
        currency=history.sandbox.marketplace.currency,
        first=history.period.start,
        today=history.today,
    ),
    "inventory": lambda history, _, __: inventory_rows(
        history.products, history.stock, history.sold_lately, history.today
    ),
    "warehouse_stock": lambda history, rng, _: warehouse_rows(rng, history.products, history.days, history.today),
    "inbound_shipments": lambda history, _, __: shipment_rows(
        history.stock.shipments,
        first=history.period.start,
        today=history.today,
        prefix=f"SHP{history.sandbox.number + 1:04d}",
    ),
    "notifications": lambda history, _, __: history.notifications.rows,
}
"""The generator of each list. Orders, daily sales and transactions are drawn together and have none here.

A generator takes the account's history, random numbers and the index of a day, and returns rows. It is called for each
day of a dated list, and for a snapshot once, with one past the last index. All generators of a day share the random
numbers in this order, so a new one at the end leaves the rows of all others as they are.
"""
