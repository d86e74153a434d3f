"""Tests how figures compare stored rows with those of the upstream."""

from decimal import Decimal
from pathlib import Path

import httpx
import psycopg

from seller_platform_tests.figures.free_service import CHANGE, free_service
from seller_platform_tests.figures.pipelines.environments import Job
from seller_platform_tests.figures.pipelines.parity import compare

_COLUMNS = """
posted_date timestamptz, transaction_type text, order_id text, sku text, description text, quantity bigint,
amount numeric, currency text, marketplace_name text, account text DEFAULT 'us-1'
"""
_INSERT = """
INSERT INTO lists.transactions
SELECT row.*, 'us-1' FROM json_populate_recordset(NULL::lists.sent, %s::json->'data') AS row
"""


def test_rows_that_a_tool_lost_changed_or_repeated_are_counted(database_url: str, tmp_path: Path) -> None:
    with free_service(1, 1, 300) as url, psycopg.connect(database_url, autocommit=True) as connection:
        job = Job(url, database_url, tmp_path, account_count=1, month_count=1)
        answer = httpx.get(f"{url}/sales/transactions?start_date=2025-01-01&end_date=2025-01-31&per_page=300")
        connection.execute(f"CREATE SCHEMA lists; CREATE TABLE lists.transactions ({_COLUMNS})")
        connection.execute("CREATE TABLE lists.sent AS TABLE lists.transactions; ALTER TABLE lists.sent DROP account")
        connection.execute(_INSERT, (answer.text,))
        whole = compare(job, "lists", "transactions")
        for change in ("DELETE FROM {0}", "UPDATE {0} SET sku = 'other'", "INSERT INTO {0} TABLE {0} LIMIT 1"):
            row = " WHERE ctid = (SELECT max(ctid) FROM lists.transactions)" if "LIMIT" not in change else ""
            connection.execute(change.format("lists.transactions") + row)
        damaged = compare(job, "lists", "transactions")
        httpx.get(url + CHANGE)
        changed = compare(job, "lists", "transactions")

    assert (whole.rows, whole.different) == (300, 0)
    assert whole.amount == str(sum(Decimal(str(row["amount"])) for row in answer.json()["data"]))
    assert damaged.different == 4  # one lost, one changed, which is lost and new, and one twice
    assert 4 < changed.different < 24
