"""Tests loads of cost periods: all products of an account in every form, or nothing."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import Account, Window
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.errors import ContractViolationError, RequestError, RequestRefusedError, UpstreamUnavailableError
from seller_platform.ingest.loads.loading import SliceLoader
from seller_platform.ingest.loads.slices import SliceRequest, load_slice
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.cost_shop import SKUS, US, Shop, open_shop, period
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.stored_rows import execute
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

NOW = datetime(2026, 3, 10, 3, tzinfo=UTC)  # in Los Angeles still the 9th
BERLIN = KnownAccount("de-2", "default", Account(2, "Shop", "DE", "EUR", "Europe/Berlin", "DE", "S1"))
ELEMENT = {"cost_element": "Freight", "amount": 1.5, "currency": "EUR", "provider": None, "notes": "ünï\ncode"}


@pytest.fixture
def shop(databases: Databases, tmp_path: Path) -> Iterator[Shop]:
    with open_shop(databases, tmp_path) as opened:
        yield opened


def _load(shop: Shop) -> Receipt:
    with shop.api() as api:
        request = SliceRequest(COST_PERIODS, shop.registered().key, None)
        receipt = SliceLoader(shop.warehouse, lambda _: api, NOW, "run").load(request)
    assert receipt is not None
    return receipt


def test_costs_of_all_products_are_a_snapshot_of_the_accounts_own_day(shop: Shop) -> None:
    shop.stock(US, [*SKUS, "not known upstream"])
    shop.write(period("2026-01-01", "2026-01-31", 2.1), period("2026-02-01", "2026-02-28", 3))
    shop.write(period("2026-01-01", "2026-12-31", 0.005), sku=SKUS[2])

    receipt = _load(shop)

    stored = shop.query(
        "SELECT sku, from_date, to_date, cost_elements -> 0 ->> 'amount', local_day, account, load_id "
        "FROM seller.cost_periods ORDER BY sku, from_date"
    )
    day = date(2026, 3, 9)
    assert stored == [
        (SKUS[0], date(2026, 1, 1), date(2026, 1, 31), "2.10", day, US, receipt.id),
        (SKUS[0], date(2026, 2, 1), date(2026, 2, 28), "3.00", day, US, receipt.id),
        (SKUS[2], date(2026, 1, 1), date(2026, 12, 31), "0.01", day, US, receipt.id),
    ]
    assert (receipt.rows, receipt.verdict, receipt.announced, receipt.run_id) == (3, "unverifiable", None, "run")
    assert receipt.notes == {"products": 4, "unknown_products": 1}
    assert (receipt.requests, receipt.pages) == (4, 4)


def test_products_that_are_only_known_by_their_sales_are_asked_for_too(shop: Shop) -> None:
    sales = "seller.daily_product_sales (date, sku, local_day, account, load_id, page)"
    for account, sku in (("us-1", "SKU-2"), ("de-2", "of another account")):
        values = f"'2025-01-01', '{sku}', '2025-01-01', '{account}', 1, 1"
        execute(shop.warehouse, f"INSERT INTO {sales} VALUES ({values})")
    shop.write(period("2026-01-01", "2026-01-31"), sku="SKU-2")

    receipt = _load(shop)

    assert receipt.notes == {"products": 1, "unknown_products": 0}
    assert shop.query("SELECT sku FROM seller.cost_periods") == [("SKU-2",)]


def test_before_the_products_are_listed_nothing_is_stored(shop: Shop) -> None:
    with pytest.raises(RequestError, match="sync --dataset inventory"):
        _load(shop)

    assert shop.query("SELECT count(*) FROM platform.loads WHERE dataset = 'cost_periods'") == [(0,)]


def _foreign(
    database: Database, answer: Callable[[str], httpx.Response], skus: tuple[str, ...] = ("A", "B"), **options: Any
) -> Receipt:
    """Load the costs of an account whose upstream is a function of the SKU."""
    columns = "sku, local_day, account, load_id, page"
    listed = text(f"INSERT INTO seller.inventory ({columns}) VALUES (:sku, '2026-03-01', 'de-2', 1, 1)")
    for sku in skus:
        database.execute(listed, {"sku": sku})
    transport = httpx.MockTransport(lambda request: answer(request.url.params.get("sku", "")))
    with SellerApi("http://upstream", transport=transport, **options) as api:
        request = SliceRequest(COST_PERIODS, BERLIN.key, None)
        return load_slice(api, database, BERLIN, request, Window.day(NOW.date()), run_id=None)


def _stored(database: Database) -> list[Any]:
    rows = database.execute(
        text("SELECT sku, from_date, to_date, cost_elements::text, extra FROM seller.cost_periods ORDER BY 1, 2")
    )
    return [(*row[:3], row[3] and json.loads(row[3], parse_float=Decimal), row[4]) for row in rows]


DATES: dict[str, Any] = {"from_date": "2026-01-01", "to_date": "2026-01-31"}
PERIOD = {**DATES, "cost_elements": [ELEMENT]}


def test_amounts_are_exact_and_undeclared_fields_are_kept_and_reported(database: Database) -> None:
    body = (
        '[{"from_date": "2026-01-01", "to_date": null, "approved": true, "cost_elements": '
        '[{"cost_element": "A", "amount": "1,234,567.8900000001", "currency": "EUR", "colour": [1.10]},'
        ' {"cost_element": "B", "amount": 0.1234567890123456789, "currency": "EUR"}]}]'
    )

    receipt = _foreign(database, lambda _: httpx.Response(200, text=body), ("A",))

    (row,) = _stored(database)
    assert [str(element["amount"]) for element in row[3]] == ["1234567.8900000001", "0.1234567890123456789"]
    assert row[3][0]["colour"] == [Decimal("1.10")]
    assert (row[2], row[4]) == (None, {"approved": True})
    assert receipt.notes is not None
    assert receipt.notes["unknown_fields"] == ["approved", "cost_elements.colour"]


def test_two_periods_of_a_product_that_begin_on_one_day_are_reported(database: Database) -> None:
    twice = [{"from_date": "2026-01-01", "to_date": "2026-01-31", "cost_elements": []}] * 2

    receipt = _foreign(database, lambda _: httpx.Response(200, json=twice), ("A",))

    assert receipt.rows == 2
    assert receipt.notes is not None
    assert receipt.notes["duplicate_keys"] == 1


def test_a_product_that_is_not_answered_fails_the_slice_by_name(database: Database) -> None:
    good = httpx.Response(200, json=[PERIOD])
    _foreign(database, lambda _: good)
    before = _stored(database)

    with pytest.raises(
        UpstreamUnavailableError, match=r"GET /cogs/cost-periods of SKU 'B': status 500 after 1 attempt"
    ):
        _foreign(database, lambda sku: httpx.Response(500) if sku == "B" else good, (), attempts=1)

    assert _stored(database) == before


@pytest.mark.parametrize(
    ("sent", "kind", "column"),
    [
        ({"from_date": "2026-02-30"}, "unreadable_values", 'from_date "2026-02-30"'),
        ({"to_date": "0000-00-00"}, "unreadable_values", 'to_date "0000-00-00"'),
        ({"cost_elements": {"a": 1}}, "unreadable_values", 'cost_elements {"a": 1}'),
        ({"cost_elements": [{"amount": "3 EUR"}]}, "unreadable_values", 'cost_elements "3 EUR"'),
        ({"cost_elements": [{"amount": [3]}, {"amount": "-"}]}, "unreadable_values", 'cost_elements [3] and "-"'),
        (
            {"from_date": "2026-01-01", "cost_elements": [{"cost_element": "a\0\ud800b"}]},
            "replaced_text",
            "cost_elements",
        ),
        ({"to_date": "2026-01-31", "cost_elements": []}, "null_keys", "from_date"),
    ],
)
def test_a_value_that_cannot_be_read_costs_no_other_product(
    database: Database, sent: dict[str, Any], kind: str, column: str
) -> None:
    body = json.dumps([sent])

    receipt = _foreign(database, lambda sku: httpx.Response(200, text=body if sku == "B" else json.dumps([PERIOD])))

    assert {row[0] for row in _stored(database)} == {"A", "B"}
    assert (receipt.notes or {})[kind] == {"rows": 1, "first": [{"page": 2, "row": 1, "columns": [column]}]}


def test_a_period_of_another_product_is_refused(database: Database) -> None:
    with pytest.raises(ContractViolationError, match="period 1 is one of another SKU"):
        _foreign(database, lambda _: httpx.Response(200, json=[{"sku": "other"}]), ("A",))

    assert _stored(database) == []


def test_an_upstream_without_the_endpoint_empties_no_snapshot(database: Database) -> None:
    _foreign(database, lambda _: httpx.Response(200, json=[PERIOD]))
    before = _stored(database)

    with pytest.raises(RequestRefusedError, match="404"):
        _foreign(database, lambda _: httpx.Response(404, json={"message": "no such page"}), ())

    assert _stored(database) == before


def test_an_upstream_that_knows_none_of_the_products_has_no_periods(database: Database) -> None:
    receipt = _foreign(database, lambda sku: httpx.Response(404 if sku else 422, json={"message": "sku?"}))

    assert (receipt.rows, receipt.requests) == (0, 3)


def test_the_digest_does_not_depend_on_which_answer_comes_first(database: Database) -> None:
    skus = tuple(f"S{number:02d}" for number in range(30))
    ahead = threading.Semaphore(0)

    def backwards(sku: str) -> httpx.Response:
        """Answer the first product after the second."""
        if sku == skus[1]:
            ahead.release()
        if sku == skus[0]:
            assert ahead.acquire(timeout=PATIENCE_SECONDS)
        return httpx.Response(200, json=[PERIOD])

    first = _foreign(database, backwards, skus)
    second = _foreign(database, lambda _: httpx.Response(200, json=[PERIOD]), ())

    assert first.digest == second.digest
    assert (first.changed, second.changed) == (True, False)
