"""Tests that a replica answers what was loaded, marks what it computed, and refuses everything else by name."""

from datetime import date
from typing import Any

import httpx
import pytest

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.contract.wire import COMPUTED_BY, REPORT_REQUEST
from seller_platform.service.lists.endpoints import SERVED
from seller_platform.warehouse.loads.retention import prune
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.served import Served, ask
from seller_platform_tests.support.stored_rows import connect

ORDERS, DAILY, LEDGER, INVENTORY, COSTS, BY_PRODUCT = map(
    dataset_named, ("orders", "daily_product_sales", "transactions", "inventory", "cost_periods", "sales_by_product")
)
US, DE = "us-1", "de-2"
FIRST, TODAY, TOMORROW = date(2026, 3, 1), date(2026, 3, 9), date(2026, 3, 10)  # in the time zone of US
MARCH = Window(FIRST, TOMORROW)
STATISTICS = "/sales/statistics-dashboard"
BY_DAY = {"view_by": "date", "group_by": "day"}


@pytest.fixture
def replica(service: Served) -> Served:
    """A service whose rows of one account were loaded from another service."""
    connect(service.database, US)
    return service


def _ask(client: httpx.Client, path: str, **query: object) -> httpx.Response:
    return ask(client, path, **{"account_title": "Shop US", "start_date": FIRST, "end_date": TODAY, **query})


def _list(client: httpx.Client, dataset: Dataset, **query: object) -> httpx.Response:
    size = min(dataset.page_sizes) if dataset.page_sizes else None
    split = dataset.split_by
    part = {split.parameter: split.values[0]} if split and split.required else {}
    return _ask(client, dataset.path, per_page=size, **{**part, **query})


def _refusal(answer: httpx.Response) -> str:
    """Check that an answer is a refusal of a replica, and return its message."""
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body.get("reason")) == (422, "replica"), answer.text
    (problem,) = (problem for problems in body["errors"].values() for problem in problems)
    return str(problem)


def _sell(served: Served, *days: date, account: str = US) -> None:
    rows = [(day, "SKU", "Name", "ASIN", 1, "10.00", "0.00", "0.00", "0.00", day) for day in days]
    served.insert_rows(DAILY, account, rows)


@pytest.mark.parametrize("dataset", (*SERVED, COSTS), ids=lambda dataset: dataset.name)
def test_a_list_that_was_never_read_is_refused_not_empty(replica: Served, ann: httpx.Client, dataset: Dataset) -> None:
    product = {"sku": "SKU"} if dataset == COSTS else {}
    for account in (US, DE) if product else ():
        _sell(replica, FIRST, account=account)
    before = _refusal(_list(ann, dataset, **product))
    mark_loaded(replica.database, dataset, US, MARCH if dataset.is_dated else Window.day(FIRST))
    after, own = _list(ann, dataset, **product), _list(ann, dataset, account_title="Shop DE", **product)

    months = " --from 2026-03 --to 2026-03" if dataset.is_dated else ""
    assert f"`seller-platform sync --account us-1 --dataset {dataset.name}{months}`" in before
    assert ("for 2026-03-01" in before) is dataset.is_dated
    assert (after.status_code, after.json()["data"]) == (200, [])
    assert (own.status_code, own.json()["data"]) == (200, [])


def test_the_first_day_that_lacks_and_every_month_are_named(replica: Served, ann: httpx.Client) -> None:
    mark_loaded(replica.database, ORDERS, US, Window(date(2026, 2, 20), date(2026, 3, 4)))
    mark_loaded(replica.database, ORDERS, US, Window(date(2026, 3, 3), date(2026, 3, 5)))
    mark_loaded(replica.database, ORDERS, US, Window(date(2026, 3, 6), TODAY))
    mark_loaded(replica.database, DAILY, US, Window(date(2026, 1, 1), date(2026, 2, 1)))
    for dataset, query, day in (
        (ORDERS, {"start_date": "2026-02-25"}, "2026-03-05"),
        (ORDERS, {"start_date": TODAY, "end_date": "2026-03-31"}, "2026-03-09"),
        (ORDERS, {"start_date": None, "end_date": None}, "2026-03-05"),  # by default the week up to today
        (DAILY, {"start_date": "2025-11-30"}, "2025-11-30"),
        (DAILY, {"start_date": "0001-01-01"}, "0001-01-01"),
    ):
        refusal = _refusal(_list(ann, dataset, **query))
        assert f"was never read for {day}" in refusal
        assert ("--from 2025-11 --to 2026-03" in refusal) is (day == "2025-11-30")
    mark_loaded(replica.database, ORDERS, US, Window.day(TODAY))
    for first, last in (("2026-02-25", "2026-03-04"), ("2026-03-06", TODAY), (TODAY, "2026-03-31")):
        assert _list(ann, ORDERS, start_date=first, end_date=last).status_code == 200
    assert _list(ann, ORDERS, start_date=TOMORROW, end_date="2026-03-31").status_code == 200  # is yet to come


