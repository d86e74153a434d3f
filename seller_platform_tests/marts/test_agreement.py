"""Tests that marts agree with each other and with the sandbox, and that their columns come from columns that exist."""

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.contract import Window
from seller_platform.warehouse.derived.builds import Build
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.postgres.database import Database

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

    accounts_in_mart = database.execute(
        text(f"SELECT DISTINCT account FROM {mart.table} WHERE {_SAYS_SOMETHING[mart.name]}")
    ).scalars()

    # The smallest account has a dozen products, none of which may have to be ordered today.
    assert len(accounts - set(accounts_in_mart)) <= (mart.name == "restock_plan")


_EVERY_MART = pytest.mark.parametrize("mart", MARTS, ids=lambda mart: mart.name)


@_EVERY_MART
def test_every_column_has_a_sentence_and_comes_from_columns_that_exist(mart: Mart) -> None:
    datasets = {each.dataset.name: each.dataset for each in mart.inputs}

    for column in mart.columns:
        assert column.doc.endswith("."), column.name
        for of in column.of:
            dataset, _, name = of.partition(".")
            assert dataset in datasets, f"{column.name} is computed from {of}, which is not among the inputs"
            datasets[dataset].column(name)
