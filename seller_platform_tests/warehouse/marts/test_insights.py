"""Tests what the insights say of rows that a test inserts."""

from datetime import date

from seller_platform.contract import Account, Window
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES
from seller_platform.warehouse.marts.insights import build_insights
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.shop import ACCOUNT, Shop
from seller_platform_tests.support.stored_rows import connect_accounts

TODAY = date(2026, 4, 1)


def test_insights_name_what_runs_out_earns_less_or_lacks_a_cost(shop: Shop) -> None:
    connect_accounts(shop.database, [(ACCOUNT, Account(1, "Shop", "US", "USD", "America/Los_Angeles", "US", "S1"))])
    mark_loaded(shop.database, DAILY_PRODUCT_SALES, ACCOUNT, Window(date(2026, 1, 1), TODAY))
    for sku, february, march in (("CUP", "100.00", "80.00"), ("JAR", "100.00", "99.00"), ("MUG", "100.00", "60.00")):
        shop.sell("2026-02-10", sku, 10, february)
        shop.sell("2026-03-10", sku, 10, march)
    shop.sell("2026-03-11", "NEW", 20, "61.00")
    for sku in ("CUP", "JAR"):
        shop.cost(sku, "2026-01-01", None, '[{"cost_element": "Goods", "amount": 5, "currency": "USD"}]')
    shop.stock("CUP", 2)  # a third of a unit each day
    shop.stock("JAR", 1)
    shop.stock("NEW", 0)

    insights = build_insights(shop.database, [ACCOUNT], TODAY)

    assert insights == [
        "Runs out this week: Name of JAR of Shop, on 2026-04-04; 2 products do in all.",
        "Margin fell most in March 2026: Name of CUP of Shop, from 50.0 to 37.5 percent of its sales.",
        "Sales without a cost in March 2026: 121.00 USD of Shop, which are 40.3 percent of its sales.",
    ]
