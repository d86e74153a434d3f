"""Tests statistics of a replica, with its upstream's rows where these were read, and of rows inserted one by one."""

import json
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform_tests.service.statistics.test_endpoint import PATH, PERIODS, label_of
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.served import ANN, Served, ask, body_of
from seller_platform_tests.support.stored_rows import connect

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


FEBRUARY, TODAY = Window(date(2026, 2, 1), date(2026, 3, 1)), date(2026, 3, 9)  # in the time zone of US
SO_FAR = Window(date(2026, 3, 1), date(2026, 3, 10))
FIGURES = (3, "30.00", "12.00", "3.00", "15.00", "125.00", "50.00")  # nothing that is computed gives these


@pytest.fixture
def replica(service: Served) -> Served:
    """A service whose rows of one account were loaded from another service; nothing was sold."""
    connect(service.database, US)
    mark_loaded(service.database, DAILY, US, Window(date(2026, 1, 1), SO_FAR.end))
    return service


def _ask(client: httpx.Client, dataset: Dataset, first: date, last: date, **query: object) -> dict[str, Any]:
    sent = {"account_title": "Shop US", "start_date": first, "end_date": last, **dict(dataset.parameters), **query}
    return dict(ask(client, dataset.path, **sent).raise_for_status().json())


def _load_products(served: Served, window: Window, *skus: str) -> None:
    """Store products of a window, as a load of it does."""
    label = f"{window.start:%B %Y}"
    rows = [(sku, "ASIN", f"Name of {sku}", label, *FIGURES, window.start) for sku in skus]
    served.insert_rows(BY_PRODUCT, US, rows)
    mark_loaded(served.database, BY_PRODUCT, US, window)


def _load_days(served: Served, days: Sequence[date]) -> None:
    trend = json.dumps({"units_ordered": 50.5, "product_sales": None, "profit": -1})
    served.insert_rows(BY_DATE, US, [(day, *FIGURES, trend, day) for day in days])
    for day in days:
        mark_loaded(served.database, BY_DATE, US, Window.day(day))


def test_whole_months_by_sku_are_the_rows_that_were_read(replica: Served, ann: httpx.Client) -> None:
    _load_products(replica, FEBRUARY, "b", "C", "a")
    _load_products(replica, SO_FAR, "A", *(f"{number:03}" for number in range(500)))

    february = _ask(ann, BY_PRODUCT, FEBRUARY.start, FEBRUARY.last_day)
    both = _ask(ann, BY_PRODUCT, FEBRUARY.start, TODAY, currency="USD")
    last = _ask(ann, BY_PRODUCT, FEBRUARY.start, TODAY, page=2)

    values = ("C", "ASIN", "Name of C", "February 2026", 3, 30, 12, 3, 15, 125, 50)
    assert february["data"][0] == dict(zip((column.name for column in BY_PRODUCT.columns), values, strict=True))
    assert (february["total"], [row["sku"] for row in february["data"]]) == (3, ["C", "a", "b"])
    assert [(row["sku"], row["date"]) for row in both["data"][:4]] == [
        *((sku, "February 2026") for sku in ("C", "a", "b")),
        ("000", "March 2026"),
    ]
    assert [(len(page["data"]), page["total"], page["last_page"]) for page in (both, last)] == [
        (500, 504, 2),
        (4, 504, 2),
    ]
    assert last["data"][-1]["sku"] == "A"


def test_days_are_the_rows_that_were_read_in_any_range(replica: Served, ann: httpx.Client) -> None:
    _load_days(replica, [*SO_FAR.each_day()])

    rows = _ask(ann, BY_DATE, date(2026, 3, 3), date(2026, 3, 4), period_by="Year")["data"]
    to_come = _ask(ann, BY_DATE, date(2026, 3, 8), date(2026, 3, 31))["data"]

    assert [row["date"] for row in rows] == ["2026-03-03", "2026-03-04"]
    assert rows[0]["product_sales"] == 30
    assert rows[0]["trend"] == {"units_ordered": 50.5, "product_sales": None, "profit": -1}
    assert [row["date"] for row in to_come] == ["2026-03-08", "2026-03-09"]


def test_what_was_not_read_as_it_is_asked_for_is_computed(replica: Served, ann: httpx.Client) -> None:
    _load_products(replica, FEBRUARY, "A")
    _load_products(replica, SO_FAR.until(date(2026, 3, 8)), "A")
    mark_loaded(replica.database, BY_PRODUCT, US, SO_FAR)  # the newest load says of which days the rows are
    _load_days(replica, [day for day in SO_FAR.each_day() if day != TODAY - timedelta(days=2)])
    replica.execute("INSERT INTO service.exchange_rates VALUES ('2026-02-01', 'USD', 1.25)")
    for first, last in (
        (FEBRUARY.start, date(2026, 2, 27)),
        (date(2026, 2, 2), FEBRUARY.last_day),
        (date(2026, 1, 1), FEBRUARY.last_day),
        (SO_FAR.start, date(2026, 3, 7)),
        (SO_FAR.start, date(2026, 3, 8)),
    ):
        assert _ask(ann, BY_PRODUCT, first, last)["data"] == [], (first, last)
    of_skus: tuple[tuple[str, object], ...] = (("group_by", "asin"), ("period_by", "Year"), ("period_by", None))
    for view in ({name: value} for name, value in (*of_skus, ("currency", "EUR"))):
        assert _ask(ann, BY_PRODUCT, FEBRUARY.start, FEBRUARY.last_day, **view)["data"] == [], view
    assert _ask(ann, BY_DATE, SO_FAR.start, TODAY)["data"] == []
    assert len(_ask(ann, BY_DATE, TODAY - timedelta(days=1), TODAY)["data"]) == 2
    assert [row["sku"] for row in _ask(ann, BY_PRODUCT, SO_FAR.start, date(2026, 3, 31))["data"]] == ["A"]
    replica.execute("DELETE FROM platform.accounts WHERE key = %s", US)  # it is no replica any more

    assert _ask(ann, BY_PRODUCT, FEBRUARY.start, FEBRUARY.last_day)["data"] == []