def test_what_was_read_stays_known_when_receipts_are_pruned(replica: Served, ann: httpx.Client) -> None:
    for _ in range(2):
        for day in MARCH.each_day():
            mark_loaded(replica.database, ORDERS, US, Window.day(day))
        mark_loaded(replica.database, INVENTORY, US, Window.day(FIRST))

    pruned = prune(replica.database, snapshots_before=date(2030, 1, 1), receipts_before=date(2030, 1, 1), dry=False)

    assert pruned.receipts == MARCH.days + 1
    assert [_list(ann, dataset).status_code for dataset in (ORDERS, INVENTORY)] == [200, 200]
    replica.execute("UPDATE platform.accounts SET retired_at = now()")
    _refusal(_list(ann, DAILY))  # an account that is no longer listed is still a replica


def test_a_group_is_answered_when_all_of_its_replicas_were_read(replica: Served, ann: httpx.Client) -> None:
    asked = {"account_title": None, "group_title": "World"}

    assert "of account us-1" in _refusal(_list(ann, ORDERS, **asked))
    mark_loaded(replica.database, ORDERS, US, MARCH)
    assert _list(ann, ORDERS, **asked).status_code == 200
    connect(replica.database, DE)  # and lists no other account any more
    assert "of account de-2" in _refusal(_list(ann, ORDERS, **asked))
    mark_loaded(replica.database, ORDERS, DE, MARCH)
    refusal = _refusal(_list(ann, ORDERS, account_title="Shop DE", end_date="2026-03-20"))
    assert "was never read for 2026-03-10" in refusal  # in Los Angeles it is still the 9th


def test_statistics_need_the_sales_of_every_day(replica: Served, ann: httpx.Client) -> None:
    for dataset in (DAILY, LEDGER):
        mark_loaded(replica.database, dataset, US, Window(FIRST, date(2026, 3, 4)))

    assert "daily_product_sales of account us-1, which was never read for 2026-03-04" in _refusal(
        _ask(ann, STATISTICS, **BY_DAY)
    )
    assert _ask(ann, STATISTICS, **BY_DAY, end_date="2026-03-03").status_code == 200


@pytest.mark.parametrize(
    "view",
    [
        BY_DAY,
        {"view_by": "product", "group_by": "sku"},
        {"view_by": "product", "group_by": "asin", "period_by": "Date"},
    ],
    ids=lambda view: view["group_by"],
)
def test_costs_and_fees_that_were_not_read_are_null(replica: Served, ann: httpx.Client, view: dict[str, str]) -> None:
    _sell(replica, FIRST)
    mark_loaded(replica.database, DAILY, US, MARCH)
    mark_loaded(replica.database, LEDGER, US, Window(date(2026, 3, 2), TOMORROW))
    names = ("units_ordered", "product_sales", "product_cost", "platform_fees", "profit", "roi", "profit_margin")

    (neither,) = _ask(ann, STATISTICS, **view).json()["data"]
    mark_loaded(replica.database, COSTS, US, Window.day(FIRST))
    (without,) = _ask(ann, STATISTICS, **view).json()["data"]
    mark_loaded(replica.database, LEDGER, US, Window.day(FIRST))
    (whole,) = _ask(ann, STATISTICS, **view).json()["data"]

    assert [neither[name] for name in names] == [1, 10, None, None, None, None, None]
    assert [without[name] for name in names] == [1, 10, 0, None, None, None, None]
    assert [whole[name] for name in names] == [1, 10, 0, 0, 10, None, 100]


