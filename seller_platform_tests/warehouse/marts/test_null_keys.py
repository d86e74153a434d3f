"""Tests what marts make of rows without a SKU."""

from datetime import date

import pytest

from seller_platform.contract import Window, dataset_named
from seller_platform.warehouse.loads.products import skus_of_account
from seller_platform.warehouse.marts import MARTS, Mart, mart_named
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.shop import ACCOUNT, Shop

_SNAPSHOT = "2026-04-01"


@pytest.fixture
def unnamed(shop: Shop) -> Shop:
    """A shop whose sales and inventory have a row without a SKU each."""
    shop.sell("2026-02-20", "A", 1, "15.00")
    shop.sell("2026-03-01", "A", 2, "30.00")
    shop.post("2026-03-01", "Fee", "-1.00", "A")
    shop.stock("A", 10)
    for day in ("2026-02-20", "2026-03-01"):
        shop.insert("daily_product_sales", (day, None, None, None, 1, "7.00", "0", "0", "0", day))
    shop.insert("inventory", (None, None, None, None, 5, 0, 1, 5, None, None, None, None, _SNAPSHOT))
    shop.insert("warehouse_stock", (None, None, 3, None, "available", None, _SNAPSHOT))
    mark_loaded(shop.database, dataset_named("daily_product_sales"), ACCOUNT, Window.month_of(date(2026, 2, 1)))
    return shop


@pytest.mark.parametrize("mart", MARTS, ids=lambda mart: mart.name)
def test_a_mart_of_rows_without_a_sku_agrees_with_its_inputs(unnamed: Shop, mart: Mart) -> None:
    build = unnamed.build(mart)

    assert build.rows > 0
    assert [
        result.check.name for result in build.check_results if not result.passed and not result.check.is_warning
    ] == []


def test_sales_without_a_sku_count_for_the_account_and_for_no_product(unnamed: Shop) -> None:
    unnamed.build(mart_named("account_profit_daily"))
    unnamed.build(mart_named("product_performance_monthly"))

    assert unnamed.rows("SELECT sum(product_sales) FROM marts.account_profit_daily")[0][0] == 37
    assert unnamed.rows("SELECT sku, units, units_before FROM marts.product_performance_monthly") == [("A", 2, 1)]


def test_rows_without_a_sku_are_no_product_whose_costs_are_read(unnamed: Shop) -> None:
    assert skus_of_account(unnamed.database, ACCOUNT) == ["A"]
