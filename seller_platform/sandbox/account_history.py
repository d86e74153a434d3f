"""The history of one account: its days, lived one after the other, and what they leave behind."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from seller_platform.contract import Dataset, Slicing, Window, dataset_named
from seller_platform.sandbox.catalogue import Product, invent_catalogue
from seller_platform.sandbox.copy_buffer import Sheets
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
    """A way in which orders come: whether it is the marketplace, and how their identifiers begin."""

    tag: str
    is_platform: bool
    prefix: str


PLATFORM = Channel("platform", is_platform=True, prefix="")
ELSEWHERE = Channel("non-platform", is_platform=False, prefix="S")


class History:
    """One account from its first day until yesterday.

    Chance is drawn anew for every day from the seed, the account and the day, so that a history that ends a day
    later tells the same of the days before.
    """

    def __init__(self, sandbox: SandboxAccount, period: Window, *, orders_per_month: int, seed: int) -> None:
        self.sandbox, self.period, self._seed = sandbox, period, seed
        account, market = sandbox.account, sandbox.marketplace
        wanted = orders_per_month * sandbox.size
        count = min(_MOST_PRODUCTS, max(_FEWEST_PRODUCTS, round(wanted / _ORDERS_PER_PRODUCT)))
        self.products: tuple[Product, ...] = invent_catalogue(_MOST_PRODUCTS, seed)[:count]
        self._texts = Texts.of(self.products)
        self.days = local_days(account.timezone, period.start, period.days)
        whole_months = Window(period.start, Window.month_of(period.last_day).end)
        self.demand = invent_demand(
            self._chance(0),
            tuple(whole_months.each_day()),
            products=count,
            orders_per_month=wanted,
            market=market,
        )
        forecast = self.demand.popularity * wanted / 30 * UNITS_PER_ORDER * (1 - _ELSEWHERE)
        self.stock = Stock(self._chance(1), forecast)
        self._week = np.ceil(forecast * _WEEK).astype(np.int64)
        self._ledger = Ledger(market, self._texts, self.demand, self.days)
        first_id = (sandbox.place + 1) * IDS_OF_AN_ACCOUNT
        self.notifications = Notifications(self.products, self.demand, market.currency, first_id)
        self.sold_lately: Ints = np.zeros(count, dtype=np.int64)
        self._numbers: Counter[str] = Counter()

    @property
    def today(self) -> date:
        return self.period.end

    def write(self, sheets: Sheets) -> Iterator[Window]:
        """Write every row of the account, and yield each month when it is over."""
        self._write_account(sheets)
        for month in self.period.months():
            for day in month.each_day():
                self._write_day(sheets, (day - self.period.start).days)
            yield month
        self.stock.receive(len(self.days))
        self._write_generated(sheets, Slicing.SNAPSHOT, self._chance(4), len(self.days))

    def product_rows(self) -> list[tuple[object, ...]]:
        """Return what the service knows of the products, as they stand today."""
        chance = self._chance(2)
        prices = self.demand.prices_on(len(self.days))
        offered = np.where(chance.random(len(prices)) < 0.15, prices * 95 // 100, prices).tolist()
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

    def _write_account(self, sheets: Sheets) -> None:
        account = self.sandbox.account
        row = (
            account.id,
            account.title,
            account.country_code,
            account.currency_code,
            account.timezone,
            account.marketplace,
            account.seller_id,
            CONNECTION,
        )
        sheets.add(_ACCOUNTS, [row], account=account.key)

    def _write_day(self, sheets: Sheets, place: int) -> None:
        chance = self._chance(3, self.days[place].date.toordinal())
        self.stock.receive(place)
        wanted = self.demand.orders[place]
        elsewhere = int(chance.binomial(wanted, _ELSEWHERE))
        self._write_sales(sheets, chance, place, wanted - elsewhere, PLATFORM)
        self._write_sales(sheets, chance, place, elsewhere, ELSEWHERE)
        self._add(sheets, _TRANSACTIONS, self._ledger.monthly(place))
        self._write_generated(sheets, Slicing.MONTH, self._chance(5, self.days[place].date.toordinal()), place)
        reordered = self.stock.reorder(chance, place)
        self.notifications.watch(
            chance,
            self.days,
            place,
            stock=self.stock,
            weekly=self._week,
            reordered=reordered,
            today=self.today,
        )

    def _write_sales(
        self, sheets: Sheets, chance: np.random.Generator, place: int, wanted: int, channel: Channel
    ) -> None:
        if not wanted:
            return
        day, market = self.days[place], self.sandbox.marketplace
        sales = draw_sales(
            chance,
            self.demand,
            day,
            place,
            wanted=wanted,
            first_number=self._numbers[channel.tag],
            prefix=f"{channel.prefix}{100 + self.sandbox.place % 900}",
            tax=market.tax,
            grant=self.stock.grant if channel.is_platform else _everything,
        )
        self._numbers[channel.tag] += wanted
        self._add(sheets, _ORDERS, order_rows(sales, self._texts, self.days, place, market.currency), channel.tag)
        self._add(sheets, _DAILY, daily_rows(sales, self._texts, day), channel.tag)
        if channel.is_platform:
            self._add(sheets, _TRANSACTIONS, self._ledger.settle(chance, sales))
            is_open = sales.is_sale & (sales.settled >= len(self.days))[sales.order]
            self.stock.reserve(sales.product[is_open], sales.quantity[is_open])
        if place >= len(self.days) - VELOCITY_DAYS:
            np.add.at(self.sold_lately, sales.product[sales.is_sale], sales.quantity[sales.is_sale])

    def _write_generated(self, sheets: Sheets, slicing: Slicing, chance: np.random.Generator, place: int) -> None:
        """Write what `GENERATORS` has for one day, or for today's snapshots."""
        for name, generate in GENERATORS.items():
            dataset = dataset_named(name)
            if dataset.slicing is slicing:
                self._add(sheets, dataset, generate(self, chance, place))

    def _add(self, sheets: Sheets, dataset: Dataset, rows: Sequence[Row], *tags: str) -> None:
        sheets.add(dataset, rows, account=self.sandbox.key, tags=tags)

    def _chance(self, *purpose: int) -> np.random.Generator:
        return generator(self._seed, self.sandbox.place, *purpose)


