"""Tests that PostgreSQL answers the documented questions in SQL by indexes."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.many_rows import fill, questions
from seller_platform_tests.support.postgres import TEMPLATE, drop_database

pytestmark = pytest.mark.slow

QUESTIONS = questions()


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database of 10 accounts, with 220,000 rows."""
    with psycopg.connect(postgres.database("questions", template=TEMPLATE), autocommit=True) as opened:
        fill(opened, accounts=10, rows=600)
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
