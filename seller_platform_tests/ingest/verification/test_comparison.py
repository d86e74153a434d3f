"""Tests comparisons: equal answers, different answers, and answers a replica does not have."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import pytest

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.ingest.verification.comparison import Comparison, ComparisonResult, verify
from seller_platform.ingest.verification.queries import AccountQuery, StoredDays, queries_for
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import StoredWindow
from seller_platform_tests.support.http_upstream import BERLIN, MARCH, MovingList, api_of, stock

ORDERS, STOCK, INVENTORY, DAILY, COSTS = map(
    dataset_named, ("orders", "warehouse_stock", "inventory", "daily_product_sales", "cost_periods")
)
SHOP = KnownAccount("S1.DE", "default", BERLIN)
TODAY = date(2026, 3, 31)

Upstream = Callable[[httpx.Request], httpx.Response]


def _compare(query: AccountQuery, source: Upstream, replica: Upstream) -> Comparison:
    with api_of(source) as source_api, api_of(replica) as replica_api:
        return verify(query, source_api, replica_api)


def _refusing(body: Mapping[str, object], status: int = 422) -> Upstream:
    return lambda request: httpx.Response(status, json={"status": "error", "code": status, "message": "no", **body})


def _selling(costs: Mapping[str, list[dict[str, Any]]]) -> Upstream:
    """Return an upstream with the cost periods of some products."""

    def answer(request: httpx.Request) -> httpx.Response:
        sku = request.url.params.get("sku")
        if sku not in costs:
            return httpx.Response(404 if sku else 422, json={"message": "no such product"})
        return httpx.Response(200, text=json.dumps({"data": costs[sku]}))

    return answer


def _period(amount: object = 1.5, *, first: str = "2026-01-01", **element: object) -> dict[str, Any]:
    elements = [{"cost_element": "Freight", "amount": amount, "currency": "EUR", **element}]
    return {"from_date": first, "to_date": "2026-12-31", "cost_elements": elements}


def _receipt(dataset: Dataset, window: Window) -> StoredWindow:
    return StoredWindow(dataset.name, SHOP.key, window, datetime(2026, 3, 31, tzinfo=UTC))


def _asked(
    *datasets: Dataset, receipts: tuple[StoredWindow, ...], has_offers: bool = False, has_velocity: bool = False
) -> list[AccountQuery]:
    asked = queries_for(
        SHOP,
        datasets,
        [MARCH],
        StoredDays(receipts),
        today=TODAY,
        skus=("A", "B"),
        has_offers=has_offers,
        has_velocity=has_velocity,
        has_statistics=False,
    )
    return list(asked)


@pytest.mark.parametrize(
    ("body", "status", "verdict"),
    [
        ({"reason": "replica", "errors": {"group_by": ["is parent_asin"]}}, 422, ComparisonResult.NOT_KNOWN),
        ({"reason": "replica", "errors": {"start_date": ["was never read"]}}, 422, ComparisonResult.ABSENT),
        ({"errors": {"start_date": ["is no day"]}}, 422, ComparisonResult.DIFFERENT),
        ({"reason": "another"}, 422, ComparisonResult.DIFFERENT),
        ({}, 404, ComparisonResult.DIFFERENT),
    ],
)
def test_a_refusal_is_a_difference_unless_no_list_contains_the_answer(
    body: Mapping[str, object], status: int, verdict: ComparisonResult
) -> None:
    query = AccountQuery(STOCK, SHOP, None, TODAY)

    comparison = _compare(query, MovingList(stock(3)), _refusing(body, status))

    assert comparison.verdict is verdict
    assert len(comparison.not_known) == (verdict is ComparisonResult.NOT_KNOWN)
    assert len(comparison.differences) == (verdict is not ComparisonResult.NOT_KNOWN)


def test_costs_are_compared_as_multisets_however_they_are_spelled() -> None:
    query = AccountQuery(COSTS, SHOP, None, TODAY, skus=("A", "B", "NEW"))
    duty = {"cost_element": "Duty", "amount": 1, "currency": "EUR"}
    at_source, at_replica = _period("1,001.50", provider=""), _period(1001.5, provider=None)
    at_source["cost_elements"].append(duty)
    at_replica["cost_elements"].insert(0, {**duty, "amount": 1.00, "notes": ""})

    comparison = _compare(
        query,
        _selling({"A": [at_source, _period(first="2027-01-01")], "B": []}),
        _selling({"A": [_period(first="2027-01-01"), at_replica], "B": [], "NEW": []}),
    )

    assert (comparison.verdict, comparison.rows, comparison.differences) == (ComparisonResult.EQUAL, 2, ())
    assert comparison.asked == "cost_periods of 3 products"


@pytest.mark.parametrize(
    ("periods", "message"),
    [
        ([_period(), _period()], "sku A, from_date 2026-01-01: 1 at the source, 2 at the replica"),
        ([], "sku A, from_date 2026-01-01: 1 at the source, 0 at the replica"),
        ([_period(1.51)], '"1.5"'),
        ([_period(notes="by sea")], '"by sea"'),
    ],
    ids=["twice", "lacking", "amount", "notes"],
)
def test_costs_that_differ_are_named_with_their_product(periods: list[dict[str, Any]], message: str) -> None:
    query = AccountQuery(COSTS, SHOP, None, TODAY, skus=("A", "B"))

    comparison = _compare(query, _selling({"A": [_period()], "B": []}), _selling({"A": periods, "B": []}))

    assert comparison.verdict is ComparisonResult.DIFFERENT
    assert any("sku A, from_date 2026-01-01" in line and message in line for line in comparison.differences), (
        comparison.differences
    )


def test_the_days_around_a_gap_are_requested_and_the_gap_is_named() -> None:
    receipts = (
        _receipt(ORDERS, Window(date(2026, 3, 1), date(2026, 3, 11))),
        _receipt(ORDERS, Window(date(2026, 3, 13), date(2026, 4, 1))),
    )

    asked = _asked(ORDERS, receipts=receipts)

    command = "seller-platform sync --account S1.DE --dataset orders --from 2026-03 --to 2026-03"
    assert [(str(query.window), query.absent) for query in asked] == [
        ("2026-03-01..2026-03-10", None),
        ("2026-03-13..2026-03-31", None),
        ("2026-03-11..2026-03-12", f"2026-03-11..2026-03-12: never synced; load it with `{command}`"),
    ]


def test_the_velocity_is_asked_for_the_newest_days_that_are_stored() -> None:
    receipts = (
        _receipt(INVENTORY, Window.day(TODAY)),
        _receipt(DAILY, Window(date(2025, 1, 1), date(2025, 6, 1))),
        _receipt(DAILY, Window(date(2026, 2, 1), TODAY)),
    )

    of_replica, of_own = (
        _asked(receipts=receipts, has_velocity=True, has_offers=has_offers)[-1] for has_offers in (False, True)
    )

    assert dict(of_replica.dataset.parameters) == {
        "velocity_start_date": str(TODAY - timedelta(days=30)),
        "velocity_end_date": str(TODAY - timedelta(days=1)),
    }
    assert list(of_replica.ignored) == ["restock_date", "restock_quantity_suggested"]
    assert not of_own.ignored
    assert [query.dataset for query in _asked(receipts=receipts[:1], has_velocity=True)] == [DAILY]  # it is absent


def test_costs_are_compared_for_all_products_where_they_were_read() -> None:
    (never,) = _asked(COSTS, receipts=())
    (once,) = _asked(COSTS, receipts=(_receipt(COSTS, Window.day(TODAY)),))

    assert "it was never synced; load it with" in (never.absent or "")
    assert (never.skus, once.skus, once.absent) == (("A", "B"), ("A", "B"), None)
