"""Tests that cost periods are written completely or not at all, and never overlap."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import product
from typing import Any

import httpx
import pytest

from seller_platform.contract import Window, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.served import ANN, WIDE, Served, add_product, body_of, served
from seller_platform_tests.support.stored_rows import connect, execute

PATH = "/cogs/cost-periods"
US = {"account_title": "Shop US"}
Body = dict[str, Any]
_INSERT = "INSERT INTO seller.cost_periods (sku, from_date, to_date, cost_elements, local_day, account, load_id, page)"


@pytest.fixture
def shop(service: Served) -> Served:
    """A service whose accounts have a few products."""
    _add_products(service.database)
    return service


@pytest.fixture
def ann(shop: Served) -> Iterator[httpx.Client]:
    with shop.client(ANN) as client:
        yield client


@pytest.fixture(scope="session")
def shared(databases: Databases) -> Iterator[httpx.Client]:
    """A client of such a service, for tests that store no costs of SKU-1."""
    with databases.lent() as database, served(database, database.url) as running, running.client(ANN) as client:
        _add_products(database)
        yield client


def _add_products(database: Database) -> None:
    for account, (number, parent) in product(("us-1", "de-2", "gb-5"), ((1, "P1"), (2, "P1"), (3, None))):
        add_product(database, account, f"SKU-{number}", f"ASIN-{number}", parent)


def _element(**changed: Any) -> Body:
    element = {"cost_element": "Manufacturing", "currency": "USD", "amount": 3, **changed}
    return {name: value for name, value in element.items() if value is not None}


def _period(first: str = "2026-01-01", last: str = "2026-01-31", *elements: Body) -> Body:
    return {"dates": {"from_date": first, "to_date": last}, "cost_elements": list(elements or (_element(),))}


def _write(client: httpx.Client, *periods: Body, **changed: Any) -> httpx.Response:
    return client.post(PATH, params=US, json={"sku": "SKU-1", "data": list(periods), **changed})


def _send(client: httpx.Client, body: Body | str) -> httpx.Response:
    """Send a body with spellings of numbers and texts that httpx does not write."""
    content = body if isinstance(body, str) else json.dumps(body)
    return client.post(PATH, params=US, content=content, headers={"Content-Type": "application/json"})


def _read(client: httpx.Client, sku: str = "SKU-1", **selection: str) -> list[Body]:
    body = body_of(client.get(PATH, params={**(selection or US), "sku": sku}))
    assert list(body) == ["data"]
    return list(body["data"])


def _dates(periods: list[Body]) -> list[tuple[str, str]]:
    return [(period["from_date"], period["to_date"]) for period in periods]


def _problems(answer: httpx.Response) -> dict[str, list[str]]:
    assert answer.status_code == 422, answer.text
    return dict(answer.json()["errors"])


def test_what_was_written_is_read_back_in_the_fields_of_the_api(ann: httpx.Client) -> None:
    element = _element(
        amount=None, total_amount=100, conversion_rate="1.1", units=4, provider='椿 "Works"', notes="a\nb"
    )

    answer = _write(ann, _period("2026-02-01", "2026-02-28"), _period("2026-01-01", "2026-01-31", element, _element()))

    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "success", "code": 200, "message": "2 cost periods were stored.", "sku": "SKU-1", "periods": 2},
    )
    first, second = _read(ann)
    assert list(first) == ["from_date", "to_date", "cost_elements"]
    assert (_dates([first, second])) == [("2026-01-01", "2026-01-31"), ("2026-02-01", "2026-02-28")]
    names = ["cost_element", "amount", "currency", "provider", "notes"]
    values = ["Manufacturing", Decimal("27.50"), "USD", '椿 "Works"', "a\nb"]
    assert [list(each) for each in first["cost_elements"]] == [names] * 2
    assert list(first["cost_elements"][0].values()) == values
    assert second["cost_elements"][0]["provider"] is None


@pytest.mark.parametrize(
    ("sent", "amount"),
    [
        ('"amount": -0.0', "0.00"),
        ('"amount": 2.675', "2.68"),
        ('"amount": 12.5E-3', "0.01"),
        ('"amount": 123456789012.0123456789', "123456789012.01"),
        ('"total_amount": 100, "units": 8', "12.50"),
        # Rounded once: with ten decimals in between it would be 0.01.
        ('"total_amount": 0.0499999999, "units": 10', "0.00"),
        ('"total_amount": 100, "units": 2.5', "40.00"),
        ('"total_amount": 19.99, "conversion_rate": "1.0835"', "21.66"),
        ('"total_amount": 7, "units": null, "conversion_rate": null, "amount": null', "7.00"),
        ('"total_amount": 10, "units": 3, "amount": 3.334', "3.33"),
    ],
)
def test_amounts_are_in_cents(shared: httpx.Client, sent: str, amount: str) -> None:
    element = f'{{"cost_element": "Freight", "currency": "EUR", {sent}}}'
    period = f'{{"dates": {{"from_date": "2026-01-01", "to_date": "2026-01-01"}}, "cost_elements": [{element}]}}'

    answer = _send(shared, f'{{"sku": "SKU-3", "data": [{period}]}}')

    assert answer.status_code == 200, answer.text
    assert f'"amount":{amount},' in shared.get(PATH, params={**US, "sku": "SKU-3"}).text


_REFUSED: Mapping[str, Sequence[Any]] = {
    "cost_element": (None, "", "  ", 5, "a\0", "x" * 1001),
    "currency": (None, "usd", "XXX", "EURO", ["EUR"]),
    "amount": (None, -0.01, "3", True, [1], 1e12, 10**30, 1e-11),
    "units": (0, -1, "2"),
    "conversion_rate": ("0", "-1", "1e3", "1,5", "NaN", "", "١", 1.5),
    "provider": (7,),
    "notes": ({}, "\ud800"),
}
_CONTRADICTORY: Sequence[tuple[Body, str]] = [
    ({"total_amount": -1, "amount": None}, "total_amount"),
    ({"total_amount": "7", "amount": None}, "total_amount"),
    ({"total_amount": 10, "units": 3, "amount": 3.34}, "amount"),
    ({"total_amount": 999_999_999_999, "conversion_rate": "2", "amount": None}, "total_amount"),
]


def test_an_element_that_cannot_be_used_is_named_and_nothing_is_stored(shared: httpx.Client) -> None:
    single = [({name: value}, name) for name, values in _REFUSED.items() for value in values]
    for changed, name in (*single, *_CONTRADICTORY):
        bad = _period("2026-02-01", "2026-02-02", _element(), _element(**changed))

        answer = _send(shared, {"sku": "SKU-1", "data": [_period(), bad]})

        assert list(_problems(answer)) == [f"data[1].cost_elements[1].{name}"], changed
        assert not re.search(r"`|\b(str|decimal|array|null)\b", answer.text), "types are named in words"
    body = json.dumps({"sku": "SKU-1", "data": [_period("2026-01-01", "2026-01-02", _element(amount=77))]})
    for number in ("1e999999", "1e-999999", "1" + "0" * 5_000, "0." + "0" * 5_000 + "1", "-1e999999"):
        answer = _send(shared, body.replace("77", number))

        assert list(_problems(answer)) == ["data[0].cost_elements[0].amount"], number[:10]
    assert _read(shared) == []


def test_periods_that_cannot_be_used_are_refused_by_path(shared: httpx.Client) -> None:
    cases: Sequence[tuple[object, str]] = [
        (None, "data"),
        ([], "data"),
        ({}, "data"),
        ([5], "data[0]"),
        ([{"cost_elements": [_element()]}], "data[0].dates"),
        ([{**_period(), "cost_elements": []}], "data[0].cost_elements"),
        ([{**_period(), "cost_elements": ["x"]}], "data[0].cost_elements[0]"),
        ([_period("2026-02-30")], "data[0].dates.from_date"),
        ([{**_period(), "dates": {"from_date": None, "to_date": "2026-01-31"}}], "data[0].dates.from_date"),
        ([_period("2026-02-01", "2026-01-31")], "data[0].dates.from_date"),
        ([{**_period(), "dates": {"from_date": "2026-01-01", "to_date": 20260131}}], "data[0].dates.to_date"),
    ]
    for data, path in cases:
        assert list(_problems(_write(shared, data=data))) == [path], data
    assert len(_problems(_write(shared, *[_period("x")] * 500))) == 20  # no more are listed
    whole, inside, behind = ("2026-01-01", "2026-06-30"), ("2026-02-01", "2026-02-02"), ("2026-03-01", "2026-09-01")
    assert _problems(_write(shared, _period(*whole), _period(*inside), _period(*behind))) == {
        f"data[{number}].dates": [f"{first}..{last} overlaps data[0].dates 2026-01-01..2026-06-30"]
        for number, (first, last) in enumerate((inside, behind), start=1)
    }
    assert _read(shared) == []


def test_a_period_replaces_that_of_its_dates_and_overlaps_no_other(ann: httpx.Client, shop: Served) -> None:
    _write(ann, _period("2026-01-01", "2026-01-31"), _period("2026-02-01", "2026-02-28"))
    replaced = _write(ann, _period("2026-02-01", "2026-02-28", _element(amount=9)))
    amounts = [period["cost_elements"][0]["amount"] for period in _read(ann)]
    for first, last in (
        ("2026-01-31", "2026-01-31"),
        ("2025-12-01", "2026-01-01"),
        ("2025-01-01", "2026-01-31"),
        ("2026-01-01", "2026-01-30"),
    ):
        problems = _problems(_write(ann, _period("2024-01-01", "2024-01-02"), _period(first, last)))
        assert list(problems) == ["data[1].dates"]
        assert f"{first}..{last} overlaps the stored period 2026-01-01..2026-01-31" in problems["data[1].dates"][0]
    met = _write(ann, _period("2025-12-31", "2025-12-31"), _period("2026-03-01", "2026-03-01"))
    # A period of another program may be open.
    shop.execute(f"{_INSERT} VALUES ('SKU-1', '2026-04-01', NULL, '[]', '2026-03-09', 'us-1', 0, 0)")
    beyond = _write(ann, _period("2030-01-01", "2030-01-02"))

    assert (replaced.status_code, amounts, met.status_code) == (200, [Decimal("3.00"), Decimal("9.00")], 200)
    assert list(_problems(beyond)) == ["data[0].dates"]
    assert [first for first, _ in _dates(_read(ann))] == [
        *("2025-12-31", "2026-01-01", "2026-02-01", "2026-03-01", "2026-04-01")
    ]


def test_a_parent_is_found_by_every_value_that_the_statistics_list(ann: httpx.Client, shop: Served) -> None:
    day = date(2026, 3, 1)
    for sku, asin in (("SKU-1", "ASIN-1"), ("SKU-3", "ASIN-3"), ("SOLD", "ASIN-9"), ("ALSO", "ASIN-3")):
        sold = (day, sku, "Mug", asin, 4, Decimal(100), Decimal(0), Decimal(0), Decimal(0), day)
        shop.insert_rows(dataset_named("daily_product_sales"), "us-1", [sold])
        assert _write(ann, _period(), sku=sku).status_code == 200
    query = {**US, "view_by": "product", "group_by": "parent_asin", "start_date": f"{day}", "end_date": f"{day}"}
    listed = [row["parent_asin"] for row in ann.get("/sales/statistics-dashboard", params=query).json()["data"]]

    skus = {
        parent: [period["sku"] for period in ann.get(PATH, params={**US, "parent_asin": parent}).json()["data"]]
        for parent in listed
    }

    assert skus == {"P1": ["SKU-1"], "ASIN-3": ["ALSO", "SKU-3"], "ASIN-9": ["SOLD"]}
    assert ann.get(PATH, params={**US, "parent_asin": "ASIN-1"}).status_code == 404


def test_a_converted_amount_is_in_the_currency_of_the_account(ann: httpx.Client) -> None:
    converted = _element(amount=None, total_amount=100, units=3, conversion_rate="1.1", currency="EUR")
    unconverted = _element(amount=None, total_amount=100, units=3, conversion_rate="1.0", currency="EUR")

    _write(ann, _period("2026-01-01", "2026-01-31", converted, unconverted))
    of_group = ann.post(
        PATH,
        params={"group_title": "World"},
        json={"sku": "SKU-2", "data": [_period("2026-01-01", "2026-01-31", unconverted, converted)]},
    )

    elements = _read(ann)[0]["cost_elements"]
    assert [f"{each['amount']} {each['currency']}" for each in elements] == ["36.67 USD", "33.33 EUR"]
    problems = _problems(of_group)
    assert list(problems) == ["data[0].cost_elements[1].conversion_rate"]
    assert "the accounts keep EUR, USD" in problems["data[0].cost_elements[1].conversion_rate"][0]
    assert _read(ann, "SKU-2") == []


def test_a_product_exists_and_it_and_a_period_are_named_in_one_way(shared: httpx.Client) -> None:
    for query in ({}, {"sku": "SKU-1", "asin": "ASIN-1"}, {"sku": "a", "asin": "b", "parent_asin": "c"}):
        for method in ("GET", "DELETE"):
            assert list(_problems(shared.request(method, PATH, params={**US, **query}))) == ["product"]
    for dates, parameter in (
        ({"from_date": "2026-01-01"}, "to_date"),
        ({"to_date": "2026-01-01"}, "from_date"),
        ({"from_date": "2026-01-02", "to_date": "2026-01-01"}, "from_date"),
    ):
        answer = shared.request("DELETE", PATH, params={**US, "sku": "SKU-1", **dates})
        assert list(_problems(answer)) == [parameter]
    for query in ({"sku": "SKU-9"}, {"parent_asin": "P9"}):
        for method in ("GET", "DELETE"):
            assert shared.request(method, PATH, params={**US, **query}).status_code == 404
    assert _write(shared, _period(), sku="SKU-9").status_code == 404


def test_a_group_is_written_as_a_whole_or_not_at_all(ann: httpx.Client, shop: Served) -> None:
    group, periods = {"group_title": "World"}, {"sku": "SKU-1", "data": [_period()]}

    answer = ann.post(PATH, params=group, json=periods)
    of_group, of_asin = _read(ann, **group), ann.get(PATH, params={**US, "asin": "ASIN-1"}).json()["data"]
    ann.request("DELETE", PATH, params={**US, "sku": "SKU-1"})
    _write(ann, _period("2026-01-05", "2026-01-06"))
    refused = ann.post(
        PATH, params=group, json={"sku": "SKU-1", "data": [_period("2026-01-01", "2026-01-31", _element(amount=8))]}
    )
    shop.execute("DELETE FROM service.products WHERE account = 'de-2' AND sku = 'SKU-2'")
    unknown = ann.post(PATH, params=group, json={"sku": "SKU-2", "data": [_period()]})

    owners = [(each["account_title"], each["seller_id"], each["marketplace_id"], each["sku"]) for each in of_group]
    assert owners == [("Shop DE", "S1", "DE", "SKU-1"), ("Shop US", "S1", "US", "SKU-1")]
    assert [list(each) for each in of_asin] == [["from_date", "to_date", "cost_elements", "sku"]]
    assert (answer.json()["periods"], refused.status_code, unknown.status_code) == (2, 422, 404)
    assert _read(ann, account_title="Shop DE")[0]["cost_elements"][0]["amount"] == 3
    assert _read(ann, "SKU-2") == []


def test_a_deletion_takes_one_period_or_all(ann: httpx.Client) -> None:
    _write(ann, _period(), _period("2026-02-01", "2026-02-28"), _period("2026-03-01", "2026-03-31"))
    _write(ann, _period(), sku="SKU-2")
    one = {**US, "sku": "SKU-1", "from_date": "2026-02-01", "to_date": "2026-02-28"}

    unknown = ann.request("DELETE", PATH, params=US, json={"sku": "SKU-1", "From_Date": "2026-02-01", "dates": None})
    first, again = ann.request("DELETE", PATH, params=one), ann.request("DELETE", PATH, json=one)
    rest = ann.request("DELETE", PATH, params=US, json={"asin": "ASIN-1"})

    assert list(_problems(unknown)) == ["From_Date", "dates"]
    assert first.json() == {"status": "success", "code": 200, "message": "1 cost period was deleted.", "deleted": 1}
    assert (again.status_code, rest.json()["deleted"], _read(ann), len(_read(ann, "SKU-2"))) == (404, 2, [], 1)


def test_a_snapshot_is_of_the_accounts_own_day_and_the_newest_counts(ann: httpx.Client, shop: Served) -> None:
    _write(ann, _period())
    written = shop.stored("SELECT local_day, load_id FROM seller.cost_periods")
    shop.execute(f"{_INSERT} VALUES ('SKU-1', '2026-01-01', '2026-01-31', '[]', '2026-03-08', 'us-1', 0, 0)")
    deleted = ann.request("DELETE", PATH, params={**US, "sku": "SKU-1"}).json()["deleted"]
    after_deletion = _read(ann)
    _write(ann, _period())
    _load(shop.database, "us-1")  # of the next day, which found nothing

    assert (written, deleted) == ([(date(2026, 3, 9), 0)], 1)
    assert after_deletion == _read(ann) == []


def test_in_a_replica_costs_are_read_and_not_written(ann: httpx.Client, shop: Served) -> None:
    _load(shop.database, "us-1")
    connect(shop.database, "de-2")
    of_group = ann.post(PATH, params={"group_title": "World"}, json={"sku": "SKU-1", "data": [_period()]})
    assert (of_group.status_code, "account de-2" in of_group.json()["message"]) == (403, True)
    # A stray receipt, and the connection of another account, make no replica.
    assert (_read(ann), _write(ann, _period()).status_code) == ([], 200)
    assert ann.request("DELETE", PATH, params={**US, "sku": "SKU-1"}).status_code == 200
    connect(shop.database, "us-1")
    shop.execute("DELETE FROM service.products WHERE account = 'us-1'")
    shop.execute(
        f"{_INSERT} VALUES ('SKU-1', '2026-01-01', '2026-01-31', %s, '2026-03-10', 'us-1', 1, 1)",
        '[{"cost_element": "Freight", "amount": 1.5, "currency": "USD", "provider": "", "notes": ""}]',
    )

    assert _read(ann)[0]["cost_elements"][0]["amount"] == Decimal("1.50")
    for answer in (
        _write(ann, _period("2020-01-01", "2020-01-01")),
        ann.request("DELETE", PATH, params={**US, "sku": "SKU-1"}),
    ):
        assert answer.status_code == 403
        assert "another service" in answer.json()["message"]


def test_periods_beyond_the_bounds_are_refused_and_room_can_be_made(database: Database, database_url: str) -> None:
    limits = replace(WIDE, periods_of_product=3, periods_of_account=5)
    third, fourth = _period("2026-03-01", "2026-03-31"), _period("2026-04-01", "2026-04-30")
    with served(database, database_url, limits=limits) as running, running.client(ANN) as client:
        _add_products(database)
        full = _write(client, _period("2026-01-01", "2026-01-31"), _period("2026-02-01", "2026-02-28"), third)
        beyond_product = _problems(_write(client, third, fourth))["data"]
        replaced = _write(client, third)
        of_others = [_write(client, third, fourth, sku="SKU-2"), _write(client, third, sku="SKU-1")]
        beyond_account = _problems(_write(client, third, sku="SKU-3"))["data"]
        execute(database, "DELETE FROM seller.cost_periods WHERE sku = 'SKU-2' AND from_date = '2026-03-01'")
        counted_again = _write(client, third, sku="SKU-3")
        dates = {"from_date": "2026-03-01", "to_date": "2026-03-31"}
        deleted = client.request("DELETE", PATH, params={**US, "sku": "SKU-1", **dates})
        room = _write(client, fourth, sku="SKU-3")
        kept = [len(_read(client, f"SKU-{number}")) for number in (1, 2, 3)]

    assert {answer.status_code for answer in (full, replaced, *of_others, counted_again, deleted, room)} == {200}
    assert "1 cost periods to the 3 that the product 'SKU-1' has; at most 3 are kept" in beyond_product[0]
    assert "1 cost periods to the 5 that the account Shop US has; at most 5 are kept" in beyond_account[0]
    assert kept == [2, 1, 2]


def _load(database: Database, account: str) -> None:
    mark_loaded(database, COST_PERIODS, account, Window.day(date(2026, 3, 10)))
