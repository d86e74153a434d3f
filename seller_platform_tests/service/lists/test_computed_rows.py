"""Tests that a replica marks the answers whose rows it computed, and no others."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import httpx
import pytest

from seller_platform.contract import Window, dataset_named
from seller_platform.contract.wire import COMPUTED_BY
from seller_platform.service.openapi.document import operations
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.served import ANN, Served, connect, execute, insert_rows

NAMES = ("daily_product_sales", "transactions", "inventory", "sales_by_product")
DAILY, LEDGER, INVENTORY, BY_PRODUCT = map(dataset_named, NAMES)
FIRST, TODAY = date(2026, 3, 1), date(2026, 3, 9)  # in the time zone of US
MARCH = Window(FIRST, date(2026, 3, 10))


@pytest.fixture
def replica(service: Served) -> Served:
    """A service of which one account is a replica with a day of sales, and rates."""
    connect(service.database, "S1.US")
    for dataset in (DAILY, LEDGER, BY_PRODUCT):
        mark_loaded(service.database, dataset, "S1.US", MARCH)
    mark_loaded(service.database, INVENTORY, "S1.US", Window.day(TODAY))
    for account in ("S1.US", "S1.DE"):
        row = (FIRST, "SKU", "Name", "ASIN", 1, "10.00", "0.00", "0.00", "0.00", FIRST)
        insert_rows(service.database, DAILY, account, [row])
    execute(service.database, "INSERT INTO service.exchange_rates VALUES ('2026-03-01', 'USD', 1.25)")
    return service


@pytest.fixture
def ann(replica: Served) -> Iterator[httpx.Client]:
    with replica.client(ANN) as client:
        yield client


def _mark(client: httpx.Client, path: str, **query: object) -> str | None:
    sent = {"account_title": "Shop US", "start_date": FIRST, "end_date": TODAY, "per_page": 500, **query}
    answer = client.get(path, params={name: str(value) for name, value in sent.items() if value is not None})
    assert answer.status_code == 200, answer.text
    mark: str | None = answer.headers.get(COMPUTED_BY)
    return mark


def test_rows_that_a_replica_computes_are_marked(ann: httpx.Client) -> None:
    by_month = dict(BY_PRODUCT.parameters)

    assert _mark(ann, DAILY.path, currency="EUR") == "replica"
    assert _mark(ann, INVENTORY.path, velocity_start_date=FIRST) == "replica"
    assert _mark(ann, BY_PRODUCT.path, view_by="date", group_by="week") == "replica"
    assert _mark(ann, BY_PRODUCT.path, **by_month, currency="EUR") == "replica"
    of_group = {"account_title": None, "group_title": "World", "currency": "EUR"}
    assert _mark(ann, DAILY.path, **of_group) == "replica"


def test_rows_that_were_read_are_not_marked(ann: httpx.Client) -> None:
    assert _mark(ann, DAILY.path) is None
    assert _mark(ann, DAILY.path, currency="USD", sales_channel="platform") is None
    assert _mark(ann, INVENTORY.path) is None
    assert _mark(ann, BY_PRODUCT.path, **dict(BY_PRODUCT.parameters)) is None
    assert COMPUTED_BY not in ann.get(DAILY.path).headers  # a refusal


def test_statistics_that_the_upstream_computed_as_a_replica_are_marked(replica: Served, ann: httpx.Client) -> None:
    by_month = dict(BY_PRODUCT.parameters)
    read = _mark(ann, BY_PRODUCT.path, **by_month)
    statement = "UPDATE platform.loads SET notes = jsonb_build_object('computed_by', 'replica') WHERE dataset = %s"
    execute(replica.database, statement, BY_PRODUCT.name)

    assert (read, _mark(ann, BY_PRODUCT.path, **by_month)) == (None, "replica")


def test_the_service_of_its_own_rows_marks_none_of_them(ann: httpx.Client) -> None:
    own = {"account_title": "Shop DE"}

    assert _mark(ann, DAILY.path, **own, currency="USD") is None
    assert _mark(ann, INVENTORY.path, **own, velocity_start_date=FIRST) is None
    assert _mark(ann, BY_PRODUCT.path, **own, view_by="date", group_by="week") is None


def test_the_header_is_described_where_it_may_be_sent(ann: httpx.Client) -> None:
    document: dict[str, Any] = ann.get("/openapi.json").json()

    described = {
        operation["operationId"]
        for _, _, operation in operations(document)
        if COMPUTED_BY in operation["responses"]["200"].get("headers", {})
    }

    assert described == {"list_daily_product_sales", "list_inventory", "list_statistics"}
    assert document["components"]["headers"][COMPUTED_BY]["description"].startswith("`replica`")
