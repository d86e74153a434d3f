"""`seller-platform explain`: from a stored row to the request that brings it again."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from seller_platform.contract import dataset_named
from seller_platform.orchestration.partitions import partition_key
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.platform import MONTHS, Platform, lent_platform
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import document, environment

pytestmark = pytest.mark.slow

KEYS = sorted(independent_upstream.KEYS.values())
ORDER = "A1FOREIGN-platform-02-650"


@pytest.fixture(scope="module")
def platform(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A platform with every account's orders and more."""
    with lent_platform(databases, tmp_path_factory.mktemp("home")) as opened:
        opened.discover()
        for name in ("orders", "transactions", "daily_product_sales"):
            opened.months(dataset_named(name))
        for name in ("inventory", "notifications"):
            opened.run([dataset_named(name)], KEYS[0], KEYS[-1])
        yield opened


@pytest.fixture
def variables(platform: Platform, tmp_path: Path) -> dict[str, str]:
    """A fresh shell's, over that platform."""
    own = {"SELLER_PLATFORM_DATABASE_URL": platform.database.url, "SELLER_PLATFORM_DAGSTER_URL": "http://dagster:3000"}
    return environment(tmp_path, **own)


def _explain(variables: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return run_here(["explain", *words], variables)


def _rows(variables: dict[str, str], *words: str) -> list[dict[str, Any]]:
    rows = document(_explain(variables, *words, "--json"))["rows"]
    assert isinstance(rows, list)
    return rows


def _ask(platform: Platform, url: str) -> list[dict[str, Any]]:
    token = platform.upstream.issue()["access_token"]
    answer = httpx.get(url, headers={"Authorization": f"Bearer {token}"}).raise_for_status()
    data = answer.json()["data"]
    return list(data.values()) if isinstance(data, dict) else list(data)


def test_the_request_that_is_shown_brings_the_row_again(platform: Platform, variables: dict[str, str]) -> None:
    # A list read in parts of days, one in a single page, one split by a filter, and one whose filter is ignored.
    asked = {
        "orders": (ORDER, "platform_order_id", ORDER),
        "inventory": ("SKU 44", "sku", "SKU 44"),
        "notifications": ("60", "id", 60),
        "daily_product_sales": ("date=2026-02-02", "date", "2026-02-02"),
    }
    for name, (word, field, value) in asked.items():
        (row,) = _rows(variables, name, word, "--account", independent_upstream.KEYS["A1FOREIGN"])

        assert value in [each[field] for each in _ask(platform, row["request"]["url"])], name


def test_a_row_of_a_list_is_explained_with_its_page_load_and_run(platform: Platform, variables: dict[str, str]) -> None:
    (row,) = _rows(variables, "notifications", "60", "--account", KEYS[0])

    assert row["request"]["is_exact"]
    assert row["request"]["params"]["page"] == "3"
    assert row["load"]["verdict"] == "unverifiable"
    assert row["load_id"] == row["load"]["load_id"]
    assert row["load"]["requests"] >= row["load"]["pages"] >= row["page"]
    assert [load["load_id"] for load in row["history"]] == [row["load_id"]]


def test_what_was_confirmed_and_restated_since_is_told(platform: Platform, variables: dict[str, str]) -> None:
    """The last one, because it changes the rows that the others read."""
    (before,) = _rows(variables, "orders", ORDER)
    february = partition_key(independent_upstream.KEYS["A1FOREIGN"], MONTHS[1])
    platform.run([dataset_named("orders")], february, february)
    (confirmed,) = _rows(variables, "orders", ORDER)
    with platform.database.begin() as connection:
        connection.execute(text("UPDATE platform.loads SET digest = '\\x00' WHERE dataset = 'orders'"))
        connection.execute(
            text("UPDATE seller.orders SET order_total = 0, row_hash = NULL WHERE platform_order_id = :o"), {"o": ORDER}
        )
    platform.run([dataset_named("orders")], february, february)
    (restated,) = _rows(variables, "orders", ORDER)

    assert confirmed["load_id"] == before["load_id"]
    assert len(confirmed["confirmed_load_ids"]) == 1
    assert restated["load_id"] > confirmed["load_id"]
    assert [load["changed"] for load in restated["history"]] == [True, False, True]
    assert "order_total EUR" in restated["history"][-1]["restatement"]
    assert restated["first_load_id"] == before["load_id"]
    (former,) = restated["former_versions"]
    assert former["gone_load_id"] == restated["load_id"]
    assert former["differed"] == {"order_total": "0"}
