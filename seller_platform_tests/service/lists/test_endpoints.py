"""Tests every list: pages, order, selection, dates, filters, and exact values, which another installation reads too."""

from collections import Counter
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import httpx
import pytest

from seller_platform.client.http.api import SellerApi
from seller_platform.client.oauth.tokens import TokenAuth
from seller_platform.contract import LISTS, Dataset, Kind, Window, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.ingest.loads.slices import read_slice
from seller_platform.sandbox.load import load_sandbox
from seller_platform.service.lists.endpoints import SERVED, keeps_own_currency
from seller_platform.service.users.store import grant_accounts
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import Slice
from seller_platform.warehouse.loads.slices import open_load
from seller_platform_tests.support.served import ANN, Served, body_of, issue_token, submit
from seller_platform_tests.support.stored_rows import FIRST_DAY, LAST_DAY, rows_of, store_slice

ORDERS, DAILY, STOCK = dataset_named("orders"), dataset_named("daily_product_sales"), dataset_named("warehouse_stock")


def _query(dataset: Dataset, **changed: str | int | None) -> dict[str, str]:
    query: dict[str, str | int | None] = {"account_title": "Shop US"}
    if dataset.page_sizes:
        query["per_page"] = min(dataset.page_sizes)
    if dataset.is_dated:
        query |= {"start_date": str(FIRST_DAY), "end_date": str(LAST_DAY)}
    if dataset.split_by and dataset.split_by.required:
        query[dataset.split_by.parameter] = dataset.split_by.values[0]
    return {name: str(value) for name, value in {**query, **changed}.items() if value is not None}


def _get(service: Served, dataset: Dataset, email: str = ANN, /, **changed: str | int | None) -> httpx.Response:
    with service.client(email) as client:
        return client.get(dataset.path, params=_query(dataset, **changed))


def _expected(dataset: Dataset, account: str) -> Counter[str]:
    names, split = [column.name for column in dataset.columns], dataset.split_by
    rows = [dict(zip(names, row[:-1], strict=True)) for row in rows_of(dataset, account)]
    if split and split.required:
        rows = [row for row in rows if row[str(split.field)] == split.values[0]]
    if split and split.is_merged:
        rows = _merged(dataset, rows)
    return Counter(_spelled(dataset, row) for row in rows)


