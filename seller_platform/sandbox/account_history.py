"""The history of one account: its days, lived one after the other, and what they leave behind."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from seller_platform.contract import Dataset, Window, dataset_named
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
_INVENTORY = dataset_named("inventory")
_WAREHOUSE_STOCK = dataset_named("warehouse_stock")
_SHIPMENTS = dataset_named("inbound_shipments")
_NOTIFICATIONS = dataset_named("notifications")
_COSTS = dataset_named("cost_periods")


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
        self._sandbox, self._period, self._seed = sandbox, period, seed
        account, market = sandbox.account, sandbox.marketplace
        wanted = orders_per_month * sandbox.size
        count = min(_MOST_PRODUCTS, max(_FEWEST_PRODUCTS, round(wanted / _ORDERS_PER_PRODUCT)))
        self.products: tuple[Product, ...] = invent_catalogue(_MOST_PRODUCTS, seed)[:count]
        self._texts = Texts.of(self.products)
        self._days = local_days(account.timezone, period.start, period.days)
        whole_months = Window(period.start, Window.month_of(period.last_day).end)
        self._demand = invent_demand(
            self._chance(0),
            tuple(whole_months.each_day()),
            products=count,
            orders_per_month=wanted,
            market=market,
        )
        forecast = self._demand.popularity * wanted / 30 * UNITS_PER_ORDER * (1 - _ELSEWHERE)
        self._stock = Stock(self._chance(1), forecast)
        self._week = np.ceil(forecast * _WEEK).astype(np.int64)
        self._ledger = Ledger(market, self._texts, self._demand, self._days)
        first_id = (sandbox.place + 1) * IDS_OF_AN_ACCOUNT
        self._notifications = Notifications(self.products, self._demand, market.currency, first_id)
        self._sold_lately: Ints = np.zeros(count, dtype=np.int64)
        self._numbers: Counter[str] = Counter()

    @property
    def today(self) -> date:
        return self._period.end

    def write(self, sheets: Sheets) -> Iterator[Window]:
        """Write every row of the account, and yield each month when it is over."""
        self._write_account(sheets)
        for month in self._period.months():
            for day in month.each_day():
                self._write_day(sheets, (day - self._period.start).days)
            yield month
        self._write_snapshots(sheets)

    def product_rows(self) -> list[tuple[object, ...]]:
        """Return what the service knows of the products, as they stand today."""
        chance = self._chance(2)
        prices = self._demand.prices_on(len(self._days))
        offered = np.where(chance.random(len(prices)) < 0.15, prices * 95 // 100, prices).tolist()
        ranks = (np.argsort(np.argsort(-self._demand.popularity)) + 1) * 37
        return [
            (
                self._sandbox.key,
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
        account = self._sandbox.account
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
        chance = self._chance(3, self._days[place].date.toordinal())
        self._stock.receive(place)
        wanted = self._demand.orders[place]
        elsewhere = int(chance.binomial(wanted, _ELSEWHERE))
        self._write_sales(sheets, chance, place, wanted - elsewhere, PLATFORM)
        self._write_sales(sheets, chance, place, elsewhere, ELSEWHERE)
        self._add(sheets, _TRANSACTIONS, self._ledger.monthly(place))
        reordered = self._stock.reorder(chance, place)
        self._notifications.watch(
            chance,
            self._days,
            place,
            stock=self._stock,
            weekly=self._week,
            reordered=reordered,
            today=self.today,
        )

    def _write_sales(
        self, sheets: Sheets, chance: np.random.Generator, place: int, wanted: int, channel: Channel
    ) -> None:
        if not wanted:
            return
        day, market = self._days[place], self._sandbox.marketplace
        sales = draw_sales(
            chance,
            self._demand,
            day,
            place,
            wanted=wanted,
            first_number=self._numbers[channel.tag],
            prefix=f"{channel.prefix}{100 + self._sandbox.place % 900}",
            tax=market.tax,
            grant=self._stock.grant if channel.is_platform else _everything,
        )
        self._numbers[channel.tag] += wanted
        self._add(sheets, _ORDERS, order_rows(sales, self._texts, self._days, place, market.currency), channel.tag)
        self._add(sheets, _DAILY, daily_rows(sales, self._texts, day), channel.tag)
        if channel.is_platform:
            self._add(sheets, _TRANSACTIONS, self._ledger.settle(chance, sales))
            is_open = sales.is_sale & (sales.settled >= len(self._days))[sales.order]
            self._stock.reserve(sales.product[is_open], sales.quantity[is_open])
        if place >= len(self._days) - VELOCITY_DAYS:
            np.add.at(self._sold_lately, sales.product[sales.is_sale], sales.quantity[sales.is_sale])

    def _write_snapshots(self, sheets: Sheets) -> None:
        self._stock.receive(len(self._days))
        chance, today = self._chance(4), self.today
        shipments = shipment_rows(
            self._stock.shipments,
            first=self._period.start,
            today=today,
            prefix=f"SHP{self._sandbox.place + 1:04d}",
        )
        costs = cost_period_rows(
            chance,
            self.products,
            self._demand.prices[0],
            currency=self._sandbox.marketplace.currency,
            first=self._period.start,
            today=today,
        )
        self._add(sheets, _INVENTORY, inventory_rows(self.products, self._stock, self._sold_lately, today))
        self._add(sheets, _WAREHOUSE_STOCK, warehouse_rows(chance, self.products, self._days, today))
        self._add(sheets, _SHIPMENTS, shipments)
        self._add(sheets, _NOTIFICATIONS, self._notifications.rows)
        self._add(sheets, _COSTS, costs)

    def _add(self, sheets: Sheets, dataset: Dataset, rows: Sequence[Row], *tags: str) -> None:
        sheets.add(dataset, rows, account=self._sandbox.key, tags=tags)

    def _chance(self, *purpose: int) -> np.random.Generator:
        return generator(self._seed, self._sandbox.place, *purpose)


def _everything(_: Ints, units: Ints) -> Ints:
    """Grant every unit: what leaves the seller's own warehouses is refilled out of sight."""
    return units
