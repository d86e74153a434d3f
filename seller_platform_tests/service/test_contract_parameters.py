"""Tests each parameter of the contract: accepted values, refused values and effects."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from seller_platform.contract.wire import AS_OF
from seller_platform_tests.support.known_rows import BOWL, MUG, US
from seller_platform_tests.support.served import ANN, Served

ORDERS, DASHBOARD, DAILY = "/sales/orders", "/sales/statistics-dashboard", "/sales/per-day-per-product"
TRANSACTIONS, INVENTORY = "/sales/transactions", "/inventory/list"
STOCK, SHIPMENTS, NOTIFICATIONS = "/warehouse/list", "/warehouse/inbound-shipments", "/notifications/list"
COSTS = "/cogs/cost-periods"

_DAYS = {"start_date": "2026-03-05", "end_date": "2026-03-06"}
_LONG = {"start_date": "2026-01-15", "end_date": "2026-01-15"}
_YEARS_END = {"start_date": "2025-12-29", "end_date": "2025-12-29"}
_SMALL, _LARGE = ("500", "1000", "2000"), ("20", "50", "100", "250", "500", "1000", "2000")
_NO_DAYS = ("2026-3-5", "05.03.2026", "2026-02-30", "")
_NO_COUNTS = ("0", "-1", "1.0", "x", "")
_PRODUCTS = {"view_by": "product", "group_by": "sku"}
_PERIODS = ("Date", "Week", "Month", "Quarter", "Semester", "Year")
_NONE = "without"


@dataclass(frozen=True)
class Row:
    """A parameter of an endpoint.

    Attributes:
        query: A request that accepts the parameter, with or without it.
        field: The compared field of each row, or of the envelope; `#` compares the number of rows.
        effect: The field's value for each value of the parameter; under `without`, its value without the parameter.
        refuses: Values that are refused with an error of this parameter.
    """

    path: str
    parameter: str
    query: Mapping[str, str]
    field: str
    effect: Mapping[str, Any]
    refuses: Sequence[str] = ()
    required: bool = False

    def __str__(self) -> str:
        return f"{self.path.strip('/')}: {self.parameter}"


def _sizes(path: str, query: Mapping[str, str], sizes: Sequence[str], *, required: bool = True, **without: int) -> Row:
    others = [size for size in ("1", "20", "250", "499", "5000", "x", "") if size not in sizes]
    effect = {size: int(size) for size in sizes}
    return Row(path, "per_page", query, "per_page", {**effect, **without}, refuses=others, required=required)


def _paged(path: str, query: Mapping[str, str], total: int, size: int) -> Row:
    return Row(
        path,
        "page",
        {**query, "per_page": str(size)},
        "#",
        {_NONE: size, "1": size, "2": total - size, "3": 0},
        refuses=_NO_COUNTS,
    )


_ORDERS = {"per_page": "250", **_DAYS}
_DASHBOARD = {**_PRODUCTS, "per_page": "500", **_DAYS}
_DAILY = {"per_page": "500", **_DAYS}

_ROWS = [
    # sales/orders
    _sizes(ORDERS, _DAYS, ("250", "500", "1000", "2000")),
    Row(
        ORDERS,
        "start_date",
        {**_ORDERS, "end_date": "2026-03-08"},
        "platform_order_id",
        {_NONE: ["305-1", "305-2"], "2026-03-06": ["305-2"], "2026-03-07": []},
        refuses=_NO_DAYS,
    ),
    Row(
        ORDERS,
        "end_date",
        {"per_page": "250", "start_date": "2026-03-05"},
        "platform_order_id",
        {_NONE: ["305-1", "305-2"], "2026-03-05": ["305-1"], "2026-04-05": ["305-1", "305-2"]},
        refuses=(*_NO_DAYS, "2026-04-06", "2027-03-05"),
    ),
    Row(
        ORDERS,
        "sales_channel",
        _ORDERS,
        "platform_order_id",
        {_NONE: ["305-1", "305-2"], "platform": ["305-1"], "non-platform": ["305-2"]},
        refuses=("other", "Platform", ""),
    ),
    _paged(ORDERS, _LONG, 260, 250),
    # sales/statistics-dashboard
    Row(
        DASHBOARD,
        "view_by",
        _DASHBOARD,
        "units_ordered",
        {"product": [2, 4]},
        refuses=("sku", "Product", "", "date"),  # for `date`, the error names group_by
        required=True,
    ),
    Row(
        DASHBOARD,
        "view_by",
        {**_DASHBOARD, "group_by": "day"},
        "date",
        {"date": ["2026-03-05", "2026-03-06"]},
        refuses=("day",),
        required=True,
    ),
    Row(
        DASHBOARD,
        "group_by",
        _DASHBOARD,
        "#",
        {"sku": 2, "asin": 2, "parent_asin": 1},
        refuses=("day", "week", "month", "year", "brand", ""),
        required=True,
    ),
    Row(
        DASHBOARD,
        "group_by",
        {**_DASHBOARD, "view_by": "date"},
        "date",
        {
            "day": ["2026-03-05", "2026-03-06"],
            "week": ["Week 10 2026"],
            "month": ["March 2026"],
            "year": ["2026"],
        },
        refuses=("sku", "asin", "parent_asin", "quarter"),
        required=True,
    ),
    Row(
        DASHBOARD,
        "period_by",
        {**_DASHBOARD, "start_date": "2026-01-15", "per_page": "2000"},
        "#",
        {_NONE: 512, **dict.fromkeys(_PERIODS, 512)},
        refuses=("month", "Day", ""),
    ),
    Row(
        DASHBOARD,
        "period_by",
        {**_DASHBOARD, "group_by": "parent_asin"},
        "date",
        {
            "Date": ["2026-03-05", "2026-03-06"],
            "Week": ["Week 10 2026"],
            "Month": ["March 2026"],
            "Quarter": ["Q1 2026"],
            "Semester": ["H1 2026"],
            "Year": ["2026"],
        },
    ),
    Row(
        DASHBOARD,
        "period_by",
        {**_DASHBOARD, **_YEARS_END, "group_by": "asin"},
        "date",
        {
            "Date": ["2025-12-29"],
            "Week": ["Week 1 2026"],
            "Month": ["December 2025"],
            "Quarter": ["Q4 2025"],
            "Semester": ["H2 2025"],
            "Year": ["2025"],
        },
    ),
    Row(
        DASHBOARD,
        "group_by",
        {**_DASHBOARD, **_YEARS_END, "view_by": "date"},
        "date",
        {"day": ["2025-12-29"], "week": ["Week 1 2026"], "month": ["December 2025"], "year": ["2025"]},
        required=True,
    ),
    Row(
        DASHBOARD,
        "period_by",
        {**_DASHBOARD, "view_by": "date", "group_by": "month"},
        "date",
        {period: ["March 2026"] for period in (_NONE, *_PERIODS)},
    ),
    _sizes(DASHBOARD, {**_PRODUCTS, **_DAYS}, _SMALL, required=False, **{_NONE: 500}),
    Row(
        DASHBOARD,
        "currency",
        {**_DASHBOARD, "end_date": "2026-03-05"},
        "product_sales",
        {_NONE: ["40.00"], "USD": ["40.00"], "EUR": ["32.00"]},
        refuses=("eur", "EURO", "XXX", ""),
    ),
    Row(
        DASHBOARD,
        "start_date",
        {**_DASHBOARD, "end_date": "2026-03-08"},
        "sku",
        {_NONE: [BOWL, MUG], "2026-03-06": [BOWL], "2026-03-07": []},
        refuses=(*_NO_DAYS, "2026-03-09"),
    ),
    Row(
        DASHBOARD,
        "end_date",
        {**_DASHBOARD, "start_date": "2026-03-05"},
        "sku",
        {_NONE: [BOWL, MUG], "2026-03-05": [MUG], "2027-12-31": [BOWL, MUG]},
        refuses=_NO_DAYS,
    ),
    _paged(DASHBOARD, {**_PRODUCTS, **_LONG}, 510, 500),
    # sales/per-day-per-product
    _sizes(DAILY, _DAYS, _SMALL),
    Row(
        DAILY,
        "start_date",
        {**_DAILY, "end_date": "2026-03-08"},
        "sku",
        {_NONE: [MUG, BOWL], "2026-03-06": [BOWL], "2026-03-07": []},
        refuses=(*_NO_DAYS, "2026-03-09"),
    ),
    Row(
        DAILY,
        "end_date",
        {**_DAILY, "start_date": "2026-03-05"},
        "sku",
        {_NONE: [MUG, BOWL], "2026-03-05": [MUG], "2027-12-31": [MUG, BOWL]},
        refuses=_NO_DAYS,
    ),
    Row(
        DAILY,
        "sales_channel",
        _DAILY,
        "sku",
        {_NONE: [MUG, BOWL], "platform": [MUG], "non-platform": [BOWL]},
        refuses=("other", "Platform", ""),
    ),
    Row(
        DAILY,
        "currency",
        {**_DAILY, "end_date": "2026-03-05"},
        "product_sales",
        {_NONE: ["40.00"], "USD": ["40.00"], "EUR": ["32.00"]},
        refuses=("eur", "EURO", "XXX", ""),
    ),
    _paged(DAILY, _LONG, 510, 500),
    # sales/transactions
    _sizes(TRANSACTIONS, _DAYS, _SMALL),
    Row(
        TRANSACTIONS,
        "start_date",
        {**_DAILY, "end_date": "2026-03-08"},
        "transaction_type",
        {_NONE: ["Fee", "Order", "Refund"], "2026-03-06": ["Refund"], "2026-03-07": []},
        refuses=(*_NO_DAYS, "2026-03-09"),
    ),
    Row(
        TRANSACTIONS,
        "end_date",
        {**_DAILY, "start_date": "2026-03-05"},
        "transaction_type",
        {_NONE: ["Fee", "Order", "Refund"], "2026-03-05": ["Fee", "Order"], "2027-12-31": ["Fee", "Order", "Refund"]},
        refuses=_NO_DAYS,
    ),
    _paged(TRANSACTIONS, _LONG, 510, 500),
    # inventory/list: 6 units were sold on the 5th and 6th, of which 4 are the mug's
    _sizes(INVENTORY, {}, _LARGE),
    Row(
        INVENTORY,
        "velocity_start_date",
        {"per_page": "20", "velocity_end_date": "2026-03-06"},
        "velocity_30_days of MUG",
        {_NONE: "0.13", "2026-03-05": "2.00", "2026-03-06": "0.00"},
        refuses=(*_NO_DAYS, "2026-03-07"),
    ),
    Row(
        INVENTORY,
        "velocity_end_date",
        {"per_page": "20", "velocity_start_date": "2026-03-05"},
        "velocity_30_days of MUG",
        {_NONE: "0.80", "2026-03-05": "4.00", "2026-03-06": "2.00"},
        refuses=_NO_DAYS,
    ),
    Row(
        INVENTORY,
        "velocity_start_date",
        {"per_page": "20", "velocity_end_date": "2026-03-06"},
        "days_of_stock of MUG",
        {"2026-03-05": "30", "2026-03-06": "None"},
    ),
    _paged(INVENTORY, {}, 25, 20),
    # notifications/list
    Row(
        NOTIFICATIONS,
        "notification_type",
        {},
        "#",
        {"inventory_alerts": 1, "price_alerts": 100, "restock_alerts": 1},
        refuses=("sales_alerts", "Inventory_alerts", ""),
        required=True,
    ),
    Row(
        NOTIFICATIONS,
        "page",
        {"notification_type": "price_alerts"},
        "#",
        {_NONE: 100, "1": 100, "2": 5, "3": 0},
        refuses=_NO_COUNTS,
    ),
    # warehouse
    _sizes(STOCK, {}, _LARGE),
    _paged(STOCK, {}, 25, 20),
    _sizes(SHIPMENTS, {}, _LARGE),
    _paged(SHIPMENTS, {}, 27, 20),
    # cogs/cost-periods
    Row(COSTS, "sku", {}, "from_date", {MUG: ["2026-01-01"], BOWL: []}, refuses=("",)),
    Row(COSTS, "asin", {}, "from_date", {"B0MUG": ["2026-01-01"], "B0BOWL": []}, refuses=("",)),
    Row(COSTS, "parent_asin", {}, "from_date", {"P0": ["2026-01-01"]}, refuses=("",)),
]

_SELECTABLE: tuple[tuple[str, Mapping[str, str]], ...] = (
    (ORDERS, _ORDERS),
    (DASHBOARD, _DASHBOARD),
    (DAILY, _DAILY),
    (TRANSACTIONS, _DAILY),
    (INVENTORY, {"per_page": "20"}),
    (NOTIFICATIONS, {"notification_type": "price_alerts"}),
    (STOCK, {"per_page": "20"}),
    (SHIPMENTS, {"per_page": "20"}),
    (COSTS, {"sku": MUG}),
)
_METHODS: Mapping[str, Mapping[str, str]] = {
    "by title": US,
    "by seller and marketplace": {"seller_id": "S1", "marketplace_id": "US"},
    "by group": {"group_title": "World"},
}


@pytest.fixture(scope="module")
def ann(filled: Served) -> Iterator[httpx.Client]:
    with filled.client(ANN) as client:
        yield client


def _seen(row: Row, answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    body = json.loads(answer.text, parse_float=str)
    if row.field == "#":
        return len(body["data"])
    if row.field in body:
        return body[row.field]
    name, _, sku = row.field.partition(" of ")
    if sku:
        return next(str(each[name]) for each in body["data"] if each["sku"] == sku)
    return [each[name] for each in body["data"]]


def _without(row: Row) -> dict[str, str]:
    return {name: value for name, value in {**US, **row.query}.items() if name != row.parameter}


_CASES = [pytest.param(row, value, id=f"{row}={value}, seen in {row.field}") for row in _ROWS for value in row.effect]


@pytest.mark.parametrize(("row", "value"), _CASES)
def test_a_parameter_has_its_effect(ann: httpx.Client, row: Row, value: str) -> None:
    query = _without(row) | ({row.parameter: value} if value != _NONE else {})

    assert _seen(row, ann.get(row.path, params=query)) == row.effect[value]


@pytest.mark.parametrize("row", _ROWS, ids=str)
def test_a_parameter_refuses_other_values_in_its_name(ann: httpx.Client, row: Row) -> None:
    for value in row.refuses:
        answer = ann.get(row.path, params={**_without(row), row.parameter: value})

        assert answer.status_code == 422, (value, answer.text)
        assert row.parameter in answer.json()["message"], value


@pytest.mark.parametrize("row", _ROWS, ids=str)
def test_a_parameter_is_required_or_not(ann: httpx.Client, row: Row) -> None:
    answer = ann.get(row.path, params=_without(row))

    if row.required:
        assert (answer.status_code, list(answer.json()["errors"])) == (422, [row.parameter])
    elif row.path == COSTS:
        assert list(answer.json()["errors"]) == ["product"]
    else:
        assert answer.status_code == 200, answer.text


def test_every_parameter_of_a_list_has_a_row(ann: httpx.Client) -> None:
    paths = ann.get("/openapi.json").json()["paths"]
    served = {(path, each["name"]) for path, _ in _SELECTABLE for each in paths[path]["get"]["parameters"]}
    served = {(path, name) for path, name in served if name != AS_OF}  # only links between pages carry it
    selecting = {(path, name) for path, _ in _SELECTABLE for each in _METHODS.values() for name in each}

    assert served == {(row.path, row.parameter) for row in _ROWS} | selecting


@pytest.mark.parametrize(("path", "query"), _SELECTABLE, ids=[path.strip("/") for path, _ in _SELECTABLE])
@pytest.mark.parametrize("method", _METHODS)
def test_an_account_is_selected_by(ann: httpx.Client, path: str, query: Mapping[str, str], method: str) -> None:
    currency = {"currency": "USD"} if path in (DASHBOARD, DAILY) else {}

    by_title, by_method = (
        ann.get(path, params={**each, **query, **currency}).json() for each in (US, _METHODS[method])
    )

    if path == COSTS and method == "by group":
        owner = {"account_title": "Shop US", "seller_id": "S1", "marketplace_id": "US", "sku": MUG}
        by_title["data"] = [{**period, **owner} for period in by_title["data"]]
    assert by_method["data"]
    assert by_method == by_title


@pytest.mark.parametrize(("path", "query"), _SELECTABLE, ids=[path.strip("/") for path, _ in _SELECTABLE])
@pytest.mark.parametrize(
    "selection",
    [
        {},
        {"seller_id": "S1"},
        {"marketplace_id": "US"},
        {**US, "group_title": "World"},
        {**US, "seller_id": "S1", "marketplace_id": "US"},
    ],
    ids=["none", "seller alone", "marketplace alone", "title and group", "title and seller"],
)
def test_accounts_are_selected_by_one_method(
    ann: httpx.Client, path: str, query: Mapping[str, str], selection: dict[str, str]
) -> None:
    answer = ann.get(path, params={**selection, **query})

    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 1


@pytest.mark.parametrize(
    ("path", "query"),
    [each for each in _SELECTABLE if each[0] not in (NOTIFICATIONS, COSTS)],
    ids=lambda each: each.strip("/") if isinstance(each, str) else "",
)
def test_limit_of_pages_is_in_the_document_too(ann: httpx.Client, path: str, query: Mapping[str, str]) -> None:
    described = {each["name"]: each for each in ann.get("/openapi.json").json()["paths"][path]["get"]["parameters"]}
    allowed = described["per_page"]["schema"]["enum"]
    refused = ann.get(path, params={**US, **query, "per_page": "7"}).json()["errors"]["per_page"][0]

    row_of_page_sizes = next(row for row in _ROWS if row.path == path and row.parameter == "per_page")
    assert [str(size) for size in allowed] == [size for size in row_of_page_sizes.effect if size != _NONE]
    assert all(str(size) in refused for size in allowed)


_PERIOD = {"from_date": "2030-01-01", "to_date": "2030-12-31"}
_ELEMENT = {"cost_element": "Freight", "currency": "USD", "amount": 2}


@pytest.mark.parametrize(
    ("name", "element", "seen"),
    [
        ("cost_element", {"cost_element": "Duty"}, {"cost_element": "Duty"}),
        ("provider", {"provider": "Line"}, {"provider": "Line"}),
        ("provider", {}, {"provider": None}),
        ("notes", {"notes": "by sea"}, {"notes": "by sea"}),
        ("notes", {}, {"notes": None}),
        ("currency", {"currency": "EUR"}, {"currency": "EUR"}),
        ("amount", {"amount": 2.5}, {"amount": "2.50"}),
        ("total_amount", {"amount": None, "total_amount": 7}, {"amount": "7.00"}),
        ("units", {"amount": None, "total_amount": 7, "units": 2}, {"amount": "3.50"}),
        ("conversion_rate", {"amount": None, "total_amount": 7, "conversion_rate": "1.1"}, {"amount": "7.70"}),
    ],
    ids=lambda each: each if isinstance(each, str) else str(sorted(each.items())),
)
def test_a_cost_is_written_with(ann: httpx.Client, name: str, element: dict[str, Any], seen: dict[str, Any]) -> None:
    body = {"sku": BOWL, "data": [{"dates": _PERIOD, "cost_elements": [{**_ELEMENT, **element}]}]}
    try:
        written = ann.post(COSTS, params=US, json=body)
        periods = json.loads(ann.get(COSTS, params={**US, "sku": BOWL}).text, parse_float=str)["data"]
    finally:
        deleted = ann.request("DELETE", COSTS, params={**US, "sku": BOWL})

    assert (written.status_code, written.json()["status"]) == (200, "success")
    assert (deleted.status_code, deleted.json()["status"]) == (200, "success")
    assert {name: periods[0][name] for name in _PERIOD} == _PERIOD
    assert {name: periods[0]["cost_elements"][0][name] for name in seen} == seen