def _cost_period_rows(history: "History", chance: np.random.Generator, _: int) -> Sequence[Row]:
    return cost_period_rows(
        chance,
        history.products,
        history.demand.prices[0],
        currency=history.sandbox.marketplace.currency,
        first=history.period.start,
        today=history.today,
    )


def _inventory_rows(history: "History", _: np.random.Generator, __: int) -> Sequence[Row]:
    return inventory_rows(history.products, history.stock, history.sold_lately, history.today)


def _warehouse_stock_rows(history: "History", chance: np.random.Generator, _: int) -> Sequence[Row]:
    return warehouse_rows(chance, history.products, history.days, history.today)


def _inbound_shipment_rows(history: "History", _: np.random.Generator, __: int) -> Sequence[Row]:
    prefix = f"SHP{history.sandbox.place + 1:04d}"
    return shipment_rows(history.stock.shipments, first=history.period.start, today=history.today, prefix=prefix)


def _notification_rows(history: "History", _: np.random.Generator, __: int) -> Sequence[Row]:
    return history.notifications.rows


GENERATORS: Mapping[str, Callable[[History, np.random.Generator, int], Sequence[Row]]] = {
    "cost_periods": _cost_period_rows,
    "inventory": _inventory_rows,
    "warehouse_stock": _warehouse_stock_rows,
    "inbound_shipments": _inbound_shipment_rows,
    "notifications": _notification_rows,
}
"""The generator of each list but those of orders, which are drawn together: one function of the history of an account,
of random numbers and of the number of a day among its days.

It is called for each day of a dated list, and for today (one past the last day) of a snapshot. All of one day draw from
the same random numbers in this order: add new ones at the end, and the rows of all others stay the same.
"""


def _everything(_: Ints, units: Ints) -> Ints:
    """Grant every unit: what leaves the seller's own warehouses is refilled out of sight."""
    return units
