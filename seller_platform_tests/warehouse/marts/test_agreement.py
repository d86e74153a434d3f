"""Tests the sandbox's marts: their checks, and agreement with the service's statistics."""

import asyncio
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from seller_platform.contract import Window
from seller_platform.service.access import SelectedAccounts, Selector, ServedAccount
from seller_platform.service.lists.page_queries import ListRequest
from seller_platform.service.statistics.plan import ComparedDays, Grouping
from seller_platform.service.statistics.query import read_statistics
from seller_platform.service.statistics.spans import ReadSpans
from seller_platform.warehouse.marts import MARTS
from seller_platform.warehouse.marts.builds import Build
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.sessions import conninfo
from seller_platform_tests.support.shop import MONTHS

pytestmark = pytest.mark.slow

Built = tuple[Database, Mapping[tuple[str, str, Window | None], Build]]

_SAYS_SOMETHING = {
    "account_profit_daily": "profit > 0 AND platform_fees > 0 AND refunds > 0 AND net_profit < profit",
    "profit_bridge_monthly": "line = 'advertising' AND part = 'step' AND amount < 0",
    "product_performance_monthly": "profit > net_profit AND sales_change IS NOT NULL AND abc_class = 'B'",
    "inventory_health": "stock_out_risk = 'critical' AND days_of_cover > 0",
    "restock_plan": "urgency = 'now' AND to_buy > 0",
    "settlement_reconciliation": "comparison = 'orders and payments' AND verdict = 'explained' AND explained < 0",
    "journal_entries": "kind = 'month end' AND line = 'balance' AND debit > 0",
    "cost_coverage": "problem = 'no cost' AND sales_without_cost > 0",
}


def test_no_check_finds_a_contradiction_and_costs_alone_are_lacking(built: Built) -> None:
    _, builds = built

    failed = {
        (mart, result.check.name)
        for (mart, _, _), build in builds.items()
        for result in build.check_results
        if not result.passed
    }

    assert failed <= {("cost_coverage", "sales_are_covered")}
    assert {mart for mart, _, _ in builds} == {mart.name for mart in MARTS}
    assert all(build.rows and build.chart_rows for build in builds.values())


@pytest.mark.parametrize("mart", MARTS, ids=lambda mart: mart.name)
def test_every_mart_says_something_of_every_account(built: Built, mart: Any) -> None:
    database, builds = built
    accounts = {account for _, account, _ in builds}

    with database.begin() as connection:
        accounts_in_mart = connection.execute(
            text(f"SELECT DISTINCT account FROM {mart.table} WHERE {_SAYS_SOMETHING[mart.name]}")
        ).scalars()

        # The smallest account has a dozen products, none of which may have to be ordered today.
        assert len(accounts - set(accounts_in_mart)) <= (mart.name == "restock_plan")


@pytest.mark.parametrize("month", MONTHS, ids=str)
def test_profit_by_day_is_that_of_the_statistics(built: Built, month: Window) -> None:
    database, builds = built

    for account in {account for _, account, _ in builds}:
        statistics = _statistics(database, account, Grouping(None, "Date"), month)
        stored = _rows(database, "account_profit_daily", "local_day::text", account, month)

        assert len(statistics) >= 14
        assert [row["date"] for row in statistics] == sorted(row["key"] for row in stored)
        for row in stored:
            expected = next(each for each in statistics if each["date"] == row["key"])
            if row["product_cost"] is None:  # no product sold that day has a cost; the statistics show 0
                assert row["units_without_cost"] == row["units"] > 0 == expected["product_cost"]
                expected |= {"product_cost": None, "profit": None, "profit_margin": None}
            assert row["units"] == expected["units_ordered"]
            for name in ("product_sales", "product_cost", "platform_fees", "profit", "roi", "profit_margin"):
                assert row[name] == expected[name], (account, row["key"], name)


@pytest.mark.parametrize("month", MONTHS, ids=str)
def test_profit_by_product_is_that_of_the_statistics_where_it_is_known(built: Built, month: Window) -> None:
    database, builds = built

    for account in {account for _, account, _ in builds}:
        statistics = {row["sku"]: row for row in _statistics(database, account, Grouping("sku", "Month"), month)}
        stored = {row["key"]: row for row in _rows(database, "product_performance_monthly", "sku", account, month)}

        names = ("product_sales", "platform_fees")
        assert {sku: (row["units_ordered"], *(row[name] for name in names)) for sku, row in statistics.items()} == {
            sku: (row["units"], *(row[name] for name in names)) for sku, row in stored.items() if sku in statistics
        }
        assert all(stored[sku]["units"] == 0 for sku in stored.keys() - statistics.keys())
        with_profit = {sku for sku, row in stored.items() if row["profit"] is not None and sku in statistics}
        assert len(with_profit) > len(statistics) * 0.7
        for sku in with_profit:
            assert stored[sku]["profit"] == statistics[sku]["profit"]
        assert sum(row["product_cost"] or 0 for row in stored.values()) == sum(
            row["product_cost"] for row in statistics.values()
        )


def _rows(database: Database, mart: str, key: str, account: str, month: Window) -> list[dict[str, Any]]:
    day = next(each.day for each in MARTS if each.name == mart)
    with database.begin() as connection:
        rows = connection.execute(
            text(
                f"SELECT {key} AS key, * FROM marts.{mart} WHERE account = :account AND {day} >= :start "
                f"AND {day} < :end"
            ),
            {"account": account, "start": month.start, "end": month.end},
        ).mappings()
        return [dict(row) for row in rows]


def _statistics(database: Database, account: str, grouping: Grouping, month: Window) -> list[dict[str, Any]]:
    with database.begin() as connection:
        listed = connection.execute(
            text(
                "SELECT id, account_title, country_code, currency_code, timezone, marketplace, seller_id "
                "FROM seller.accounts WHERE account = :account"
            ),
            {"account": account},
        ).mappings()
        served = ServedAccount(key=account, is_replica=False, **listed.one())

    async def ask() -> bytes:
        async with await psycopg.AsyncConnection.connect(conninfo(database.url), autocommit=True) as connection:
            known = ReadSpans([ComparedDays(month.start, month.last_day)], knows_costs=True, knows_fees=True)
            asked = ListRequest(Selector(), None, None, None, None, page=1, per_page=2_000)
            page, _ = await read_statistics(connection, SelectedAccounts((served,)), grouping, known, asked)
            return page.rows

    rows: list[dict[str, Any]] = json.loads(b"[" + asyncio.run(ask()) + b"]", parse_float=Decimal)
    return rows