def test_nothing_is_compared_with_days_that_were_not_read(replica: Served, ann: httpx.Client) -> None:
    _sell(replica, date(2026, 2, 28), FIRST, date(2026, 3, 2))
    mark_loaded(replica.database, DAILY, US, MARCH)
    nothing = {"units_ordered": None, "product_sales": None, "profit": None}
    same = {"units_ordered": 0, "product_sales": 0, "profit": None}

    def trends() -> list[dict[str, object]]:
        return [row["trend"] for row in _ask(ann, STATISTICS, **BY_DAY).json()["data"]]

    assert trends() == [nothing, same]
    mark_loaded(replica.database, DAILY, US, Window.day(date(2026, 2, 28)))
    assert trends() == [same, same]
    mark_loaded(replica.database, LEDGER, US, MARCH)
    assert trends() == [nothing, same]  # the profit of the day before is not known


def test_a_velocity_needs_the_sales_of_its_days(replica: Served, ann: httpx.Client) -> None:
    asked = {"velocity_start_date": "2026-02-01", "velocity_end_date": TODAY}
    mark_loaded(replica.database, INVENTORY, US, Window.day(FIRST))
    mark_loaded(replica.database, DAILY, US, MARCH)

    answer = _list(ann, INVENTORY, **asked)

    assert "daily_product_sales of account us-1, which was never read for 2026-02-01" in _refusal(answer)
    assert list(answer.json()["errors"]) == ["velocity_start_date"]
    assert _list(ann, INVENTORY, **{**asked, "velocity_start_date": FIRST}).status_code == 200
    assert _list(ann, INVENTORY).status_code == 200


def test_a_report_is_written_of_days_that_were_read(replica: Served, ann: httpx.Client) -> None:
    _sell(replica, FIRST)

    def request(selector: str, value: str) -> httpx.Response:
        return ann.post(REPORT_REQUEST, json={"account_title": "Shop US", selector: value})

    cases = (("dps_date", "2026-02-27"), ("last_updated_date", "2026-02-27"), ("product_sku", "SKU"))
    unread = [_refusal(request(*case)) for case in cases]
    for dataset in (DAILY, ORDERS):
        mark_loaded(replica.database, dataset, US, Window(date(2026, 2, 27), FIRST))
    partly = [request(*case).status_code for case in cases]
    for dataset in (DAILY, ORDERS):
        mark_loaded(replica.database, dataset, US, MARCH)

    for refusal, missing in zip(unread, ("2026-02-27", "2026-02-27", "2026-03-09"), strict=True):
        assert f"was never read for {missing}" in refusal
    assert (partly, [request(*case).status_code for case in cases]) == ([200, 422, 422], [200] * 3)


# Rows that a replica computes


@pytest.fixture
def computing(replica: Served, ann: httpx.Client) -> httpx.Client:
    """A client of a replica with a day of sales, beside an account of its own with the same, and with rates."""
    for dataset in (DAILY, LEDGER):
        mark_loaded(replica.database, dataset, US, MARCH)
    mark_loaded(replica.database, INVENTORY, US, Window.day(TODAY))
    for account in (US, DE):
        _sell(replica, FIRST, account=account)
    replica.execute("INSERT INTO service.exchange_rates VALUES ('2026-03-01', 'USD', 1.25)")
    return ann


def _is_marked(client: httpx.Client, dataset: Dataset, **query: object) -> bool:
    answer = _ask(client, dataset.path, per_page=500, **query).raise_for_status()
    return bool(answer.headers.get(COMPUTED_BY) == "replica")


_WEEKLY: dict[str, object] = {"view_by": "date", "group_by": "week"}


def test_rows_that_a_replica_computes_are_marked(computing: httpx.Client) -> None:
    computed: tuple[tuple[Dataset, dict[str, object]], ...] = (
        (DAILY, {"currency": "EUR"}),
        (DAILY, {"account_title": None, "group_title": "World", "currency": "EUR"}),
        (INVENTORY, {"velocity_start_date": FIRST}),
        (BY_PRODUCT, _WEEKLY),
        (BY_PRODUCT, dict(BY_PRODUCT.parameters)),
    )
    read: tuple[tuple[Dataset, dict[str, object]], ...] = (
        (DAILY, {}),
        (DAILY, {"currency": "USD", "sales_channel": "platform"}),
        (INVENTORY, {}),
        # These are the service's own.
        (DAILY, {"account_title": "Shop DE", "currency": "USD"}),
        (INVENTORY, {"account_title": "Shop DE", "velocity_start_date": FIRST}),
        (BY_PRODUCT, {"account_title": "Shop DE", **_WEEKLY}),
    )
    for dataset, query in (*computed, *read):
        assert _is_marked(computing, dataset, **query) is ((dataset, query) in computed), (dataset, query)
