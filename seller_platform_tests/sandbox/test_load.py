"""Tests that the sandbox is loaded repeatably and changes only its own rows."""

import os
import subprocess
import sys
from datetime import date, datetime, timedelta

import pytest
from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform.errors import RequestError
from seller_platform.sandbox import load_sandbox
from seller_platform.sandbox.late_changes import LAST_CHANGE_DAYS
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.sandbox_tables import TABLES, contents, rows

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
        "import sys; from datetime import date; from seller_platform.sandbox import load_sandbox; "
        "from seller_platform.warehouse.postgres.database import Database; "
        "load_sandbox(Database(sys.argv[1]), months=3, orders_per_month=100, today=date(2026, 4, 15))"
    )

    load_sandbox(database, accounts=4, months=6, orders_per_month=50, seed=9, today=date(2026, 2, 3))
    other = contents(database)
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    subprocess.run([sys.executable, "-c", program, database_url], env=environment, check=True)

    assert contents(database) == first
    assert all(first[table] != other[table] for table in TABLES)


def test_loading_again_forgets_what_was_loaded_before(database: Database) -> None:
    account = load_sandbox(database, months=1, orders_per_month=5, today=TODAY).accounts[0].key
    mark_loaded(database, dataset_named("orders"), account, Window.month_of(TODAY))
    mark_loaded(database, dataset_named("accounts"), "sandbox", Window.day(TODAY))

    load_sandbox(database, months=1, orders_per_month=5, today=TODAY)

    assert rows(database, "SELECT id FROM platform.loads UNION ALL SELECT load_id FROM platform.slices") == []


def test_another_seed_gives_other_sellers(database: Database) -> None:
    first = load_sandbox(database, months=3, orders_per_month=20, today=TODAY, seed=1)

    second = load_sandbox(database, months=3, orders_per_month=20, today=TODAY, seed=-2)

    assert {account.key for account in first.accounts}.isdisjoint(account.key for account in second.accounts)


def test_an_account_does_not_depend_on_how_many_there_are(database: Database) -> None:
    query = "SELECT o::text FROM seller.orders o WHERE account = :account ORDER BY 1"
    few = load_sandbox(database, accounts=2, months=1, orders_per_month=50, today=TODAY)
    key = few.accounts[1].key
    before = rows(database, query, account=key)

    load_sandbox(database, accounts=5, months=1, orders_per_month=50, today=TODAY)

    assert rows(database, query, account=key) == before


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
    with database.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO seller.accounts (id, connection, account, load_id, page) VALUES (1, 'real', 'R.m', 7, 1);"
                "INSERT INTO seller.inventory (sku, local_day, account, load_id, page) "
                "VALUES ('S', '2026-01-01', 'R.m', 7, 1)"
            )
        )

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


def test_progress_counts_months_of_accounts(database: Database) -> None:
    seen: list[tuple[int, int]] = []

    load_sandbox(
        database, accounts=2, months=3, orders_per_month=5, today=TODAY, progress=lambda *counts: seen.append(counts)
    )

    assert seen == [(done, 6) for done in range(1, 7)]


@pytest.mark.parametrize(
    ("months", "today", "last"), [(2, date(2026, 3, 1), "2026-02-28"), (1, date(2026, 1, 2), "2026-01-01")]
)
def test_months_end_yesterday(database: Database, months: int, today: date, last: str) -> None:
    load_sandbox(database, accounts=1, months=months, orders_per_month=300, today=today)

    days = rows(database, "SELECT min(local_day)::text, max(local_day)::text FROM seller.orders")
    assert days == [("2026-01-01", last)]


@pytest.mark.parametrize(
    ("moment", "last_days"),
    [
        ("2026-11-22T23:30+00:00", {"US": "2026-11-21", "DE": "2026-11-22", "AU": "2026-11-22"}),
        ("2026-11-30T18:00+00:00", {"US": "2026-11-29", "DE": "2026-11-29", "AU": "2026-11-30"}),
        ("2026-12-01T03:00+00:00", {"US": "2026-11-29", "DE": "2026-11-30", "AU": "2026-11-30"}),
    ],
)
def test_sales_end_on_yesterday_in_the_zone_of_each_account(
    database: Database, moment: str, last_days: dict[str, str]
) -> None:
    load_sandbox(database, months=1, orders_per_month=900, today=datetime.fromisoformat(moment))

    query = (
        "SELECT country_code, max(d.local_day)::text FROM seller.{} d JOIN seller.accounts USING (account) GROUP BY 1"
    )
    sold, counted = (dict(rows(database, query.format(table))) for table in ("daily_product_sales", "inventory"))
    assert sold == last_days
    assert counted == {country: str(date.fromisoformat(day) + timedelta(days=1)) for country, day in last_days.items()}


def test_the_smallest_sandbox_has_an_order(database: Database) -> None:
    report = load_sandbox(database, accounts=1, months=1, orders_per_month=1, today=TODAY)

    assert report.rows["seller.orders"] >= 1
    assert report.rows["seller.inventory"] == 12


def test_many_accounts_have_titles_and_keys_of_their_own(database: Database) -> None:
    report = load_sandbox(database, accounts=40, months=1, orders_per_month=1, today=TODAY)

    assert len({account.title for account in report.accounts}) == 40
    assert len({account.key for account in report.accounts}) == 40
    assert not any(account.key.startswith("account-") for account in report.accounts)


@pytest.mark.parametrize("wrong", [{"accounts": 0}, {"months": 0}, {"orders_per_month": 0}, {"months": -3}])
def test_a_number_below_one_is_refused_by_name(database: Database, wrong: dict[str, int]) -> None:
    with pytest.raises(RequestError, match=f"{next(iter(wrong))} is"):
        load_sandbox(database, **wrong, today=TODAY)  # type: ignore[arg-type]  # one number of several


@pytest.mark.parametrize(("months", "today"), [(601, TODAY), (1, date.min), (1, date.max)])
def test_months_beyond_the_calendar_are_refused(database: Database, months: int, today: date) -> None:
    with pytest.raises(RequestError, match="cannot be generated"):
        load_sandbox(database, months=months, today=today)
