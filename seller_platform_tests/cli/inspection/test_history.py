"""`seller-platform diff` and `revert`, over two loads of a month."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import text

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.processes import document, environment
from seller_platform_tests.support.stored_rows import connect_accounts, store_slice

ORDERS = dataset_named("orders")
ACCOUNT = "us-7"
MARCH = Window.month_of(date(2026, 3, 1))


@pytest.fixture
def variables(database: Database, database_url: str, tmp_path: Path) -> dict[str, str]:
    """The variables of a shell, over a warehouse in which a load changed a month of orders."""
    connect_accounts(database, [(ACCOUNT, Account(1, "North Pine", None, None, "UTC", None, None))])
    for totals in (
        {"kept": "5.00", "raised": "7.00", "gone": "1.00"},
        {"kept": "5.00", "raised": "9.00", "new": "3.00"},
    ):
        rows = [
            (name, "2026-03-01T10:00:00Z", "Shipped", Decimal(total), "USD", 1, "SKU", "A", "Cup", "2026-03-01")
            for name, total in totals.items()
        ]
        store_slice(database, ORDERS, MARCH, rows, ACCOUNT)
    return environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=database_url)


def test_diff_shows_what_came_went_and_changed_with_sums(variables: dict[str, str]) -> None:
    shown = run_here(["diff", "orders", ACCOUNT, "2026-03"], variables)
    told = document(run_here(["diff", "seller.orders", ACCOUNT, "--json"], variables))

    assert shown.returncode == 0, shown.stderr
    assert ", SKU: order_total 7.00 -> 9.00" in shown.stdout
    assert "+ platform_order_id=new" in shown.stdout
    assert "- platform_order_id=gone" in shown.stdout
    assert told["sums"][-1] == {
        "name": "order_total USD",
        "came": "3.00",
        "went": "1.00",
        "changed_from": "7.00",
        "changed_to": "9.00",
    }


def test_revert_brings_back_what_was_stored_before_a_load(database: Database, variables: dict[str, str]) -> None:
    told = document(run_here(["diff", "orders", ACCOUNT, "--json"], variables))
    (load_id,) = told["load_ids"]

    reverted = document(run_here(["revert", str(load_id), "--json"], variables))

    names = database.execute(text("SELECT platform_order_id FROM seller.orders ORDER BY 1")).scalars().all()
    assert names == ["gone", "kept", "raised"]
    assert reverted["restatement"] == {"order_total USD": {"before": "17.00", "after": "13.00"}}
