"""Tests that the sandbox is loaded repeatably and changes only its own rows."""

import os
import subprocess
import sys
from datetime import date, datetime, timedelta

import pytest

from seller_platform.sandbox.late_changes import LAST_CHANGE_DAYS
from seller_platform.sandbox.load import load_sandbox
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.sandbox_tables import TABLES, contents, rows
from seller_platform_tests.support.stored_rows import execute

pytestmark = pytest.mark.slow

TODAY = date(2026, 4, 15)


def test_the_report_counts_what_is_there(database: Database) -> None:
    report = load_sandbox(database, months=1, orders_per_month=100, today=TODAY)

    assert report.rows == {table: count for table, (count, _) in contents(database).items()}
    assert set(report.rows) == set(TABLES)
    assert [(account.key,) for account in report.accounts] == rows(
        database, "SELECT account FROM seller.accounts WHERE connection = 'sandbox' ORDER BY id"
    )


def test_loading_again_gives_the_same_rows_whatever_the_seed_of_hashes(database: Database, database_url: str) -> None:
    load_sandbox(database, months=3, orders_per_month=100, today=TODAY)
    first = contents(database)
    program = (
        "import sys; from datetime import date; from seller_platform.sandbox.load import load_sandbox; "
        "from seller_platform.warehouse.postgres.database import Database; "
        "load_sandbox(Database(sys.argv[1]), months=3, orders_per_month=100, today=date(2026, 4, 15))"
    )

    load_sandbox(database, accounts=4, months=6, orders_per_month=50, seed=9, today=date(2026, 2, 3))
    other = contents(database)
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    subprocess.run([sys.executable, "-c", program, database_url], env=environment, check=True)

    assert contents(database) == first
    assert all(first[table] != other[table] for table in TABLES)


def test_a_day_later_the_past_is_the_same_but_for_late_changes(database: Database) -> None:
    unchanged = TODAY - timedelta(days=LAST_CHANGE_DAYS)

    def past() -> list[list[tuple[object, ...]]]:
        return [
            rows(database, f"SELECT t::text FROM {table} t WHERE local_day < :day ORDER BY 1", day=unchanged)
            for table in ("seller.daily_product_sales", "seller.transactions")
        ] + [
            rows(
                database,
                "SELECT shipment_id, total_items, estimated_arrival_date FROM seller.inbound_shipments "
                "WHERE created_date < '2026-04-15' ORDER BY account, 1",
            ),
            rows(
                database,
                "SELECT n.id, created_at, message FROM seller.notifications n JOIN seller.accounts a USING (account) "
                "WHERE (created_at AT TIME ZONE timezone)::date < '2026-04-15' ORDER BY 1",
            ),
        ]

    load_sandbox(database, months=3, orders_per_month=200, today=TODAY)
    before = past()

    load_sandbox(database, months=3, orders_per_month=200, today=date(2026, 4, 16))

    assert past() == before


def test_rows_of_other_accounts_are_left_alone(database: Database) -> None:
    columns, values = "account, load_id, page", "'R.m', 7, 1"
    execute(database, f"INSERT INTO seller.accounts (id, connection, {columns}) VALUES (1, 'real', {values})")
    execute(database, f"INSERT INTO seller.inventory (sku, local_day, {columns}) VALUES ('S', '2026-01-01', {values})")

    load_sandbox(database, months=1, orders_per_month=10, today=TODAY)
    load_sandbox(database, months=1, orders_per_month=10, today=TODAY)

    assert rows(database, "SELECT sku FROM seller.inventory WHERE account = 'R.m'") == [("S",)]
    assert rows(database, "SELECT id FROM seller.accounts WHERE connection = 'real'") == [(1,)]


def test_a_load_that_fails_changes_nothing(database: Database) -> None:
    load_sandbox(database, months=3, orders_per_month=20, today=TODAY)
    before = contents(database)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_sandbox(database, months=3, orders_per_month=30, today=TODAY, progress=interrupt)

    assert contents(database) == before


@pytest.mark.parametrize(
    ("moment", "last_days"),
    [
        ("2026-11-22T23:30+00:00", {"US": "2026-11-21", "DE": "2026-11-22", "AU": "2026-11-22"}),
        ("2026-11-30T18:00+00:00", {"US": "2026-11-29", "DE": "2026-11-29", "AU": "2026-11-30"}),
        ("2026-12-01T03:00+00:00", {"US": "2026-11-29", "DE": "2026-11-30", "AU": "2026-11-30"}),
    ],
)
def test_sales_end_yesterday_in_zones_of_accounts(database: Database, moment: str, last_days: dict[str, str]) -> None:
    load_sandbox(database, months=1, orders_per_month=900, today=datetime.fromisoformat(moment))

    query = (
        "SELECT country_code, max(d.local_day)::text FROM seller.{} d JOIN seller.accounts USING (account) GROUP BY 1"
    )
    sold, counted = (dict(rows(database, query.format(table))) for table in ("daily_product_sales", "inventory"))
    assert sold == last_days
    assert counted == {country: str(date.fromisoformat(day) + timedelta(days=1)) for country, day in last_days.items()}
