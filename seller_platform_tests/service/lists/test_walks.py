"""Tests that a walk over the pages of a list is of one moment."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.slice_reader import read_slice
from seller_platform.client.oauth.tokens import TokenAuth
from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform.sandbox.load import load_sandbox
from seller_platform.service.access import SelectedAccounts, Selector, ServedAccount
from seller_platform.service.errors import ApiError, InvalidParametersError
from seller_platform.service.lists.page_queries import ListRequest
from seller_platform.service.lists.pins import Pin, read_pin, subject_of, write_pin
from seller_platform.service.users.store import grant_accounts
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.retention import prune
from seller_platform.warehouse.loads.slices import revert
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform_tests.support.http_upstream import KeptRows
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.served import ANN, Served, issue_token
from seller_platform_tests.support.stored_rows import copy_rows, store_slice

ORDERS, STOCK, INVENTORY, DAILY = map(dataset_named, ("orders", "warehouse_stock", "inventory", "daily_product_sales"))
US, DE = "us-1", "de-2"
FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)
MARCH = Window.month_of(FIRST)
NEXT = re.compile(r'<http://[^?]+(\?[^<>"\s]+)>; rel="next"')


def _order(number: int, day: date, units: int = 1) -> Row:
    return (f"O-{number:05}", f"{day}T12:00:00-08:00", "Shipped", "1.00", "USD", units, "SKU", "ASIN", "Name", day)


def _stock(number: int, day: date, quantity: int) -> Row:
    return (f"SKU-{number:03}", "Main", quantity, "A", "available", None, day)


def _orders(units: int = 1, count: int = 300) -> list[Row]:
    return [_order(number, day, units) for day in (FIRST, SECOND) for number in range(count)]


def _query(dataset: Dataset, **changed: object) -> dict[str, str]:
    query: dict[str, object] = {"account_title": "Shop US", "per_page": min(dataset.page_sizes)}
    if dataset.is_dated:
        query |= {"start_date": FIRST, "end_date": MARCH.last_day}
    return {name: str(value) for name, value in {**query, **changed}.items() if value is not None}


def _first(client: httpx.Client, dataset: Dataset, **changed: object) -> httpx.Response:
    return client.get(dataset.path, params=_query(dataset, **changed)).raise_for_status()


def _next(client: httpx.Client, answer: httpx.Response) -> httpx.Response:
    """Return the answer that the link of an answer leads to."""
    (link,) = NEXT.findall(answer.headers["link"])
    return client.get(answer.url.join(link))


def _rest(client: httpx.Client, answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the rows of a page and of those after it."""
    rows: list[dict[str, Any]] = []
    while True:
        body = answer.raise_for_status().json()
        rows += body["data"]
        if "link" not in answer.headers:
            assert len(rows) == body.get("total", len(rows))
            return rows
        answer = _next(client, answer)


def _units(rows: Sequence[dict[str, Any]]) -> Counter[tuple[str, int]]:
    return Counter((row["purchase_date"][:10], row["quantity_ordered"]) for row in rows)


def test_a_walk_is_of_the_moment_of_its_first_page(service: Served, ann: httpx.Client) -> None:
    store_slice(service.database, ORDERS, MARCH, _orders(units=2))
    store_slice(service.database, ORDERS, MARCH, _orders())
    first = _first(ann, ORDERS)
    service.execute("UPDATE platform.loads SET run_id = 'run'")  # a receipt that is written again is no load
    store_slice(service.database, ORDERS, Window.day(FIRST), [])
    second = store_slice(service.database, ORDERS, Window.day(SECOND), [_order(7, SECOND, 2)])
    revert(service.database, second.id)
    store_slice(service.database, ORDERS, MARCH, [_order(8, FIRST, 3)])

    rows = _rest(ann, first)

    assert _units(rows) == {("2026-03-01", 1): 300, ("2026-03-02", 1): 300}
    assert len({(row["platform_order_id"], row["purchase_date"]) for row in rows}) == 600
    assert _units(_rest(ann, _first(ann, ORDERS))) == {("2026-03-01", 3): 1}


def test_a_transaction_that_is_open_at_the_first_page_is_left_out(service: Served, ann: httpx.Client) -> None:
    """Its number is lower than that of transactions which the first page saw, and its receipt claims an early end."""
    days = {"start_date": "2026-02-20", "end_date": "2026-03-20"}
    store_slice(service.database, ORDERS, MARCH, _orders())
    with service.database.begin() as connection:
        early = {"started_at": datetime.now(UTC), "finished_at": datetime(2020, 1, 1, tzinfo=UTC)}
        load = store_receipt(connection, ORDERS, US, Window.day(date(2026, 2, 27)), **early)
        mark = "INSERT INTO service.unsummed_loads VALUES ('us-1', 'orders', :load, '[2026-02-01,2026-03-01)')"
        connection.execute(text(mark), {"load": load})
        late = [_order(1, date(2026, 2, 27), 7)]
        copy_rows(driver_of(connection), ORDERS, late, account=US, tags=("platform",), load_id=load)
        store_slice(service.database, ORDERS, Window.day(date(2026, 3, 5)), [_order(1, date(2026, 3, 5), 5)])
        first = _first(ann, ORDERS, **days)

    rows = _rest(ann, first)

    assert _units(rows) == {("2026-03-01", 1): 300, ("2026-03-02", 1): 300, ("2026-03-05", 5): 1}
    assert _first(ann, ORDERS, **days).json()["total"] == 602


