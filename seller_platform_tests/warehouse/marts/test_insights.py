"""Tests what the insights say of rows that a test inserts."""

from datetime import date
from decimal import Decimal

from seller_platform.warehouse.marts.insights import MarginFell, RunsOut, WithoutCost, build_insights
from seller_platform_tests.support.shop import ACCOUNT, MARCH, Shop

TODAY = date(2026, 4, 1)


def test_insights_name_what_runs_out_earns_less_or_lacks_a_cost(shop: Shop) -> None:
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

    assert insights.month == MARCH
    assert insights.runs_out == RunsOut(ACCOUNT, "Name of JAR", date(2026, 4, 4), 2)
    assert insights.margin_fell == MarginFell(ACCOUNT, "Name of CUP", Decimal("50.00"), Decimal("37.50"))
    assert insights.without_cost == WithoutCost(ACCOUNT, "USD", Decimal("121.00"), Decimal("40.3"), 2)
