"""Tests which stored slices the upstream can still be asked for."""

from datetime import UTC, date, datetime

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.warehouse.monitoring.comparable_slices import comparable_slices
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts

BY_PRODUCT, STOCK, ORDERS = map(dataset_named, ("sales_by_product", "warehouse_stock", "orders"))
NOW = datetime(2026, 6, 20, 12, tzinfo=UTC)


def test_days_that_had_ended_when_they_were_read_can_be_compared(database: Database) -> None:
    listed = [(f"S{number}", Account(number, "A", "US", "USD", "UTC", "M", f"S{number}")) for number in range(3)]
    connect_accounts(database, listed)
    march, april, may, june = (Window.month_of(date(2026, month, 1)) for month in (3, 4, 5, 6))
    store_receipt(
        database, TRANSACTIONS, "S0", march, at=datetime(2026, 4, 14, tzinfo=UTC)
    )  # its last day has not settled
    store_receipt(database, TRANSACTIONS, "S0", april, at=datetime(2026, 5, 15, tzinfo=UTC))
    for month in (april, may):
        store_receipt(database, BY_PRODUCT, "S0", month, at=datetime(2026, 5, 31, tzinfo=UTC))
    store_receipt(database, BY_PRODUCT, "S0", march.until(date(2026, 3, 11)))
    store_receipt(database, TRANSACTIONS, "S0", may, verdict="held")
    store_receipt(database, STOCK, "S0", Window.day(NOW.date()))
    for account, dataset, month in (("S0", TRANSACTIONS, june), ("S0", ORDERS, march), ("S2", TRANSACTIONS, march)):
        store_receipt(database, dataset, account, month)
    store_receipt(database, TRANSACTIONS, "S1", march, at=NOW)

    asked, months = [TRANSACTIONS, BY_PRODUCT, STOCK], [march, april, may]
    found = comparable_slices(database, asked, ["S1", "S0"], months, NOW)

    assert [(each.account, each.dataset, each.window, is_settled) for each, is_settled in found] == [
        ("S0", BY_PRODUCT, april, True),
        ("S0", TRANSACTIONS, march, False),
        ("S0", TRANSACTIONS, april, True),
        ("S0", STOCK, Window.day(NOW.date()), False),
        ("S1", TRANSACTIONS, march, True),
    ]
