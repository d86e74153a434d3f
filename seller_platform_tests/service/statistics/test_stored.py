"""Tests that a replica answers statistics with its upstream's rows where exactly these were read."""

import json
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import httpx
import pytest

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.served import Served, ask, connect, execute, insert_rows

BY_PRODUCT, BY_DATE, DAILY = map(dataset_named, ("sales_by_product", "sales_by_date", "daily_product_sales"))
US = "us-1"
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
    insert_rows(served.database, BY_PRODUCT, US, rows)
    mark_loaded(served.database, BY_PRODUCT, US, window)


def _load_days(served: Served, days: Sequence[date]) -> None:
    trend = json.dumps({"units_ordered": 50.5, "product_sales": None, "profit": -1})
    insert_rows(served.database, BY_DATE, US, [(day, *FIGURES, trend, day) for day in days])
    for day in days:
        mark_loaded(served.database, BY_DATE, US, Window.day(day))


def test_whole_months_by_sku_are_the_rows_that_were_read(replica: Served, ann: httpx.Client) -> None:
    _load_products(replica, FEBRUARY, "b", "C", "a")
    _load_products(replica, SO_FAR, "A", *(f"{number:03}" for number in range(500)))

    february = _ask(ann, BY_PRODUCT, FEBRUARY.start, FEBRUARY.last_day)
    both = _ask(ann, BY_PRODUCT, FEBRUARY.start, TODAY, currency="USD")
    last = _ask(ann, BY_PRODUCT, FEBRUARY.start, TODAY, page=2)

    assert february["data"][0] == {
        "sku": "C",
        "asin": "ASIN",
        "product_name": "Name of C",
        "date": "February 2026",
        "units_ordered": 3,
        "product_sales": 30,
        "product_cost": 12,
        "platform_fees": 3,
        "profit": 15,
        "roi": 125,
        "profit_margin": 50,
    }
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
    execute(replica.database, "INSERT INTO service.exchange_rates VALUES ('2026-02-01', 'USD', 1.25)")
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
    execute(replica.database, "DELETE FROM platform.accounts WHERE key = %s", US)  # it is no replica any more

    assert _ask(ann, BY_PRODUCT, FEBRUARY.start, FEBRUARY.last_day)["data"] == []
