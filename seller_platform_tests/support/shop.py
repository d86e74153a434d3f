"""An account whose rows a test inserts one by one, for the tests of marts."""

from dataclasses import dataclass
from datetime import date
from importlib import import_module
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.warehouse.derived.builds import Build, build_partition
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.history_start import extend_history
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.stored_rows import add_rows, connect_accounts

ACCOUNT = "us-1"
MARCH = Window.month_of(date(2026, 3, 1))
TODAY = date(2026, 4, 15)
MONTHS = tuple(Window.month_of(date(2026, month, 1)) for month in range(1, 5))


@dataclass(frozen=True)
class Shop:
    """One account of a warehouse, and methods that insert its rows."""

    database: Database

    def insert(self, dataset: str, *rows: Row, channel: str = "platform") -> None:
        add_rows(self.database, dataset_named(dataset), rows, account=ACCOUNT, tags=(channel,))

    def sell(self, day: str, sku: str, units: int, sales: str, *, channel: str = "platform") -> None:
        row = (day, sku, f"Name of {sku}", f"B-{sku}", units, sales, "0.10", "0.20", "0.05", day)
        self.insert("daily_product_sales", row, channel=channel)

    def order(self, day: str, number: str, total: str, status: str = "Shipped", *, channel: str = "platform") -> None:
        row = (number, f"{day}T12:00:00-08:00", status, total, "USD", 1, "A", None, None, day)
        self.insert("orders", row, channel=channel)

    def post(
        self, day: str, kind: str, amount: str | None, sku: str | None = None, *, order: str | None = None, **more: Any
    ) -> None:
        currency = more.get("currency", "USD")
        row = (f"{day}T12:00:00-08:00", kind, order, sku, kind, more.get("quantity", 1), amount, currency, None, day)
        self.insert("transactions", row)

    def cost(self, sku: str, first: str, last: str | None, elements: str, *, snapshot: str = "2026-03-31") -> None:
        self.insert("cost_periods", (sku, first, last, elements, snapshot))

    def stock(
        self,
        sku: str,
        sellable: int | None,
        *,
        inbound: int | None = 0,
        day: str = "2026-04-01",
        velocity: str | None = None,
    ) -> None:
        row = (sku, f"Name of {sku}", f"B-{sku}", "X", sellable, 0, inbound, sellable, velocity, None, None, None, day)
        self.insert("inventory", row)

    def build(self, mart: Mart, window: Window | None = MARCH, **parameters: int) -> Build:
        return build_partition(self.database, mart, ACCOUNT, window if mart.is_monthly else None, parameters=parameters)

    def rows(self, query: str, **values: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.database.execute(text(query), values)]


def connected_shop(database: Database) -> Shop:
    """Return the account beside another one of its connection; it has sales in the two months of history."""
    account = Account(1, "North Pine US", "US", "USD", "America/Los_Angeles", "US", "S1")
    other = Account(2, "North Pine DE", "DE", "EUR", "Europe/Berlin", "DE", "S2")
    connect_accounts(database, [(ACCOUNT, account), ("de-2", other)])
    extend_history(database, MONTHS[1].start)
    shop = Shop(database)
    for month in MONTHS[1:3]:
        shop.sell(f"{month.start:%Y-%m}-02", "A", 3, "30.00")
    return shop


def mart_named(name: str) -> Mart:
    """Return the mart of that name.

    Raises:
        ModuleNotFoundError: The capability that declares marts is absent; the test is skipped.
    """
    import_module("seller_platform.marts")
    return {mart.name: mart for mart in MARTS}[name]


@pytest.fixture
def shop(database: Database) -> Shop:
    """An account in US dollars without any rows."""
    shop = Shop(database)
    connect_accounts(database, [(ACCOUNT, Account(1, "Shop", "US", "USD", "America/Los_Angeles", "US", "S1"))])
    return shop
