"""`seller-platform held` and `accept`: a month of orders of which rows are missing upstream."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform.orchestration.partitions import partition_key
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.platform import MONTHS, Platform, open_platform
from seller_platform_tests.support.processes import document, foreign_environment
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.slices_of_receipts import fill_slices

pytestmark = pytest.mark.slow

ORDERS = dataset_named("orders")
ACCOUNT = independent_upstream.KEYS["A1FOREIGN"]
FEBRUARY = partition_key(ACCOUNT, MONTHS[1])


@pytest.fixture
def platform(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Platform]:
    """A warehouse with the orders of February, which were read on 20 March."""
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    with open_platform(database, database_url, tmp_path) as opened:
        opened.discover()
        opened.run([ORDERS], FEBRUARY, FEBRUARY)
        with database.begin() as connection:
            read = "UPDATE platform.loads SET started_at = '2026-03-20', digest = '\\x00' WHERE dataset = 'orders'"
            connection.execute(text(read))
            fill_slices(driver_of(connection))
        yield opened


@pytest.fixture
def variables(platform: Platform, tmp_path: Path) -> dict[str, str]:
    return foreign_environment(platform.upstream, platform.database.url, tmp_path)


def _store_extra(database: Database, rows: int, day: int, total: int | None = None) -> None:
    """Store rows on a day of February, as of a load, that the upstream does not list any more."""
    statement = """
        WITH slice AS (UPDATE platform.slices SET rows = rows + :rows WHERE dataset = 'orders' AND load_id IS NOT NULL)
        INSERT INTO seller.orders
            (platform_order_id, purchase_date, sku, local_day, account, load_id, page, order_total, row_hash)
        SELECT 'extra-' || number, CAST(:day AS date), 'SKU', CAST(:day AS date), :account, 1, 1, :total,
               gen_random_uuid()
        FROM generate_series(1, :rows) AS number
    """
    database.execute(text(statement), {"day": date(2026, 2, day), "account": ACCOUNT, "rows": rows, "total": total})


def _observe_no_changes(database: Database) -> None:
    """Store two equal readings of a recent month: a refresh then reads no more than three days again."""
    month = Window.month_of(datetime.now(UTC).date() - timedelta(days=65))
    sums = {"order_total EUR": "100"}
    for days in (60, 1):
        at = datetime.now(UTC) - timedelta(days=days)
        store_receipt(database, ORDERS, ACCOUNT, month, at=at, rows=100, digest=b"\x01", changed=False, sums=sums)


def test_a_held_load_is_listed_accepted_once_and_held_no_more(platform: Platform, variables: dict[str, str]) -> None:
    _store_extra(platform.database, 500, day=20)
    platform.run([ORDERS], FEBRUARY, FEBRUARY)

    (reading,) = document(run_here(["held", "--json"], variables))["held"]
    listed = run_here(["held"], variables).stdout
    load = reading["load"]
    accepted = document(run_here(["accept", str(load["load_id"]), "--json"], variables))
    again = run_here(["accept", str(load["load_id"]), "--json"], variables)

    assert (load["dataset"], load["account"], load["notes"]["held"]["rows_stored"]) == ("orders", ACCOUNT, 528)
    assert (load["first_day"], load["last_day"], load["notes"]["held"]["reason"]) == (
        "2026-02-20",
        "2026-02-20",
        "500 of 528 rows are missing on 1 day "
        "(in all 500 of 1,203 rows, 0.00 of 947,723.30 in order_total, 1 of 25 days)",
    )
    assert f'load {load["load_id"]}: orders of Ünïcode & "Sons" [EU] ({ACCOUNT}), ' in listed
    assert accepted["rows"] == 28
    assert (again.returncode, json.loads(again.stdout)["error"]) == (2, "NotHeldError")
    assert document(run_here(["held", "--json"], variables))["held"] == []


def test_accepting_judges_by_the_days_that_a_refresh_reads_again(platform: Platform, variables: dict[str, str]) -> None:
    _observe_no_changes(platform.database)
    _store_extra(platform.database, 10, day=20)
    platform.run([ORDERS], FEBRUARY, FEBRUARY)
    (load,) = (each["load"] for each in document(run_here(["held", "--json"], variables))["held"])

    _store_extra(platform.database, 8, day=20, total=5)
    worse = run_here(["accept", str(load["load_id"]), "--json"], variables)

    assert load["notes"]["held"]["reason"].startswith(
        "10 of 38 rows are missing or others than before on 1 settled day (in all 10 of "
    )
    assert (worse.returncode, json.loads(worse.stdout)["error"]) == (5, "ReadingHeldError")
    assert platform.database.execute(text("SELECT count(*) FROM seller.orders")).scalar_one() == 721
