"""Tests each field of the contract's answers, and the effect of each parameter, on a shop with fixed values."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import httpx
import pytest

from seller_platform.contract.wire import AS_OF
from seller_platform_tests.support.known_rows import (
    BOWL,
    COST_PERIOD,
    DAILY,
    INVENTORY,
    MUG,
    NOTIFICATION,
    ORDER,
    SHIPMENT,
    STOCK,
    TRANSACTION,
    US,
)
from seller_platform_tests.support.served import ANN, OF_ANN, Served, ask, body_of

ORDERS, DASHBOARD, DAILY_SALES = "/sales/orders", "/sales/statistics-dashboard", "/sales/per-day-per-product"
LEDGER, STOCKS, COSTS = "/sales/transactions", "/inventory/list", "/cogs/cost-periods"
SHELVES, SHIPMENTS, ALERTS = "/warehouse/list", "/warehouse/inbound-shipments", "/notifications/list"

_FIFTH, _SIXTH = {"start_date": "2026-03-05"}, {"end_date": "2026-03-06"}
_DAYS = {**_FIFTH, **_SIXTH}
_EIGHTH, _ONE_DAY = {"end_date": "2026-03-08"}, {**_FIFTH, "end_date": "2026-03-05"}
_ORDERS, _SALES, _SMALL = {"per_page": "250"}, {"per_page": "500"}, {"per_page": "20"}
_PRODUCTS = {"view_by": "product", "group_by": "sku"}
_COMBINED, _MONTHS = {**_PRODUCTS, "period_by": "Month"}, {"view_by": "date", "group_by": "month"}
_START, _END, _PACE = "velocity_start_date", "velocity_end_date", "velocity_30_days of MUG"
_PERIODS = ("Date", "Week", "Month", "Quarter", "Semester", "Year")
_NONE = "without"
_ELEMENT = COST_PERIOD["data"][0]["cost_elements"][0]


@pytest.fixture(scope="module")
def ann(filled: Served) -> Iterator[httpx.Client]:
    with filled.client(ANN) as client:
        yield client


def _ask(client: httpx.Client, path: str, query: Mapping[str, str]) -> Any:
    return body_of(ask(client, path, **US, **query))


@pytest.mark.parametrize(
    ("path", "query", "row"),
    [
        (ORDERS, {**_ORDERS, **_DAYS}, ORDER),
        (DAILY_SALES, {**_SALES, **_DAYS}, DAILY),
        (LEDGER, {**_SALES, **_DAYS}, TRANSACTION),
        (STOCKS, _SMALL, INVENTORY),
        (ALERTS, {"notification_type": "inventory_alerts"}, NOTIFICATION),
        (SHELVES, _SMALL, STOCK),
        (SHIPMENTS, _SMALL, SHIPMENT),
        (
            DASHBOARD,
            {**_COMBINED, **_ONE_DAY},
            {
                "sku": MUG,
                "asin": "B0MUG",
                "product_name": "Mug, blue",
                "date": "March 2026",
                "units_ordered": 4,
                "product_sales": Decimal("40.00"),
                "product_cost": Decimal("12.00"),
                "platform_fees": Decimal("2.50"),
                "profit": Decimal("25.50"),
                "roi": Decimal("212.50"),
                "profit_margin": Decimal("63.75"),
            },
        ),
        (
            COSTS,
            {"sku": MUG},
            {**COST_PERIOD["data"][0]["dates"], "cost_elements": [{**_ELEMENT, "amount": Decimal("3.00")}]},
        ),
    ],
    ids=lambda each: each.strip("/") if isinstance(each, str) else "",
)
def test_the_first_row_has_every_field_with_its_type_and_value(
    ann: httpx.Client, path: str, query: Mapping[str, str], row: Mapping[str, object]
) -> None:
    first = _ask(ann, path, query)["data"][0]

    assert first == row
    assert {name: type(value) for name, value in first.items()} == {name: type(value) for name, value in row.items()}


def test_the_user_and_the_accounts_have_every_field(ann: httpx.Client) -> None:
    me, accounts = (body_of(ann.get(path)) for path in ("/user/me", "/user/accounts"))

    user = me["user"]
    assert list(me) == ["status", "code", "message", "user"]
    assert (me["status"], me["code"], type(me["message"]), type(user.pop("id"))) == ("success", 200, str, int)
    assert user == {"name": "Ann", "email": ANN, "status": "active", "active": True}
    assert (list(accounts), len(accounts["accounts"])) == (["accounts"], len(OF_ANN))
    assert accounts["accounts"][0] == {
        "id": 1,
        "account_title": "Shop US",
        "country_code": "US",
        "currency_code": "USD",
        "timezone": "America/Los_Angeles",
        "marketplace": "US",
        "seller_id": "S1",
    }


# Parameters

_Case = tuple[str, Mapping[str, str], str, str, Mapping[str, Any]]


def _days(
    path: str,
    query: Mapping[str, str],
    field: str,
    fifth: list[str],
    sixth: list[str],
    *,
    both: list[str] | None = None,
) -> Iterator[_Case]:
    """Yield the effects of both ends of the days on a list that has rows of the fifth and the sixth alone."""
    both = both or fifth + sixth
    first, last = {_NONE: both, "2026-03-06": sixth, "2026-03-07": []}, {_NONE: both, "2026-03-05": fifth}
    yield path, {**query, **_EIGHTH}, "start_date", field, first
    yield path, {**query, **_FIFTH}, "end_date", field, {**last, "2026-04-05": both}


def _channels(path: str, query: Mapping[str, str], field: str, own: str, other: str) -> _Case:
    """Return the effects of the sales channel on a list that has a row of each."""
    effects = {_NONE: [own, other], "platform": [own], "non-platform": [other]}
    return path, {**query, **_DAYS}, "sales_channel", field, effects


_CONVERTED = {_NONE: [40], "USD": [40], "EUR": [32]}
EFFECTS: Sequence[_Case] = [
    *_days(ORDERS, _ORDERS, "platform_order_id", ["305-1"], ["305-2"]),
    *_days(DASHBOARD, _PRODUCTS, "sku", [MUG], [BOWL], both=[BOWL, MUG]),
    *_days(DAILY_SALES, _SALES, "sku", [MUG], [BOWL]),
    *_days(LEDGER, _SALES, "transaction_type", ["Fee", "Order"], ["Refund"]),
    # A path and its query; the parameter; the compared field of each row, or `#` for their number; the field's values
    # by the values of the parameter, and under `without` those without it.
    _channels(ORDERS, _ORDERS, "platform_order_id", "305-1", "305-2"),
    _channels(DAILY_SALES, _SALES, "sku", MUG, BOWL),
    (DASHBOARD, {**_MONTHS, **_DAYS}, "period_by", "date", {key: ["March 2026"] for key in (_NONE, *_PERIODS)}),
    (DASHBOARD, {**_PRODUCTS, **_ONE_DAY}, "currency", "product_sales", _CONVERTED),
    (DAILY_SALES, {**_SALES, **_ONE_DAY}, "currency", "product_sales", _CONVERTED),
    # 6 units were sold on the 5th and 6th, of which 4 are the mug's.
    (STOCKS, {**_SMALL, _END: "2026-03-06"}, _START, _PACE, {_NONE: Decimal("0.13"), "2026-03-05": 2, "2026-03-06": 0}),
    (STOCKS, {**_SMALL, _START: "2026-03-05"}, _END, _PACE, {_NONE: Decimal("0.80"), "2026-03-05": 4, "2026-03-06": 2}),
    (ALERTS, {}, "notification_type", "#", {"inventory_alerts": 1, "price_alerts": 100, "restock_alerts": 1}),
    (COSTS, {}, "sku", "from_date", {MUG: ["2026-01-01"], BOWL: []}),
    (COSTS, {}, "asin", "from_date", {"B0MUG": ["2026-01-01"], "B0BOWL": []}),
    (COSTS, {}, "parent_asin", "from_date", {"P0": ["2026-01-01"]}),
]
_BEYOND: Sequence[tuple[str, Mapping[str, str], str, str]] = [
    (DASHBOARD, {**_PRODUCTS, **_EIGHTH}, "start_date", "2026-03-09"),
    (DAILY_SALES, {**_SALES, **_EIGHTH}, "start_date", "2026-03-09"),
    (LEDGER, {**_SALES, **_EIGHTH}, "start_date", "2026-03-09"),
    (STOCKS, {**_SMALL, _END: "2026-03-06"}, _START, "2026-03-07"),
    *((DASHBOARD, {**_DAYS, "view_by": "product"}, "group_by", each) for each in ("day", "week", "month", "year")),
    *((DASHBOARD, {**_DAYS, "view_by": "date"}, "group_by", each) for each in ("sku", "asin", "parent_asin")),
]


@pytest.mark.parametrize("case", EFFECTS, ids=lambda case: f"{case[0].strip('/')}: {case[2]}, seen in {case[3]}")
def test_a_parameter_has_its_effect(ann: httpx.Client, case: _Case) -> None:
    path, query, parameter, field, effects = case
    name, _, sku = field.partition(" of ")
    seen = {}
    for value in effects:
        rows = _ask(ann, path, {**query, parameter: value} if value != _NONE else query)["data"]
        values = [row.get(name) for row in rows if not sku or row["sku"] == sku]
        seen[value] = len(rows) if name == "#" else values[0] if sku else values

    assert seen == effects


def test_values_that_contradict_others_are_refused_by_name(ann: httpx.Client) -> None:
    for path, query, parameter, value in _BEYOND:
        answer = ann.get(path, params={**US, **query, parameter: value})

        assert (answer.status_code, list(answer.json()["errors"])) == (422, [parameter]), (path, parameter, value)


def test_every_parameter_of_a_list_has_an_effect_here(ann: httpx.Client) -> None:
    paths = ann.get("/openapi.json").json()["paths"]
    tested = {path for path, *_ in EFFECTS}
    served = {(path, each["name"]) for path in tested for each in paths[path]["get"]["parameters"]}
    # Pages are those of each list's own test, as all views of the statistics are. Only links carry a moment.
    others = {*US, "seller_id", "marketplace_id", "group_title", "per_page", "page", "view_by", "group_by", AS_OF}

    assert {(path, name) for path, name in served if name not in others} == {
        (path, parameter) for path, _, parameter, *_ in EFFECTS
    }
    areas = ("/sales/", "/inventory/", "/cogs/", "/notifications/")
    assert tested == {path for path in paths if "get" in paths[path] and path.startswith(areas)}
