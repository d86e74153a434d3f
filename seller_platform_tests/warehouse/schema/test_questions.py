"""Tests that PostgreSQL answers the documented questions in SQL by indexes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.many_accounts import store_large_lists
from seller_platform_tests.support.postgres import copied, drop_database

pytestmark = pytest.mark.slow

_PAGE = Path(__file__).parents[3] / "seller_platform" / "docs" / "consume.md"


def questions() -> dict[str, str]:
    """Return the examples in SQL of the page about consuming, by their comments."""
    examples, *_ = re.findall(r"^```sql\n(.+?)^```$", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    parted = [example.strip().partition("\n") for example in examples.split(";") if example.strip()]
    return {comment.removeprefix("-- "): statement for comment, _, statement in parted}


QUESTIONS = questions()


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database with rows of thousands of accounts."""
    with Database(copied(postgres, "questions")) as database:
        store_large_lists(database)
        with psycopg.connect(database.url, autocommit=True) as opened:
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