def _merged(dataset: Dataset, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each key, in which numbers are added."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in dataset.key)
        before = merged.setdefault(key, dict.fromkeys(row))
        for column in dataset.columns:
            values = [value for value in (before[column.name], row[column.name]) if value is not None]
            is_added = column.kind in (Kind.INTEGER, Kind.MONEY, Kind.NUMBER)
            before[column.name] = (sum(values) if is_added else max(values)) if values else None
    return list(merged.values())


def _spelled(dataset: Dataset, row: Mapping[str, Any]) -> str:
    """Return a row of Python or JSON values in one spelling."""
    values = []
    for column in dataset.columns:
        value = row[column.name]
        if value is not None and column.kind in (Kind.MONEY, Kind.NUMBER):
            value = f"{Decimal(value):.3f}"
        values.append(str(value))
    return repr(values)


@pytest.mark.parametrize(
    ("dataset", "group"),
    [(each, group) for each in SERVED for group in (None, "World") if group is None or not keeps_own_currency(each)],
    ids=lambda each: each.name if isinstance(each, Dataset) else each,
)
def test_the_pages_of_a_list_are_the_list_exactly(reading: Served, dataset: Dataset, group: str | None) -> None:
    expected = _expected(dataset, "us-1")
    query: dict[str, str | None] = {} if group is None else {"account_title": None, "group_title": group}
    expected += _expected(dataset, "de-2") if group is not None else Counter()

    with reading.client(ANN) as client:
        rows: list[dict[str, Any]] = []
        for page in range(1, 20):
            body = body_of(client.get(dataset.path, params=_query(dataset, page=page, **query)))
            if dataset.announces_total:
                assert (body["current_page"], body["total"]) == (page, expected.total())
                assert body["last_page"] == -(-expected.total() // body["per_page"])
                assert list(body) == ["current_page", "data", "total", "per_page", "last_page"]
            else:
                assert list(body) == ["data"]
            rows += body["data"]
            if not body["data"]:
                break

    assert Counter(_spelled(dataset, row) for row in rows) == expected


def test_a_pair_of_several_accounts_says_their_titles(service: Served, ann: httpx.Client) -> None:
    service.execute("UPDATE seller.accounts SET marketplace = 'FR' WHERE account = 'it-4'")
    service.execute("UPDATE seller.accounts SET account_title = 'Other' WHERE account = 'it-4'")

    query = {"per_page": "20", "seller_id": "S4", "marketplace_id": "FR"}
    answer = ann.get("/inventory/list", params=query)

    assert answer.json()["errors"] == {
        "seller_id": ["selects 2 of your accounts; select one by its account_title: Twin, Other"]
    }


def test_the_default_week_ends_today_in_each_accounts_calendar(reading: Served) -> None:
    american = body_of(_get(reading, DAILY, start_date=None, end_date=None))
    german = body_of(_get(reading, DAILY, account_title="Shop DE", start_date=None, end_date=None))

    assert {row["date"] for row in american["data"]} == {f"2026-03-0{day}" for day in range(3, 10)}
    assert {row["date"] for row in german["data"]} == {f"2026-03-0{day}" for day in range(4, 10)}


def test_a_start_that_only_some_zones_have_reached_is_no_error(service: Served, ann: httpx.Client) -> None:
    """It is the 10th of March in Berlin, and still the 9th in Los Angeles."""
    for account, day in (("us-1", date(2026, 3, 9)), ("de-2", date(2026, 3, 10))):
        zero = Decimal(0)
        sold = (day, f"SKU {account}", "Mug", "A", 4, Decimal(100), zero, zero, zero, day)
        service.insert_rows(DAILY, account, [sold])
    service.execute("INSERT INTO service.exchange_rates VALUES ('2026-03-10', 'USD', 1.25)")
    group = {"account_title": None, "group_title": "World", "currency": "EUR", "end_date": None}

    today = body_of(_get(service, DAILY, **{**group, "start_date": "2026-03-10"}))
    statuses = {
        (dataset.name, start): _get(service, dataset, **{**group, "start_date": start}).status_code
        for dataset in (ORDERS, DAILY, dataset_named("transactions"))
        for start in ("2026-03-10", "2026-03-11")
    }
    american = _get(service, DAILY, start_date="2026-03-10", end_date=None)
    velocity = {"group_title": "World", "per_page": "20"}
    inventory = [
        ann.get("/inventory/list", params={**velocity, "velocity_start_date": day}).status_code
        for day in ("2026-03-10", "2026-03-11")
    ]

    assert [(row["sku"], row["date"]) for row in today["data"]] == [("SKU de-2", "2026-03-10")]
    assert {status for (_, start), status in statuses.items() if start == "2026-03-10"} == {200}
    assert {status for (_, start), status in statuses.items() if start == "2026-03-11"} == {422}
    assert american.status_code == 422
    assert inventory == [200, 422]


def test_orders_are_listed_for_a_month_at_most(reading: Served) -> None:
    for start, end, status in (
        ("2026-01-31", "2026-02-28", 200),
        ("2026-01-31", "2026-03-01", 422),
        ("2024-01-31", "2024-02-29", 200),
        ("2024-01-31", "2024-03-01", 422),
        ("2026-12-15", "2027-01-15", 200),
        ("2026-12-15", "2027-01-16", 422),
        ("9999-12-01", "9999-12-31", 200),
        ("0001-01-01", "0001-01-01", 200),
        ("2026-03-02", "2026-03-01", 422),
        ("2025-03-02", None, 422),
        (None, "0001-01-01", 200),
        ("2027-01-01", None, 422),
    ):
        assert _get(reading, ORDERS, start_date=start, end_date=end).status_code == status, (start, end)


def test_money_is_exact_and_has_two_decimals(service: Served) -> None:
    amounts = ["0.1", "-4835.92", "1565", "12345678901234567890.12", "0.005", "7.500"]
    rows = [
        ("2026-03-01T10:00:00Z", "Order", f"{n}", None, None, 1, amount, "USD", None, "2026-03-01")
        for n, amount in enumerate(amounts)
    ]
    service.insert_rows(dataset_named("transactions"), "us-1", rows)

    text = _get(service, dataset_named("transactions"), start_date="2026-03-01", end_date="2026-03-01").text

    for amount in ("0.10", "-4835.92", "1565.00", "12345678901234567890.12", "0.005", "7.50"):
        assert f'"amount":{amount},' in text


DST = [
    ("2026-03-08T01:59:59-08:00", "2026-03-08T01:59:59-08:00", "2026-03-08"),
    ("2026-03-08T10:00:00Z", "2026-03-08T03:00:00-07:00", "2026-03-08"),
    ("2026-11-01T08:30:00Z", "2026-11-01T01:30:00-07:00", "2026-11-01"),
    ("2026-11-01T09:30:00Z", "2026-11-01T01:30:00-08:00", "2026-11-01"),
    ("2026-11-01T09:30:00.25Z", "2026-11-01T01:30:00.25-08:00", "2026-11-01"),
]


@pytest.mark.parametrize("selection", [{"account_title": "Shop US"}, {"group_title": "World"}])
def test_times_are_in_the_accounts_zone_on_days_with_25_hours_too(service: Served, selection: dict[str, str]) -> None:
    for number, (moment, _, day) in enumerate(DST):
        row = (f"o{number}", moment, "Shipped", "1.00", "USD", 1, "SKU", "ASIN", "Name", day)
        service.insert_rows(ORDERS, "us-1", [row])
    berlin = ("b", "2026-03-29T01:00:00Z", "Shipped", "1.00", "EUR", 1, "SKU", "ASIN", "Name", "2026-03-29")
    service.insert_rows(ORDERS, "de-2", [berlin])

    dates = []
    for start, end in (("2026-03-01", "2026-04-01"), ("2026-11-01", "2026-11-01")):
        parameters = {"account_title": None, **selection, "start_date": start, "end_date": end}
        dates += [row["purchase_date"] for row in body_of(_get(service, ORDERS, **parameters))["data"]]

    expected = [answer for _, answer, _ in DST]
    if "group_title" in selection:
        expected.insert(2, "2026-03-29T03:00:00+02:00")
    assert dates == expected


def _sell(service: Served, account: str, day: str, amount: str) -> None:
    service.insert_rows(DAILY, account, [(day, "SKU", "Name", "ASIN", 1, amount, None, "0.00", "0.10", day)])


def _rate(service: Served, day: str, currency: str, per_euro: str) -> None:
    service.execute("INSERT INTO service.exchange_rates VALUES (%s, %s, %s)", day, currency, per_euro)


MARCH = {"account_title": None, "start_date": "2026-03-01", "end_date": "2026-03-31"}


def test_amounts_are_converted_at_the_rate_of_their_day(service: Served) -> None:
    for day, dollars, pounds in (("2026-03-01", "1.25", "0.5"), ("2026-03-02", "1.6", "0.8")):
        _rate(service, day, "USD", dollars)
        _rate(service, day, "GBP", pounds)
        _sell(service, "us-1", day, "100.00")
        _sell(service, "de-2", day, "100.00")
    # 1083409819.44 * 0.853429 / 1.083517 = 853344579.5449999953..., which eight decimals would round to half a cent.
    _rate(service, "2026-03-03", "USD", "1.083517")
    _rate(service, "2026-03-03", "GBP", "0.853429")
    _sell(service, "us-1", "2026-03-03", "1083409819.44")

    rows = {
        currency: [
            (row["date"], row["product_sales"], row["taxes"])
            for row in body_of(_get(service, DAILY, **MARCH, group_title="World", currency=currency))["data"]
        ]
        for currency in ("EUR", "USD", "GBP")
    }

    days = ("2026-03-01", "2026-03-01", "2026-03-02", "2026-03-02")
    for currency, amounts in (  # of the German and the American account, each day
        ("EUR", ("100.00", "80.00", "100.00", "62.50")),
        ("USD", ("125.00", "100.00", "160.00", "100.00")),
        ("GBP", ("50.00", "40.00", "80.00", "50.00")),
    ):
        assert rows[currency][:4] == [(day, Decimal(amount), None) for day, amount in zip(days, amounts, strict=True)]
    assert rows["GBP"][4:] == [("2026-03-03", Decimal("853344579.54"), None)]


def test_the_channels_of_a_row_are_added_before_they_are_converted(service: Served) -> None:
    _rate(service, "2026-03-01", "USD", "8")
    row = ("2026-03-01", "SKU", "Name", "ASIN", 1, "0.02", None, "0.00", "0.10", "2026-03-01")
    service.insert_rows(DAILY, "us-1", [row, row])  # one in each channel
    query: dict[str, str | int | None] = {**MARCH, "account_title": "Shop US", "currency": "EUR"}

    both = body_of(_get(service, DAILY, **query))["data"]
    alone = body_of(_get(service, DAILY, **query, sales_channel="platform"))["data"]

    assert [row["product_sales"] for row in (*both, *alone)] == [Decimal("0.01"), Decimal("0.00")]


def test_amounts_in_several_currencies_need_one_to_be_named(service: Served) -> None:
    _sell(service, "us-1", "2026-03-01", "1.00")
    _sell(service, "us-1", "2026-03-02", "1.00")
    _rate(service, "2026-03-01", "USD", "1.25")

    unnamed = _get(service, DAILY, **MARCH, group_title="World")
    unknown = _get(service, DAILY, **MARCH, group_title="World", currency="XYZ")
    missing = _get(service, DAILY, **MARCH, group_title="World", currency="EUR")
    malformed = _get(service, DAILY, **MARCH, group_title="World", currency="eur")
    own = _get(service, DAILY, **{**MARCH, "account_title": "Shop US"}, currency="USD")

    assert "DE" not in unnamed.text
    assert "EUR, USD" in unnamed.json()["errors"]["currency"][0]
    assert "no exchange rate is known" in unknown.json()["errors"]["currency"][0]
    assert "on 2026-03-02 the exchange rate of USD is not known" in missing.json()["errors"]["currency"][0]
    assert malformed.status_code == 422
    assert own.status_code == 200


def test_only_the_newest_snapshot_is_listed_and_equal_entries_all(service: Served) -> None:
    for day, quantity in (("2026-03-01", 5), ("2026-03-03", 3), ("2026-03-02", 4)):
        service.insert_rows(STOCK, "us-1", [("SKU", "Main", quantity, "A", "available", None, day)])
    row = ("2026-03-01T10:00:00Z", "Fee", None, None, None, None, "-1.00", "USD", None, "2026-03-01")
    service.insert_rows(dataset_named("transactions"), "us-1", [row] * 700)

    pages = [body_of(_get(service, dataset_named("transactions"), page=page)) for page in (1, 2)]

    assert [row["quantity"] for row in body_of(_get(service, STOCK))["data"]] == [3]
    store_slice(service.database, STOCK, Window.day(date(2026, 3, 4)), [])  # is counted like one with rows
    assert (body_of(_get(service, STOCK))["total"], body_of(_get(service, STOCK))["data"]) == (0, [])
    assert [len(page["data"]) for page in pages] == [500, 200]


def test_an_account_without_a_known_zone_is_answered_in_utc(service: Served) -> None:
    ledger, day = dataset_named("transactions"), "2026-03-01"
    service.insert_rows(ledger, "us-1", [(f"{day}T12:00:00-08:00", *[None] * 8, day)])
    for zone in ("Sea/Atlantis", None):
        service.execute("UPDATE seller.accounts SET timezone = %s WHERE account = 'us-1'", zone)
        listed = body_of(_get(service, ledger, start_date=day, end_date=day))["data"]
        with service.client(ANN) as client:
            accounts = client.get("/user/accounts").json()["accounts"]

        assert [row["posted_date"] for row in listed] == ["2026-03-01T20:00:00+00:00"]
        assert zone in [account["timezone"] for account in accounts]
    service.execute("DELETE FROM seller.accounts WHERE account = 'us-1'")

    assert _get(service, STOCK).status_code == 404


def test_the_zone_of_one_users_list_changes_no_date_on_another_users_page(service: Served, user: httpx.Client) -> None:
    """Both may be answered by one connection of the pool."""
    submit(user, user.get("/admin/developers/new"), name="App", redirect_uri="https://app.example/")
    service.execute("UPDATE service.applications SET registered_at = '2026-01-02 03:04:05+00'")

    body_of(_get(service, ORDERS))  # in Los Angeles it is still the 1st
    page = user.get("/admin/developers")

    assert "2026-01-02" in page.text


def test_what_is_served_is_what_is_stored(service: Served) -> None:
    (shop,) = load_sandbox(service.database, accounts=1, months=2, today=LAST_DAY).accounts
    grant_accounts(service.database, ANN, [shop.key])
    account, month, today = (KnownAccount(shop.key, "default", shop), Window.month_of(LAST_DAY), Window.day(LAST_DAY))
    compared = {}

    with SellerApi(service.base_url, auth=TokenAuth(issue_token(service.database, ANN))) as api:
        for dataset in (*LISTS, COST_PERIODS):
            if dataset.is_computed:
                continue
            slice_ = Slice.of(account, dataset, month.until(today.end) if dataset.is_dated else today)
            with open_load(service.database, slice_, by_value="a test") as load:
                read_slice(api, service.database, account, load)
                equal = load.compare()
                of_slice = f"FROM seller.{dataset.name} WHERE local_day >= '{slice_.window.start}'"
                service.execute(f"DELETE {of_slice} AND ctid = (SELECT min(ctid) {of_slice})")
                compared[dataset.name] = (bool(load.spool.count), equal.listed, equal.stored, load.compare().listed)

    assert set(compared.values()) == {(True, 0, 0, 1)}, compared
