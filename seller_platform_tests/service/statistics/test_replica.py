"""Tests statistics of rows inserted one by one."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import httpx

from seller_platform.contract import dataset_named
from seller_platform_tests.service.statistics.test_endpoint import PATH, PERIODS, label_of
from seller_platform_tests.support.served import ANN, Served, ask, body_of

DAILY, INVENTORY, LEDGER, COSTS = map(
    dataset_named, ("daily_product_sales", "inventory", "transactions", "cost_periods")
)
BY_PRODUCT, BY_DATE, US = dataset_named("sales_by_product"), dataset_named("sales_by_date"), "us-1"


def _sell(served: Served, day: str, sku: str, units: int, sales: str, *, asin: str | None = "ASIN") -> None:
    row = (day, sku, f"Name of {sku}", asin, units, sales, "0.00", "0.00", "0.00", day)
    served.insert_rows(DAILY, "us-1", [row])


def _post(served: Served, day: str, kind: str, amount: str, sku: str | None, *, currency: str | None = "USD") -> None:
    row = (f"{day}T12:00:00-08:00", kind, "order", sku, kind, 1, amount, currency, None, day)
    served.insert_rows(LEDGER, "us-1", [row])


def _get(served: Served, **query: str) -> httpx.Response:
    with served.client(ANN) as client:
        sent = {"account_title": "Shop US", "start_date": "2026-03-01", "end_date": "2026-03-02", **query}
        return ask(client, PATH, **sent)


def _rows(served: Served, **query: str) -> list[dict[str, Any]]:
    return list(body_of(_get(served, **query))["data"])


def _pick(rows: Sequence[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_a_sale_without_a_sku_is_listed_and_counted(service: Served, ann: httpx.Client) -> None:
    _sell(service, "2026-03-01", "A", 1, "10.00")
    service.insert_rows(DAILY, "us-1", [("2026-03-01", *[None] * 8, "2026-03-01")])
    service.insert_rows(INVENTORY, "us-1", [(None,) * 12 + ("2026-03-02",)])

    listed = [
        ann.get(path, params={"account_title": "Shop US", "per_page": "500", **days})
        for path, days in (
            (DAILY.path, {"start_date": "2026-03-01", "end_date": "2026-03-02"}),
            (INVENTORY.path, {"velocity_start_date": "2026-03-01", "velocity_end_date": "2026-03-02"}),
        )
    ]
    by_sku = _rows(service, view_by="product", group_by="sku")

    assert [[row["sku"] for row in answer.json()["data"]] for answer in listed] == [["A", None], [None]]
    assert _pick(by_sku, "sku", "units_ordered") == [("A", 1), (None, 0)]


def test_a_product_that_left_the_stock_keeps_the_name_it_was_sold_under(service: Served) -> None:
    _sell(service, "2026-03-01", "GONE", 2, "10.00", asin="B1")
    _sell(service, "2026-03-01", "HERE", 1, "5.00", asin="B1")
    service.insert_rows(
        INVENTORY, "us-1", [("HERE", "Name now", "B1", "X", 4, 0, 0, 4, "1.00", 4, None, None, "2026-03-02")]
    )
    _post(service, "2026-03-02", "Fee", "-1.50", "ONLY FEES")

    by_sku = _rows(service, view_by="product", group_by="sku")
    by_asin = _rows(service, view_by="product", group_by="asin")

    assert _pick(by_sku, "sku", "asin", "product_name", "units_ordered", "platform_fees", "inventory") == [
        ("GONE", "B1", "Name of GONE", 2, Decimal("0.00"), None),
        ("HERE", "B1", "Name now", 1, Decimal("0.00"), 4),
        ("ONLY FEES", None, None, 0, Decimal("1.50"), None),
    ]
    assert _pick(by_asin, "asin", "units_ordered", "platform_fees") == [
        ("B1", 3, Decimal("0.00")),
        (None, 0, Decimal("1.50")),
    ]
    assert _pick(by_sku, "buybox_price", "sales_rank", "roi") == [(None, None, None)] * 3


def test_a_converted_amount_is_rounded_half_away_from_zero(service: Served) -> None:
    for per_euro, dollars, euros in (
        ("8", "0.04", "0.01"),  # half a cent
        ("8", "-0.04", "-0.01"),
        ("8", "0.12", "0.02"),
        ("3", "0.01", "0.00"),
        ("3", "0.05", "0.02"),
        ("1.0835", "999999999.99", "922934933.08"),
        ("1", "0.01", "0.01"),
    ):
        service.execute("DELETE FROM service.exchange_rates; DELETE FROM seller.daily_product_sales")
        service.execute(f"INSERT INTO service.exchange_rates VALUES ('2026-03-01', 'USD', {per_euro})")
        _sell(service, "2026-03-01", "A", 1, dollars)

        answered = _rows(service, view_by="product", group_by="sku", currency="EUR", end_date="2026-03-01")

        assert _pick(answered, "product_sales") == [(Decimal(euros),)]


def test_fees_in_another_currency_are_converted_at_the_rate_of_their_day(service: Served) -> None:
    service.execute("INSERT INTO service.exchange_rates VALUES ('2026-03-01', 'USD', 1.25)")
    _post(service, "2026-03-01", "Fee", "-1.00", "A")
    _post(service, "2026-03-01", "Fee", "-1.00", "A", currency="EUR")
    _post(service, "2026-03-01", "Fee", "-1.00", "A", currency=None)

    assert _pick(_rows(service, view_by="product", group_by="sku"), "platform_fees") == [(Decimal("3.25"),)]
    _post(service, "2026-03-02", "Fee", "-1.00", "A", currency="EUR")
    answer = _get(service, view_by="product", group_by="sku")
    assert answer.status_code == 422
    assert "on 2026-03-02 the exchange rate of USD is not known" in answer.text


def test_a_period_without_rows_is_absent_and_the_next_has_no_comparison(service: Served) -> None:
    for day, units in (("2026-02-27", 4), ("2026-02-28", 2), ("2026-03-01", 3), ("2026-03-03", 5)):
        _sell(service, day, "A", units, "0.00")

    rows = _rows(service, view_by="date", group_by="day", end_date="2026-03-03")

    assert [(row["date"], row["trend"]["units_ordered"]) for row in rows] == [
        ("2026-03-01", Decimal("50.00")),
        ("2026-03-03", None),
    ]
    assert _pick(rows, "roi", "profit_margin") == [(None, None)] * 2


def test_costs_that_are_no_numbers_count_nothing(service: Served) -> None:
    _sell(service, "2026-03-01", "A", 2, "10.00")
    for number, elements in enumerate(('{"amount": 1}', '[1, null, {"amount": "x"}, {"amount": 1.5}]', "null")):
        service.insert_rows(COSTS, "us-1", [("A", f"2026-01-0{number + 1}", None, elements, "2026-03-01")])

    assert _pick(_rows(service, view_by="product", group_by="sku"), "product_cost", "profit", "roi") == [
        (Decimal("3.00"), Decimal("7.00"), Decimal("233.33"))
    ]


EDGES = (
    *("0001-01-01", "2020-12-31", "2021-01-01", "2021-01-03", "2021-01-04", "2024-02-29", "2024-12-30"),
    *("2025-06-30", "2025-07-01", "2025-12-29", "2026-01-01", "9999-12-31"),
)


def test_a_label_is_that_of_the_calendar(service: Served) -> None:
    for day in EDGES:
        _sell(service, day, "A", 1, "1.00")

    for period in PERIODS:
        # A range of all years takes seconds.
        for days in (EDGES[:1], EDGES[1:-1], EDGES[-1:]):
            ends = {"start_date": days[0], "end_date": days[-1]}
            rows = _rows(service, view_by="product", group_by="sku", period_by=period, **ends)

            labels = {label_of(period, date.fromisoformat(day)) for day in days}
            assert ({row["date"] for row in rows}, len(rows)) == (labels, len(labels))
