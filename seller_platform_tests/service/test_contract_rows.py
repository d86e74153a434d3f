"""Tests each field of the contract's answers: its name, type and value."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

import httpx
import pytest

from seller_platform_tests.support.known_rows import (
    BOWL,
    DAILY,
    INVENTORY,
    MUG,
    NOTIFICATION,
    ORDER,
    SHIPMENT,
    SHIPMENT_STATES,
    STOCK,
    TRANSACTION,
    US,
)
from seller_platform_tests.support.served import ACCOUNTS, ANN, OF_ANN, Served

_MARCH = {"start_date": "2026-03-05", "end_date": "2026-03-09"}
_LISTS = {
    "orders": ("/sales/orders", {"per_page": "250", **_MARCH}),
    "daily product sales": ("/sales/per-day-per-product", {"per_page": "500", **_MARCH}),
    "transactions": ("/sales/transactions", {"per_page": "500", **_MARCH}),
    "inventory": ("/inventory/list", {"per_page": "20"}),
    "warehouse stock": ("/warehouse/list", {"per_page": "20"}),
    "inbound shipments": ("/warehouse/inbound-shipments", {"per_page": "20"}),
    "statistics": ("/sales/statistics-dashboard", {"per_page": "500", **_MARCH}),
    "notifications": ("/notifications/list", {"notification_type": "inventory_alerts"}),
}
_PRODUCT = {"view_by": "product", "group_by": "sku"}
_COMBINED = {**_PRODUCT, "period_by": "Month"}
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "text": str,
    "integer": int,
    "number": (int, Decimal),
    "truth": bool,
    "list": list,
    "object": dict,
}


@dataclass(frozen=True)
class Row:
    """A row of a table of fields.

    Attributes:
        at: The path to the field in the answer: names, and indexes of elements.
    """

    name: str
    path: str
    query: Mapping[str, str]
    at: tuple[str | int, ...]
    kind: str
    value: object

    def __str__(self) -> str:
        return self.name


def _rows(
    table: str,
    path: str,
    query: Mapping[str, str],
    at: tuple[str | int, ...],
    fields: Sequence[tuple[str, str, object]],
) -> list[Row]:
    return [Row(f"{table} row: {name}", path, query, (*at, name), kind, value) for name, kind, value in fields]


def _list_rows(table: str, kinds: Mapping[str, str], values: Mapping[str, Any], **query: str) -> list[Row]:
    path, asked = _LISTS[table]
    assert set(kinds) == set(values)
    fields = [(name, kind, values[name]) for name, kind in kinds.items()]
    return _rows(table, path, {**US, **asked, **query}, ("data", 0), fields)


def _typed(**names: str) -> dict[str, str]:
    """Return the kind of each field."""
    return {name: kind for kind, each in names.items() for name in each.split()}


_ACCOUNT = ACCOUNTS[OF_ANN[0]]
_TOTALS = {
    "orders": 2,
    "daily product sales": 2,
    "transactions": 3,
    "inventory": 25,
    "warehouse stock": 25,
    "inbound shipments": 27,
    "statistics": 2,
}
_ROWS: list[Row] = [
    *(
        Row(f"envelope of {table}: {name}", path, {**US, **query, **_PRODUCT, "page": "2"}, (name,), kind, value)
        for table, (path, query) in _LISTS.items()
        if table != "notifications"
        for name, kind, value in (
            ("current_page", "integer", 2),
            ("data", "list", None),
            ("total", "integer", _TOTALS[table]),
            ("per_page", "integer", int(query["per_page"])),
            ("last_page", "integer", -(-_TOTALS[table] // int(query["per_page"]))),
        )
    ),
    *_rows(
        "user",
        "/user/me",
        {},
        ("user",),
        [
            ("id", "integer", None),
            ("name", "text", "Ann"),
            ("email", "text", ANN),
            ("status", "text", "active"),
            ("active", "truth", True),
        ],
    ),
    *_rows(
        "user/me",
        "/user/me",
        {},
        (),
        [
            ("status", "text", "success"),
            ("code", "integer", 200),
            ("message", "text", None),
            ("user", "object", None),
        ],
    ),
    *_rows("user/accounts", "/user/accounts", {}, (), [("accounts", "list", None)]),
    *_rows(
        "account",
        "/user/accounts",
        {},
        ("accounts", 0),
        [
            ("id", "integer", _ACCOUNT.id),
            ("account_title", "text", _ACCOUNT.title),
            ("country_code", "text", "US"),
            ("currency_code", "text", "USD"),
            ("timezone", "text", "America/Los_Angeles"),
            ("marketplace", "text", "US"),
            ("seller_id", "text", "S1"),
        ],
    ),
    *_list_rows(
        "orders",
        _typed(
            text="platform_order_id purchase_date order_status currency_code sku asin product_name",
            number="order_total",
            integer="quantity_ordered",
        ),
        ORDER,
    ),
    *_list_rows(
        "daily product sales",
        _typed(
            text="date sku product_name asin",
            integer="units_ordered",
            number="product_sales taxes shipping_credits rebates",
        ),
        DAILY,
    ),
    *_list_rows(
        "transactions",
        _typed(
            text="posted_date transaction_type order_id sku description currency marketplace_name",
            integer="quantity",
            number="amount",
        ),
        TRANSACTION,
    ),
    *_list_rows(
        "inventory",
        _typed(
            text="sku product_name asin fnsku restock_date",
            integer="afn_fulfillable_quantity afn_reserved_quantity afn_inbound_quantity afn_total_quantity "
            "days_of_stock restock_quantity_suggested",
            number="velocity_30_days",
        ),
        INVENTORY,
    ),
    *_list_rows(
        "notifications",
        _typed(text="type title message severity sku created_at", integer="id", truth="read"),
        NOTIFICATION,
    ),
    *_list_rows(
        "warehouse stock",
        _typed(text="sku warehouse_name location status last_updated", integer="quantity"),
        STOCK,
    ),
    *_list_rows(
        "inbound shipments",
        _typed(
            text="shipment_id shipment_name status destination_fulfillment_center estimated_arrival_date created_date",
            integer="total_items total_skus",
        ),
        SHIPMENT,
    ),
    *_list_rows(
        "statistics",
        _typed(
            text="sku asin product_name date",
            integer="units_ordered",
            number="product_sales product_cost platform_fees profit roi profit_margin",
        ),
        {
            "sku": MUG,
            "asin": "B0MUG",
            "product_name": "Mug, blue",
            "date": "March 2026",
            "units_ordered": 4,
            "product_sales": "40.00",
            "product_cost": "12.00",
            "platform_fees": "2.50",
            "profit": "25.50",
            "roi": "212.50",
            "profit_margin": "63.75",
        },
        **_COMBINED,
        end_date="2026-03-05",
    ),
    *_rows(
        "cost period",
        "/cogs/cost-periods",
        {**US, "sku": MUG},
        ("data", 0),
        [("from_date", "text", "2026-01-01"), ("to_date", "text", "2026-12-31"), ("cost_elements", "list", None)],
    ),
    *_rows(
        "cost element",
        "/cogs/cost-periods",
        {**US, "sku": MUG},
        ("data", 0, "cost_elements", 0),
        [
            ("cost_element", "text", "Manufacturing"),
            ("amount", "number", "3.00"),
            ("currency", "text", "USD"),
            ("provider", "text", "Pottery"),
            ("notes", "text", "net"),
        ],
    ),
    *_rows(
        "service status",
        "/service-status",
        {},
        (),
        [("status", "text", "active"), ("code", "integer", 200), ("message", "text", None)],
    ),
]


@pytest.fixture(scope="module")
def ann(filled: Served) -> Iterator[httpx.Client]:
    with filled.client(ANN) as client:
        yield client


@cache
def _answer(client: httpx.Client, path: str, query: tuple[tuple[str, str], ...]) -> Any:
    answer = client.get(path, params=dict(query))
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text, parse_float=Decimal)


def _ask(client: httpx.Client, path: str, query: Mapping[str, str]) -> Any:
    return _answer(client, path, tuple(query.items()))


@pytest.mark.parametrize("row", _ROWS, ids=str)
def test_a_field_has_its_type_and_its_value(ann: httpx.Client, row: Row) -> None:
    value = _ask(ann, row.path, row.query)
    for part in row.at:
        value = value[part]

    assert isinstance(value, _KINDS[row.kind])
    assert isinstance(value, bool) is (row.kind == "truth")
    if row.value is not None:
        assert (str(value) if isinstance(row.value, str) else value) == row.value


@pytest.mark.parametrize("table", [table for table in _LISTS if table != "statistics"])
def test_every_field_of_a_list_has_a_row(ann: httpx.Client, table: str) -> None:
    path, query = _LISTS[table]

    tested = {row.at[-1] for row in _ROWS if row.path == path and row.at[0] == "data" and len(row.at) > 1}
    assert set(_ask(ann, path, {**US, **query})["data"][0]) == tested


def test_notifications_have_no_envelope(ann: httpx.Client) -> None:
    path, query = _LISTS["notifications"]

    assert list(_ask(ann, path, {**US, **query})) == ["data"]


@pytest.mark.parametrize(
    "field",
    ["velocity", "out_of_stock_days", "inventory", "local_inventory", "buybox_price", "sales_rank", "trend"],
)
def test_the_combined_view_does_not_have_a_field_of_today(ann: httpx.Client, field: str) -> None:
    path, query = _LISTS["statistics"]
    plain, combined = (
        next(row for row in _ask(ann, path, {**US, **query, **grouping})["data"] if row["sku"] == MUG)
        for grouping in (_PRODUCT, _COMBINED)
    )

    assert plain[field] is not None
    assert combined.get(field) is None
    assert "date" not in plain


def _named(values: object) -> str:
    """Return a text that does not depend on the order of a set.

    All processes of pytest-xdist must give a test the same name.
    """
    return ", ".join(sorted(map(str, values))) if isinstance(values, set) else str(values)


@pytest.mark.parametrize(
    ("table", "field", "query", "values"),
    [
        ("orders", "order_status", {"start_date": "2026-02-10"}, {"Shipped", "Pending", "Cancelled"}),
        ("transactions", "transaction_type", {}, {"Order", "Refund", "Fee"}),
        ("warehouse stock", "status", {}, {"available", "reserved"}),
        ("inbound shipments", "status", {}, set(SHIPMENT_STATES)),
        *(
            ("notifications", "type", {"notification_type": each}, {each})
            for each in ("inventory_alerts", "price_alerts", "restock_alerts")
        ),
        ("notifications", "severity", {"notification_type": "inventory_alerts"}, {"low"}),
        ("notifications", "severity", {"notification_type": "price_alerts"}, {"medium"}),
        ("notifications", "severity", {"notification_type": "restock_alerts"}, {"high"}),
        ("notifications", "read", {"notification_type": "inventory_alerts"}, {False}),
        ("notifications", "read", {"notification_type": "price_alerts"}, {True}),
    ],
    ids=lambda each: next(iter(each.values()), "") if isinstance(each, dict) else _named(each),
)
def test_the_values_of_an_enumeration_come_as_they_are_named(
    ann: httpx.Client, table: str, field: str, query: dict[str, str], values: set[object]
) -> None:
    path, asked = _LISTS[table]

    assert {row[field] for row in _ask(ann, path, {**US, **asked, **query})["data"]} == values


@pytest.mark.parametrize(
    ("field", "query", "value"),
    [
        ("sku", {"group_by": "sku"}, [BOWL, MUG]),
        ("asin", {"group_by": "asin"}, ["B0BOWL", "B0MUG"]),
        ("parent_asin", {"group_by": "parent_asin"}, ["P0"]),
    ],
)
def test_a_product_of_the_statistics_is_identified_by_its_group(
    ann: httpx.Client, field: str, query: dict[str, str], value: list[str]
) -> None:
    path, asked = _LISTS["statistics"]

    rows = _ask(ann, path, {**US, **asked, "view_by": "product", **query})["data"]

    assert sorted(row[field] for row in rows) == value