def test_a_walk_over_a_snapshot_is_not_disturbed_by_the_next(service: Served, ann: httpx.Client) -> None:
    store_slice(service.database, STOCK, Window.day(FIRST), [_stock(number, FIRST, 1) for number in range(50)])
    first = _first(ann, STOCK)
    store_slice(service.database, STOCK, Window.day(SECOND), [_stock(number, SECOND, 2) for number in range(10, 70)])
    store_slice(service.database, STOCK, Window.day(FIRST), [_stock(number, FIRST, 3) for number in range(10, 70)])

    rows = _rest(ann, first)

    assert [(row["sku"], row["quantity"]) for row in rows] == [(f"SKU-{number:03}", 1) for number in range(50)]
    assert {row["quantity"] for row in _rest(ann, _first(ann, STOCK))} == {2}
    prune(service.database, snapshots_before=MARCH.end, receipts_before=MARCH.end, dry=False)
    second = _next(ann, first)
    assert (second.status_code, "begin again with the first page" in second.json()["message"]) == (410, True)


def test_the_client_reads_the_pages_of_a_moving_list_once(service: Served) -> None:
    store_slice(service.database, STOCK, Window.day(FIRST), [_stock(number, FIRST, 1) for number in range(4_100)])
    moves = iter(range(2, 9))

    class Moves(KeptRows):
        def write(self, *args: Any, **options: Any) -> None:
            super().write(*args, **options)
            store_slice(service.database, STOCK, Window.day(FIRST), [_stock(4_000, FIRST, next(moves))])

    account = Account(1, "Shop US", "US", "USD", "America/Los_Angeles", "US", "S1")
    with SellerApi(service.base_url, auth=TokenAuth(issue_token(service.database, ANN))) as api:
        reading = read_slice(api, STOCK, account, None, FIRST, sink := Moves(), look_ahead=1)

    assert (reading.requests, reading.announced, reading.verdict, reading.notes) == (3, 4_100, CountVerdict.MATCH, {})
    assert {row[2] for row in sink.rows} == {1}


def test_a_walk_over_a_group_is_of_one_moment_of_all_its_accounts(service: Served, ann: httpx.Client) -> None:
    for account in (US, DE):
        store_slice(service.database, ORDERS, MARCH, _orders(count=200), account)
    first = _first(ann, ORDERS, account_title=None, group_title="World")
    for account in (US, DE):
        store_slice(service.database, ORDERS, MARCH, _orders(units=2, count=300), account)

    rows = _rest(ann, first)

    assert Counter(row["quantity_ordered"] for row in rows) == {1: 800}


def test_merged_and_converted_rows_are_of_the_first_moment_too(service: Served, ann: httpx.Client) -> None:
    service.execute("INSERT INTO service.exchange_rates VALUES ('2026-03-01', 'USD', 1.25)")
    rows = [(FIRST, f"SKU-{number:04}", "Tea", None, 1, "10.00", None, None, None, FIRST) for number in range(600)]
    in_both = [row for row in rows for _ in range(2)]
    store_slice(service.database, DAILY, Window.day(FIRST), in_both, parts=("platform", "non-platform"))
    first = _first(ann, DAILY, currency="EUR")
    store_slice(
        service.database, DAILY, Window.day(FIRST), [(FIRST, "SKU-0001", "Tea", None, 5, 1, None, None, None, FIRST)]
    )

    walked = _rest(ann, first)

    assert [row["sku"] for row in walked] == [f"SKU-{number:04}" for number in range(600)]
    assert {(row["units_ordered"], row["product_sales"]) for row in walked} == {(2, 16.0)}
    service.execute("UPDATE service.exchange_rates SET per_euro = 2")
    assert _next(ann, first).status_code == 410


def test_velocity_is_of_the_first_moment_until_lead_times_change(service: Served, ann: httpx.Client) -> None:
    stock = [(f"SKU-{number:03}", "Tea", None, None, 5, 0, 0, 5, 0, None, None, None, FIRST) for number in range(45)]
    sale = (FIRST, "SKU-030", "Tea", None, 30, "10.00", None, None, None, FIRST)
    store_slice(service.database, INVENTORY, Window.day(FIRST), stock)
    store_slice(service.database, DAILY, Window.day(FIRST), [sale])
    first = _first(ann, INVENTORY, velocity_start_date="2026-03-01", velocity_end_date="2026-03-30")
    store_slice(service.database, DAILY, Window.day(FIRST), [(*sale[:4], 60, *sale[5:])])

    second = _next(ann, first)
    service.execute("INSERT INTO service.products VALUES ('us-1', 'SKU-030', 'A', NULL, 'Tea', 1, 1, 3)")
    moved_on = _next(ann, first)

    assert {row["sku"]: row["velocity_30_days"] for row in second.json()["data"]}["SKU-030"] == 1
    assert moved_on.status_code == 410


