"""Tests the rows of each mart, and the insights, with rows that a test inserts one by one."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES
from seller_platform.marts.insights import build_insights
from seller_platform.warehouse.derived.builds import Build
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.loads.expectations import skus_of_account
from seller_platform_tests.support.receipts import mark_loaded, store_receipt
from seller_platform_tests.support.shop import ACCOUNT, MARCH, Shop, mart_named
from seller_platform_tests.support.stored_rows import connect_accounts

PROFIT = mart_named("account_profit_daily")
PRODUCTS = mart_named("product_performance_monthly")
HEALTH = mart_named("inventory_health")
PLAN = mart_named("restock_plan")
SETTLEMENT = mart_named("settlement_reconciliation")
COVERAGE = mart_named("cost_coverage")


def _d(*amounts: str) -> tuple[Decimal, ...]:
    return tuple(map(Decimal, amounts))


def _failed(build: Build) -> list[str]:
    return [result.check.name for result in build.check_results if not result.passed]


def _element(amount: str, currency: str | None = "USD") -> str:
    currency_field = "" if currency is None else f', "currency": "{currency}"'
    return f'{{"cost_element": "Goods", "amount": {amount}{currency_field}}}'


def test_profit_is_sales_less_cost_of_the_day_and_fees_posted_that_day(shop: Shop) -> None:
    shop.sell("2026-03-01", "A", 2, "30.00")
    shop.sell("2026-03-01", "A", 1, "15.00", channel="non-platform")
    shop.sell("2026-03-02", "A", 1, "15.00")
    shop.cost("A", "2026-01-01", "2026-03-01", f"[{_element('2.00')}, {_element('1.50', None)}]")
    shop.cost("A", "2026-03-02", None, f"[{_element('4.00')}]")
    for amount in ("-1.25", "-1.25", "0.50"):
        shop.post("2026-03-01", "Fee", amount, "A")
    shop.post("2026-03-01", "Refund", "-7.00", "A")
    shop.post("2026-03-01", "Order", "99.00", "A")
    shop.post("2026-03-03", "Fee", "-39.99")

    build = shop.build(PROFIT)

    assert shop.rows(
        "SELECT local_day, currency, units, product_sales, rebates, refunds, platform_fees, product_cost, profit, "
        "profit_margin, roi, units_without_cost FROM marts.account_profit_daily ORDER BY 1"
    ) == [
        (date(2026, 3, 1), "USD", 3, *_d("45.00", "0.10", "7.00", "2.00", "10.50", "32.50", "72.22", "309.52"), 0),
        (date(2026, 3, 2), "USD", 1, *_d("15.00", "0.05", "0", "0", "4.00", "11.00", "73.33", "275.00"), 0),
        (date(2026, 3, 3), "USD", 0, *_d("0", "0", "0", "39.99", "0", "-39.99"), None, None, 0),
    ]
    assert _failed(build) == []


def test_a_cost_that_is_not_known_is_null_and_not_nought(shop: Shop) -> None:
    shop.sell("2026-03-01", "UNKNOWN", 2, "30.00")
    shop.sell("2026-03-02", "UNKNOWN", 2, "30.00")
    shop.sell("2026-03-02", "KNOWN", 1, "10.00")
    shop.cost("KNOWN", "2026-01-01", None, f"[{_element('4.00')}]")

    build = shop.build(PROFIT)

    assert shop.rows(
        "SELECT product_cost, profit, profit_margin, units_without_cost, sales_without_cost "
        "FROM marts.account_profit_daily ORDER BY local_day"
    ) == [(None, None, None, 2, Decimal("30.00")), (*_d("4.00", "36.00", "90.00"), 2, Decimal("30.00"))]
    assert _failed(build) == []


def test_amounts_in_another_currency_are_rows_of_their_own_and_never_added(shop: Shop) -> None:
    shop.sell("2026-03-01", "A", 1, "10.00")
    shop.post("2026-03-01", "Fee", "-2.00", "A")
    shop.post("2026-03-01", "Fee", "-3.00", "A", currency=None)
    shop.post("2026-03-01", "Fee", "-1.00", "A", currency="EUR")

    for mart in (PROFIT, PRODUCTS):
        build = shop.build(mart)

        assert shop.rows(f"SELECT currency, units, product_sales, platform_fees FROM {mart.table} ORDER BY 1") == [
            ("EUR", 0, *_d("0", "1.00")),
            ("USD", 1, *_d("10.00", "5.00")),
        ]
        assert _failed(build) == []


def test_an_account_whose_currency_is_not_known_has_none(shop: Shop) -> None:
    shop.database.execute(text("UPDATE platform.accounts SET currency_code = NULL"))
    shop.sell("2026-03-01", "A", 1, "10.00")

    shop.build(PROFIT)

    assert shop.rows("SELECT currency FROM marts.account_profit_daily") == [("XXX",)]


def test_only_the_newest_snapshot_of_the_costs_counts_be_it_empty(shop: Shop) -> None:
    shop.sell("2026-03-01", "A", 1, "10.00")
    shop.cost("A", "2026-01-01", None, f"[{_element('1.00')}]", snapshot="2026-03-30")
    shop.cost("A", "2026-01-01", None, f"[{_element('2.00')}]", snapshot="2026-03-31")
    shop.build(PROFIT)
    assert shop.rows("SELECT product_cost FROM marts.account_profit_daily") == [_d("2.00")]
    store_receipt(shop.database, dataset_named("cost_periods"), ACCOUNT, Window.day(date(2026, 4, 1)))

    shop.build(PROFIT)

    assert shop.rows("SELECT product_cost FROM marts.account_profit_daily") == [(None,)]


def test_products_are_ranked_classed_and_compared_with_the_month_before(shop: Shop) -> None:
    _mark_loaded(shop, "daily_product_sales")
    for sku, sales in (("A", "80.00"), ("B", "15.00"), ("C", "5.00")):
        shop.sell("2026-03-01", sku, 1, sales)
    shop.sell("2026-02-28", "A", 3, "100.00")
    shop.sell("2026-02-01", "GONE", 1, "8.00")
    shop.sell("2026-01-31", "A", 9, "900.00")
    shop.post("2026-03-05", "Refund", "-4.00", "B", quantity=2)
    shop.post("2026-03-05", "Fee", "-39.99")
    shop.post("2026-03-05", "Fee", "-1.00", "ONLY FEES")

    build = shop.build(PRODUCTS)

    assert shop.rows(
        "SELECT sku, rank, abc_class, share_of_sales, units_refunded, platform_fees, units_before, sales_before, "
        "sales_change FROM marts.product_performance_monthly ORDER BY rank, sku"
    ) == [
        ("A", 1, "A", Decimal("80.00"), 0, Decimal(0), 3, *_d("100.00", "-20.00")),
        ("B", 2, "B", Decimal("15.00"), 2, Decimal(0), 0, Decimal(0), None),
        ("C", 3, "C", Decimal("5.00"), 0, Decimal(0), 0, Decimal(0), None),
        ("GONE", None, None, Decimal("0.00"), 0, Decimal(0), 1, *_d("8.00", "-100.00")),
        ("ONLY FEES", None, None, Decimal("0.00"), 0, Decimal("1.00"), 0, Decimal(0), None),
    ]
    assert _failed(build) == []


@pytest.mark.parametrize(("first", "expected"), [(None, None), (2, None), (1, 3)])
def test_a_month_before_that_was_not_read_is_null_not_zero(shop: Shop, first: int | None, expected: int | None) -> None:
    if first:
        february = Window.month_of(date(2026, 2, 1)).since(date(2026, 2, first))
        store_receipt(shop.database, DAILY_PRODUCT_SALES, ACCOUNT, february)
    shop.sell("2026-02-27", "A", 3, "100.00")
    shop.sell("2026-03-01", "A", 1, "80.00")

    shop.build(PRODUCTS)

    assert shop.rows("SELECT units_before FROM marts.product_performance_monthly") == [(expected,)]


def test_the_name_of_a_product_is_the_latest(shop: Shop) -> None:
    for day, name in (("2026-03-02", "New"), ("2026-03-01", "Old"), ("2026-03-03", None)):
        shop.insert("daily_product_sales", (day, "A", name, None, 1, "1.00", None, None, None, day))

    shop.build(PRODUCTS)
    shop.build(COVERAGE)

    assert shop.rows("SELECT product_name FROM marts.product_performance_monthly") == [("New",)]
    assert shop.rows("SELECT product_name FROM marts.cost_coverage") == [("New",)]


def test_sales_without_a_valid_cost_have_a_reason(shop: Shop) -> None:
    for sku in ("GAP", "NONE", "FOREIGN", "WORDS", "FULL"):
        for day in ("2026-03-01", "2026-03-15", "2026-03-31"):
            shop.sell(day, sku, 1, "10.00")
    shop.cost("GAP", "2026-01-01", "2026-03-01", f"[{_element('1.00')}]")
    shop.cost("GAP", "2026-03-31", None, f"[{_element('1.00')}]")
    shop.cost("FOREIGN", "2026-01-01", None, f"[{_element('1.00')}, {_element('1.00', 'EUR')}]")
    shop.cost("WORDS", "2026-01-01", None, '[{"amount": "much"}, 7, null]')
    shop.cost("FULL", "2026-01-01", None, f"[{_element('0')}]")

    build = shop.build(COVERAGE)

    middle = date(2026, 3, 15)
    assert shop.rows(
        "SELECT sku, units_without_cost, share_covered, days_without_cost, first_day_without_cost, "
        "last_day_without_cost, problem FROM marts.cost_coverage ORDER BY sku"
    ) == [
        ("FOREIGN", 3, Decimal(0), 3, MARCH.start, MARCH.last_day, "other currency"),
        ("FULL", 0, Decimal(100), 0, None, None, None),
        ("GAP", 1, Decimal("66.67"), 1, middle, middle, "gap"),
        ("NONE", 3, Decimal(0), 3, MARCH.start, MARCH.last_day, "no cost"),
        ("WORDS", 3, Decimal(0), 3, MARCH.start, MARCH.last_day, "no cost"),
    ]
    assert _failed(build) == ["sales_are_covered"]
    assert _failed(shop.build(COVERAGE, least_percent=0)) == []


@pytest.mark.parametrize(
    ("first", "units", "risks", "urgency"),
    [
        (1, (60, 60), ["critical", "out of stock"], "now"),
        (3, (60, None), ["critical", "out of stock"], "now"),
        (4, (None, None), ["unknown", "out of stock"], "unknown"),
    ],
)
def test_what_sold_is_null_where_not_each_day_was_loaded(
    shop: Shop, first: int, units: tuple[int | None, int | None], risks: list[str], urgency: str
) -> None:
    _mark_loaded(shop, "daily_product_sales", first=first, end=5)
    for sku, sellable in (("A", 10), ("OUT", 0)):
        shop.sell("2026-03-20", sku, 60, "1.00")
        shop.stock(sku, sellable)
    shop.stock("NEW", 4)

    builds = [shop.build(HEALTH), shop.build(PLAN)]

    assert shop.rows("SELECT units_30_days, units_90_days FROM marts.inventory_health WHERE sku = 'A'") == [units]
    assert [risk for (risk,) in shop.rows("SELECT stock_out_risk FROM marts.inventory_health ORDER BY sku")] == [
        risks[0],
        "unknown" if units[0] is None else "no demand",
        risks[1],
    ]
    ((planned, *orders),) = shop.rows("SELECT urgency, order_units, to_buy FROM marts.restock_plan WHERE sku = 'A'")
    assert (planned, orders == [None, None]) == (urgency, units[0] is None)
    assert [_failed(build) for build in builds] == [[], []]


def test_the_risk_of_a_stock_out_follows_from_cover_and_demand(shop: Shop) -> None:
    _mark_loaded(shop, "daily_product_sales", end=4)
    for sku, units in (("OUT", 3), ("CRITICAL", 30), ("LOW", 30), ("HEALTHY", 30), ("MUCH", 30)):
        shop.sell("2026-03-20", sku, units, "1.00")
    shop.sell("2026-03-01", "EARLIER", 30, "1.00")
    shop.sell("2026-04-01", "CRITICAL", 500, "1.00")  # the day of the snapshot is not over
    for sku, sellable in (("OUT", 0), ("CRITICAL", 13), ("LOW", 29), ("HEALTHY", 30), ("IDLE", 5), ("EARLIER", 0)):
        shop.stock(sku, sellable)
    shop.stock("MUCH", 30, inbound=200)
    shop.stock("UNKNOWN", None)
    shop.stock("OUT", 0, day="2026-03-31")
    shop.stock("GONE", 9, day="2026-03-31")

    build = shop.build(HEALTH)

    assert shop.rows(
        "SELECT sku, stock_out_risk, velocity, days_of_cover, stock_out_date FROM marts.inventory_health ORDER BY sku"
    ) == [
        ("CRITICAL", "critical", *_d("1.00", "13.0"), date(2026, 4, 14)),
        ("EARLIER", "out of stock", Decimal(0), None, None),
        ("HEALTHY", "healthy", *_d("1.00", "30.0"), date(2026, 5, 1)),
        ("IDLE", "no demand", Decimal(0), None, None),
        ("LOW", "low", *_d("1.00", "29.0"), date(2026, 4, 30)),
        ("MUCH", "overstock", *_d("1.00", "30.0"), date(2026, 5, 1)),
        ("OUT", "out of stock", *_d("0.10", "0.0"), date(2026, 4, 1)),
        ("UNKNOWN", "unknown", Decimal(0), None, None),
    ]
    assert shop.rows("SELECT out_of_stock_days, snapshot_days FROM marts.inventory_health WHERE sku = 'OUT'") == [
        (2, 2)
    ]
    assert _failed(build) == []


@pytest.mark.parametrize(
    ("sold", "sellable", "days", "risk"),
    [
        (215, 100, "14.0", "critical"),  # 13.95 days
        (214, 100, "14.0", "low"),  # 14.02
        (1001, 1000, "30.0", "low"),  # 29.97
        (20, 20, "30.0", "healthy"),  # as a velocity, 20 / 30 has no last digit
        (7, 42, "180.0", "healthy"),
        (100, 601, "180.3", "overstock"),
        (10_000, 60_010, "180.0", "overstock"),  # 180.03
    ],
)
def test_days_of_cover_are_rounded_only_where_shown(shop: Shop, sold: int, sellable: int, days: str, risk: str) -> None:
    _mark_loaded(shop, "daily_product_sales", end=4)
    shop.sell("2026-03-20", "A", sold, "1.00")
    shop.stock("A", sellable)

    shop.build(HEALTH)
    shop.build(PLAN, lead_time_days=10, safety_days=3)

    last_day = date(2026, 4, 1) + timedelta(30 * sellable // sold)
    assert shop.rows("SELECT days_of_cover, stock_out_risk, stock_out_date FROM marts.inventory_health") == [
        (Decimal(days), risk, last_day)
    ]
    assert shop.rows("SELECT days_of_cover, order_date, stock_out_date, order_units FROM marts.restock_plan") == [
        (Decimal(days), last_day - timedelta(13), last_day, sold)
    ]


@pytest.mark.parametrize(
    ("burst", "agrees"),
    [("2026-02-27", False), ("2026-02-28", True), ("2026-03-01", True), ("2026-04-01", True), ("2026-04-02", False)],
)
def test_a_stated_velocity_may_cover_30_days_one_later_or_two_earlier(shop: Shop, burst: str, agrees: bool) -> None:
    _mark_loaded(shop, "daily_product_sales", end=4)
    for day in range(2, 31):
        shop.sell(f"2026-03-{day:02}", "EVERY DAY", 1, "1.00")
    shop.sell(burst, "BURST", 30, "1.00")
    shop.stock("BURST", 100, velocity="1.00")
    shop.stock("EVERY DAY", 100, velocity="0.97")
    shop.stock("NOT SOLD", 100, velocity="0.00")
    shop.stock("NOT STATED", 100)

    build = shop.build(HEALTH)

    assert _failed(build) == ([] if agrees else ["velocity_agrees_with_the_api"])
    (result,) = [each for each in build.check_results if each.check.name == "velocity_agrees_with_the_api"]
    assert [row["sku"] for row in result.examples] == ([] if agrees else ["BURST"])


def test_an_order_is_due_when_stock_covers_only_lead_time_and_safety(shop: Shop) -> None:
    _mark_loaded(shop, "daily_product_sales", end=4)
    for sku in ("LATE", "SOON", "LATER"):
        shop.sell("2026-03-20", sku, 60, "1.00")  # two a day
    shop.stock("LATE", 10, inbound=10)
    shop.stock("SOON", 60)
    shop.stock("LATER", 1_000)
    shop.stock("IDLE", 1)
    now = "2026-03-31T10:00:00-07:00"
    for quantity, status in ((25, "available"), (900, "reserved")):
        shop.insert("warehouse_stock", ("LATE", "Main", quantity, "A1", status, now, "2026-03-31"))

    build = shop.build(PLAN, lead_time_days=20, safety_days=5, target_cover_days=30)

    # LATE: 20 units last 10 days, and 25 days are needed until an order arrives: 2 * 15 more than 2 * 30.
    assert shop.rows(
        "SELECT sku, order_date, order_units, from_own_warehouses, to_buy, urgency, days_without_stock, "
        "stock_out_date FROM marts.restock_plan ORDER BY sku"
    ) == [
        ("IDLE", None, 0, 0, 0, "none", 0, None),
        ("LATE", date(2026, 4, 1), 90, 25, 65, "now", 10, date(2026, 4, 11)),
        ("LATER", date(2027, 7, 20), 60, 0, 60, "later", 0, date(2027, 8, 14)),
        ("SOON", date(2026, 4, 6), 60, 0, 60, "this week", 0, date(2026, 5, 1)),
    ]
    assert build.parameters == {"lead_time_days": 20, "safety_days": 5, "target_cover_days": 30}
    assert _failed(build) == []


def _settled(shop: Shop, comparison: str) -> list[tuple[Any, ...]]:
    return shop.rows(
        "SELECT expected, found, difference, explained, verdict FROM marts.settlement_reconciliation "
        "WHERE comparison = :comparison ORDER BY local_day",
        comparison=comparison,
    )


def _mark_loaded(shop: Shop, *names: str, first: int = 1, end: int = 6) -> None:
    """Store that months of lists were loaded, from January to May."""
    for name in names:
        mark_loaded(shop.database, dataset_named(name), ACCOUNT, Window(date(2026, first, 1), date(2026, end, 1)))


def test_orders_are_compared_with_the_daily_sales_but_for_those_cancelled(shop: Shop) -> None:
    shop.order("2026-03-01", "1", "10.25")
    shop.order("2026-03-01", "2", "99.00", "Cancelled")
    shop.sell("2026-03-01", "A", 1, "10.00")  # with tax and shipping, less the rebate
    shop.sell("2026-03-02", "A", 1, "10.00")

    build = shop.build(SETTLEMENT)

    assert _settled(shop, "orders and daily sales") == [
        (*_d("10.25", "10.25", "0", "0"), "equal"),
        (*_d("0", "10.25", "10.25", "0"), "unexplained"),
    ]
    assert _failed(build) == ["everything_is_explained"]
    assert build.check_results[-1].examples[0]["comparison"] == "orders and daily sales"


def test_what_the_ledger_need_not_have_paid_yet_is_explained(shop: Shop) -> None:
    _mark_loaded(shop, "transactions")
    shop.order("2026-03-01", "PAID IN APRIL", "10.00")
    shop.order("2026-03-02", "PENDING", "11.00", "Pending")
    shop.order("2026-03-03", "ELSEWHERE", "12.00", channel="non-platform")
    shop.order("2026-03-04", "FORGOTTEN", "13.00")
    shop.order("2026-03-30", "NEW", "14.00")
    shop.post("2026-04-10", "Order", "10.00", order="PAID IN APRIL")

    shop.build(SETTLEMENT)

    assert _settled(shop, "orders and payments") == [
        (*_d("10.00", "10.00", "0.00", "0"), "equal"),
        (*_d("11.00", "0", "-11.00", "-11.00"), "explained"),
        (*_d("12.00", "0", "-12.00", "-12.00"), "explained"),
        (*_d("13.00", "0", "-13.00", "0"), "unexplained"),
        (*_d("14.00", "0", "-14.00", "-14.00"), "explained"),
    ]


_COMPARED = {
    "orders and payments": ("10.00", "0"),
    "daily sales and statistics": ("10.00", "10.00"),
    "fees and statistics": ("0", "2.00"),
}


@pytest.mark.parametrize("first", [1, 2, 3, 4])
@pytest.mark.parametrize("names", [(), ("sales_by_date",), ("transactions",), ("transactions", "sales_by_date")])
def test_what_was_never_loaded_is_null_and_no_difference(shop: Shop, names: tuple[str, ...], first: int) -> None:
    shop.order("2026-03-01", "1", "10.00")
    shop.sell("2026-03-01", "A", 1, "10.00")
    shop.insert("sales_by_date", ("2026-03-01", 1, "10.00", "0", "2.00", "0", None, None, None, "2026-03-01"))
    _mark_loaded(shop, *names, first=first)
    loaded = {name for name in names if first <= MARCH.start.month}

    shop.build(SETTLEMENT)

    for comparison, found in _COMPARED.items():
        ((expected_amount, found_amount, _, _, verdict),) = _settled(shop, comparison)
        lists = {"orders and payments": {"transactions"}, "daily sales and statistics": {"sales_by_date"}}
        is_loaded = lists.get(comparison, {"transactions", "sales_by_date"}) <= loaded
        assert (verdict == "not loaded") is not is_loaded
        assert ((expected_amount, found_amount) == _d(*found)) is is_loaded


def test_payouts_are_not_compared_over_a_month_that_was_never_loaded(shop: Shop) -> None:
    _mark_loaded(shop, "transactions", end=2)
    _mark_loaded(shop, "transactions", first=3)
    shop.post("2026-01-25", "Transfer", "-70.00")
    shop.post("2026-03-01", "Order", "100.00", order="1")
    shop.post("2026-03-11", "Transfer", "-90.00")

    shop.build(SETTLEMENT)
    before = _settled(shop, "earnings and payouts")
    _mark_loaded(shop, "transactions", first=2, end=3)
    shop.build(SETTLEMENT)

    assert before == [(None, Decimal("90.00"), None, None, "not comparable")]
    assert _settled(shop, "earnings and payouts")[0][0] == Decimal("100.00")


def test_sales_and_fees_are_compared_with_the_statistics(shop: Shop) -> None:
    _mark_loaded(shop, "transactions", "sales_by_date")
    for day, sales, fees in (("2026-03-01", "10.00", "1.00"), ("2026-03-02", "1000.00", "2.00")):
        row = (day, 1, sales, "0", fees, "0", None, None, None, day)
        shop.insert("sales_by_date", row)
    shop.sell("2026-03-01", "A", 1, "10.00")
    shop.sell("2026-03-02", "A", 1, "1000.90")
    shop.post("2026-03-01", "Fee", "-1.00")
    shop.post("2026-03-02", "Fee", "-2.00")
    shop.post("2026-03-02", "Fee", "-1.00", currency="EUR")

    shop.build(SETTLEMENT)

    assert _settled(shop, "daily sales and statistics") == [
        (*_d("10.00", "10.00", "0.00", "0"), "equal"),
        (*_d("1000.90", "1000.00", "-0.90", "0"), "explained"),
    ]
    assert _settled(shop, "fees and statistics") == [
        (*_d("1.00", "1.00", "0.00", "0"), "equal"),
        (None, Decimal("2.00"), None, None, "not comparable"),
    ]


def test_net_profit_is_profit_with_every_step_of_the_day(shop: Shop) -> None:
    shop.sell("2026-03-01", "A", 2, "100.00")  # with a credit of 0.20 and a rebate of 0.05
    shop.cost("A", "2026-01-01", None, f"[{_element('10.00')}]")
    for kind, amount in (
        ("Fee", "-15.00"),
        ("Refund", "-7.00"),
        ("Advertising", "-4.00"),
        ("Storage", "-3.00"),
        ("Subscription", "-2.00"),
        ("Reimbursement", "5.00"),
        ("Deal", "-1.50"),
        ("Order", "100.15"),
        ("Transfer", "-50.00"),
    ):
        shop.post("2026-03-01", kind, amount, "A")

    for mart in (PROFIT, PRODUCTS):
        build = shop.build(mart)

        assert shop.rows(
            "SELECT profit, shipping_credits, rebates, refunds, advertising, storage, subscriptions, reimbursements, "
            f"other_entries, net_profit FROM {mart.table}"
        ) == [_d("65.00", "0.20", "0.05", "7.00", "4.00", "3.00", "2.00", "5.00", "-1.50", "52.65")]
        assert _failed(build) == []


def test_a_payout_is_compared_with_what_was_posted_since_the_one_before(shop: Shop) -> None:
    _mark_loaded(shop, "transactions")
    shop.post("2026-02-20", "Order", "70.00", order="0")
    shop.post("2026-02-25", "Transfer", "-70.00")
    shop.post("2026-03-01", "Order", "100.00", order="1")
    shop.post("2026-03-02", "Fee", "-10.00")
    shop.post("2026-03-11", "Transfer", "-90.00")
    shop.post("2026-03-20", "Order", "30.00", order="2")
    shop.post("2026-03-25", "Transfer", "-25.00")

    build = shop.build(SETTLEMENT)

    assert _settled(shop, "earnings and payouts") == [
        (*_d("90.00", "90.00", "0.00", "0.00"), "equal"),
        (*_d("30.00", "25.00", "-5.00", "0.00"), "unexplained"),
    ]
    assert _failed(build) == ["everything_is_explained"]
    assert build.check_results[-1].examples[0]["unexplained"] == Decimal("-5.00")


def test_a_balance_that_is_carried_over_to_the_next_payout_is_explained(shop: Shop) -> None:
    _mark_loaded(shop, "transactions")
    for day, amount in ((1, "80.00"), (10, "8.00"), (12, "40.00"), (24, "4.00"), (30, "9.00")):
        shop.post(f"2026-03-{day:02}", "Order", amount, order=f"{day}")
    shop.post("2026-02-25", "Transfer", "-1.00")
    shop.post("2026-03-11", "Transfer", "-80.00")  # the period had closed three days before, so without the 8
    shop.post("2026-03-25", "Transfer", "-48.00")

    build = shop.build(SETTLEMENT)
    patient = shop.rows("SELECT verdict FROM marts.settlement_reconciliation WHERE local_day = '2026-03-30'")
    shop.build(SETTLEMENT, payout_days=4)
    impatient = shop.rows("SELECT verdict FROM marts.settlement_reconciliation WHERE local_day = '2026-03-30'")

    assert build.check_results[-1].passed
    assert (patient, impatient) == ([("explained",)], [("unexplained",)])
    assert _settled(shop, "earnings and payouts")[:2] == [
        (*_d("88.00", "80.00", "-8.00", "-8.00"), "explained"),
        (*_d("44.00", "48.00", "4.00", "4.00"), "explained"),
    ]


def test_the_first_payout_of_a_ledger_is_not_comparable(shop: Shop) -> None:
    _mark_loaded(shop, "transactions")
    shop.post("2026-03-01", "Order", "100.00", order="1")
    shop.build(SETTLEMENT)
    without = _settled(shop, "earnings and payouts")

    shop.post("2026-03-11", "Transfer", "-90.00")
    shop.build(SETTLEMENT)

    assert without == []
    assert _settled(shop, "earnings and payouts") == [(None, Decimal("90.00"), None, None, "not comparable")]


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
        "Out of stock, although sold within 90 days: Name of NEW of Shop.",
        "Runs out this week at the pace of the last 30 days: Name of JAR of Shop, on 2026-04-04; 2 products do in all.",
        "Margin fell most in March 2026, of products with 10 units or more in both months: Name of CUP of Shop, "
        "from 50.0 to 37.5 percent of its sales.",
        "Sales without a cost in March 2026: 121.00 USD of Shop, which are 40.3 percent of its sales.",
    ]
