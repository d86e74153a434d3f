"""Tests that work for one account reads no large table as a whole, however many others there are."""

from datetime import date, timedelta
from pathlib import Path

import psycopg
import pytest

from seller_platform.contract import LISTS, Window, dataset_named
from seller_platform.service.sums.keeping import write_sums
from seller_platform.service.users.store import grant_accounts
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.many_accounts import KEY, store_large_lists
from seller_platform_tests.support.postgres import copied, drop_database
from seller_platform_tests.support.processes import environment
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.served import ANN, served
from seller_platform_tests.support.stored_rows import ACCOUNTS, list_accounts, store_slice

pytestmark = pytest.mark.slow

OF_KEY = {"account_title": ACCOUNTS[KEY].title}
ORDERS, MAY = dataset_named("orders"), Window(date(2026, 5, 1), date(2026, 6, 1))
READ = Window(date(2026, 1, 1), date(2026, 3, 1))
PAGE = ("/sales/orders", {"start_date": "2026-02-03", "end_date": "2026-02-20", "per_page": "2000"})
VIEW = (
    "/sales/statistics-dashboard",
    {"start_date": "2026-01-01", "end_date": "2026-02-28", "view_by": "product", "group_by": "sku", "per_page": "500"},
)
_SCANNED = """
SELECT pg_class.relname, seq_scan FROM pg_stat_user_tables JOIN pg_class ON pg_class.oid = relid
WHERE seq_scan > 0 AND reltuples > 2000 AND schemaname <> 'service' ORDER BY 1
"""


def _orders(price: str) -> list[tuple[object, ...]]:
    return [
        (f"305-{number}", f"{day}T08:00:00Z", "Shipped", price, "USD", 1, f"SKU-{number % 300}", "B0", "Cup", day)
        for number in range(600)
        for day in [MAY.start + timedelta(days=number % 31)]
    ]


def test_work_for_one_account_reads_no_large_table_as_a_whole(postgres: EmbeddedServer, tmp_path: Path) -> None:
    url = copied(postgres, "plans")
    with psycopg.connect(url, autocommit=True) as connection, Database(url) as database:
        store_large_lists(database)
        list_accounts(database, {KEY: ACCOUNTS[KEY]})
        for dataset in LISTS:
            mark_loaded(database, dataset, KEY, READ)
        with database.begin() as transaction:
            write_sums(transaction, [KEY])
        connection.execute("SELECT pg_stat_reset()")

        # What a connection has read is counted at the latest when it is closed.
        with Database(url) as other, served(other, url) as service:
            grant_accounts(other, ANN, [KEY])
            for price in ("19.90", "20.90"):
                store_slice(other, ORDERS, MAY, _orders(price), KEY)
            with service.client(ANN) as client:
                answers = [client.get(path, params=OF_KEY | query) for path, query in (PAGE, VIEW)]
        status = run_here(["status"], environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=url))

        assert [answer.status_code for answer in answers] == [200, 200], answers[1].text
        assert "It was never loaded" in status.stdout, status.stderr
        assert connection.execute(_SCANNED).fetchall() == []
    drop_database(postgres, "plans")