def test_a_sandbox_that_is_filled_again_ends_the_walk(service: Served, ann: httpx.Client) -> None:
    account = load_sandbox(service.database, accounts=1, months=1, orders_per_month=500, today=MARCH.end).accounts[0]
    grant_accounts(service.database, ANN, [account.key])
    first = _first(ann, ORDERS, account_title=account.title)
    second = _next(ann, first)
    load_sandbox(service.database, accounts=1, months=1, orders_per_month=500, today=MARCH.end)

    again = _next(ann, first)

    assert (second.status_code, again.status_code) == (200, 410)


def test_a_pin_belongs_to_its_parameters_and_accounts(service: Served, ann: httpx.Client) -> None:
    store_slice(service.database, ORDERS, MARCH, _orders())
    link = _first(ann, ORDERS).links["next"]["url"]
    sent = dict(httpx.QueryParams(link.partition("?")[2]))

    others = {"per_page": "500", "end_date": "2026-03-30", "sales_channel": "platform", "account_title": "Shop DE"}
    for name, value in others.items():
        assert ann.get(ORDERS.path, params={**sent, name: value}).status_code == 422, name
    assert ann.get(ORDERS.path, params={**sent, "page": "3"}).status_code == 200


def test_a_pin_belongs_to_the_currencies_and_zones_of_its_list() -> None:
    account = ServedAccount(*("us-1", 1, "Shop", "US", "USD", "America/Los_Angeles", "US", "S1"), is_replica=False)
    asked = ListRequest(Selector(), MARCH.start, MARCH.last_day, None, "USD", 1, 50)
    changes: tuple[dict[str, Any], ...] = ({}, {"currency_code": "EUR"}, {"timezone": "Asia/Tokyo"}, {"key": "us-2"})

    subjects = {subject_of(ORDERS, SelectedAccounts((replace(account, **each),)), asked) for each in changes}
    for currency in (None, "EUR"):
        subjects.add(subject_of(ORDERS, SelectedAccounts((account,)), replace(asked, currency=currency)))

    assert len(subjects) == 6


def test_a_pin_is_kept_for_a_day_and_survives_as_text() -> None:
    now = datetime(2026, 3, 1, 12, 30, 1, 500, tzinfo=UTC)
    pin = Pin(now, 7, "-12.34", "4294967290:4294967310:4294967290,4294967309")

    token = write_pin(pin, b"a list", "a database")

    assert token is not None
    assert read_pin(token, b"a list", "a database", now + timedelta(hours=24)) == pin
    with pytest.raises(ApiError, match="began at 2026-03-01 12:30 UTC, more than 24 hours ago"):
        read_pin(token, b"a list", "a database", now + timedelta(hours=25))
    for subject, database in ((b"another", "a database"), (b"a list", "another")):
        with pytest.raises(InvalidParametersError, match="begin again"):
            read_pin(token, subject, database, now)
    crowded = Pin(now, 7, "1", f"1:9999999:{','.join(map(str, range(1, 9_999_999, 20_011)))}")
    assert write_pin(crowded, b"a list", "a database") is None


def test_the_last_page_has_no_link_and_others_repeat_every_parameter(service: Served, ann: httpx.Client) -> None:
    store_slice(service.database, ORDERS, MARCH, [_order(number, date(2026, 3, 4)) for number in range(600)])

    first = _first(ann, ORDERS, sales_channel="platform", unknown="ä &=%", end_date=None, start_date=None, page=None)
    (link,) = NEXT.findall(first.headers["link"])
    sent = dict(httpx.QueryParams(link.partition("?")[2]))

    assert sent.pop("as_of")
    assert sent == {**_query(ORDERS, start_date=None, end_date=None), "sales_channel": "platform", "page": "2"} | {
        "unknown": "ä &=%"
    }
    assert "link" not in _first(ann, ORDERS, page=3).headers
    assert "link" not in _first(ann, ORDERS, page=77).headers
    assert "link" not in _first(ann, STOCK).headers


def test_a_list_without_total_links_its_pages_too(service: Served, ann: httpx.Client) -> None:
    alerts = dataset_named("notifications")
    values = dict.fromkeys(column.name for column in alerts.columns) | {"type": "price_alerts"}
    rows = [(*{**values, "id": number}.values(), FIRST) for number in range(150)]
    service.insert_rows(alerts, US, rows)
    query = {"account_title": "Shop US", "notification_type": "price_alerts"}

    assert len(_rest(ann, ann.get(alerts.path, params=query))) == 150
