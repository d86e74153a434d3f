"""Tests that PostgreSQL answers the documented questions in SQL by indexes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.postgres import copied, drop_database

pytestmark = pytest.mark.slow

DATED = ("orders", "daily_product_sales", "transactions")
_PAGE = Path(__file__).parents[3] / "seller_platform" / "docs" / "consume.md"

_COLUMNS = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_VALUES = {
    "account": "account.key",
    "local_day": "day",
    "date": "day",
    "load_id": "load.id",
    "page": "number / 2000 + 1",
    "row_hash": "gen_random_uuid()",
    "sku": "'SKU-' || number % 2000",
    "platform_order_id": "'305-' || substr(md5(load.id || ' ' || number), 1, 15)",
    "order_id": "'305-' || substr(md5(load.id || ' ' || number), 1, 15)",
}
_BY_TYPE = {
    "text": "'A text of some length'",
    "bigint": "number % 7",
    "integer": "number % 7",
    "numeric": "round((number % 10007) / 7.0, 2)",
    "date": "day",
    "boolean": "true",
    "jsonb": "NULL",
    "uuid": "NULL",
    "timestamp with time zone": "day + interval '5 hours'",
}
_ACCOUNTS = """
INSERT INTO platform.accounts (key, connection, id, title, timezone)
SELECT CASE number WHEN 1 THEN 'us-1042' ELSE 'A' || number || '.US' END, 'default', number, 'Shop', 'UTC'
FROM generate_series(1, %s) AS number
"""
_LOADS = """
INSERT INTO platform.loads (dataset, account, window_start, window_end, requests, pages, body_bytes, rows, digest,
                            verdict, changed, started_at, finished_at)
SELECT %(name)s, key, first, (first + %(length)s::interval)::date, 1, 1, 1, 1, '', 'match', true, first,
       first + interval '40 days'
FROM platform.accounts, generate_series(date '2025-07-01', date '2026-06-01', %(step)s::interval) AS moment,
     LATERAL (SELECT moment::date AS first) AS window_of
ORDER BY first, key
"""


def fill(connection: psycopg.Connection[Any], accounts: int, rows: int) -> None:
    """Store 12 months of dated datasets, each with so many rows, and of inventory a snapshot a week with a tenth."""
    connection.execute(
        "INSERT INTO platform.connections (name, base_url, auth_url, client_id) VALUES ('default', '', '', '')"
    )
    connection.execute(_ACCOUNTS, [accounts])
    for name in (*DATED, "inventory"):
        is_dated = name in DATED
        length, step = ("1 month", "1 month") if is_dated else ("1 day", "1 week")
        connection.execute(_LOADS, {"name": name, "length": length, "step": step})
        connection.execute(rows_of(connection, name, rows if is_dated else rows // 10))
        connection.execute(sql.SQL("VACUUM ANALYZE {}").format(sql.Identifier("seller", name)))
    for table in ("loads", "accounts"):
        connection.execute(sql.SQL("VACUUM ANALYZE {}").format(sql.Identifier("platform", table)))


def questions() -> dict[str, str]:
    """Return the examples in SQL of the page about consuming, by their comments."""
    (examples,) = re.findall(r"^```sql\n(.+?)^```$", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    parted = [example.strip().partition("\n") for example in examples.split(";") if example.strip()]
    return {comment.removeprefix("-- "): statement for comment, _, statement in parted}


def rows_of(connection: psycopg.Connection[Any], name: str, rows: int) -> sql.Composed:
    """Return the statement that inserts the rows of each load of a dataset, load by load."""
    columns = connection.execute(_COLUMNS, [f"seller.{name}"]).fetchall()
    values = [sql.SQL(_VALUES.get(column, _BY_TYPE[kind])) for column, kind in columns]
    statement = sql.SQL(
        "INSERT INTO {table} ({columns}) SELECT {values} FROM platform.loads AS load "
        "JOIN platform.accounts AS account ON account.key = load.account, generate_series(1, {rows}) AS number, "
        "LATERAL (SELECT window_start + number * (window_end - window_start) / ({rows} + 1) AS day) AS placed "
        "WHERE load.dataset = {name} ORDER BY load.id, number"
    )
    return statement.format(
        table=sql.Identifier("seller", name),
        columns=sql.SQL(", ").join(sql.Identifier(column) for column, _ in columns),
        values=sql.SQL(", ").join(values),
        rows=sql.Literal(rows),
        name=sql.Literal(name),
    )


QUESTIONS = questions()


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database of 10 accounts, with 60,000 rows."""
    with psycopg.connect(copied(postgres, "questions"), autocommit=True) as opened:
        fill(opened, accounts=10, rows=150)
        yield opened
    drop_database(postgres, "questions")


def _tables_read_as_a_whole(plan: dict[str, Any]) -> list[str]:
    own = [plan["Relation Name"]] if plan["Node Type"] == "Seq Scan" else []
    return own + [table for part in plan.get("Plans", ()) for table in _tables_read_as_a_whole(part)]


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_large_table_is_read_as_a_whole(connection: psycopg.Connection[Any], question: str) -> None:
    row = connection.execute(f"EXPLAIN (FORMAT JSON) {QUESTIONS[question]}".encode()).fetchone()

    assert row is not None
    large = {"orders", "daily_product_sales", "transactions", "inventory"}
    assert large & set(_tables_read_as_a_whole(row[0][0]["Plan"])) == set()
