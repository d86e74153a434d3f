"""Tests which rows count as absent from a replica, and which it cannot know."""

from collections.abc import Sequence
from datetime import UTC, date, datetime

import httpx
import pytest

from seller_platform.contract import LISTS, Dataset, Window, dataset_named
from seller_platform.ingest.verification.comparison import Comparison, ComparisonResult, verify
from seller_platform.ingest.verification.queries import AccountQuery, StoredDays, queries_for
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import StoredWindow
from seller_platform_tests.support.http_upstream import BERLIN, MARCH, MovingList, api_of, day_of_order, orders, stock

ORDERS, STOCK, DAILY, LEDGER, NOTICES, COSTS, BY_PRODUCT = map(
    dataset_named,
    (
        *("orders", "warehouse_stock", "daily_product_sales", "transactions", "notifications", "cost_periods"),
        "sales_by_product",
    ),
)
SHOP = KnownAccount("S1.DE", "default", BERLIN)
TODAY = date(2026, 3, 31)


def _receipt(dataset: Dataset, first: date, end: date, *, read_at: datetime) -> StoredWindow:
    return StoredWindow(dataset.name, SHOP.key, Window(first, end), read_at)


def _queries(
    datasets: Sequence[Dataset], receipts: Sequence[StoredWindow], *, has_statistics: bool = False
) -> list[AccountQuery]:
    asked = queries_for(
        SHOP,
        datasets,
        [MARCH],
        StoredDays(receipts),
        today=TODAY,
        skus=("A",),
        has_offers=False,
        has_velocity=False,
        has_statistics=has_statistics,
    )
    return list(asked)


def _refuse(request: httpx.Request) -> httpx.Response:
    return httpx.Response(404, json={"message": f"there is nothing at {request.url.path}"})


def _compare(query: AccountQuery, source: MovingList) -> Comparison:
    """Compare with a replica that is never asked."""
    with api_of(source) as source_api, api_of(_refuse) as replica_api:
        return verify(query, source_api, replica_api)


def test_days_up_to_the_last_sync_are_absent_and_later_ones_are_not_known() -> None:
    receipt = _receipt(ORDERS, date(2026, 3, 3), date(2026, 3, 10), read_at=datetime(2026, 3, 20, 12, tzinfo=UTC))

    queries = _queries([ORDERS, DAILY], [receipt])

    assert [(query.dataset.name, str(query.window), query.absent is not None) for query in queries] == [
        ("orders", "2026-03-03..2026-03-09", False),
        ("orders", "2026-03-01..2026-03-02", True),
        ("orders", "2026-03-10..2026-03-20", True),
        ("orders", "2026-03-21..2026-03-31", False),
        ("daily_product_sales", "2026-03-01..2026-03-20", True),
        ("daily_product_sales", "2026-03-21..2026-03-31", False),
    ]
    assert queries[3].unanswerable == "2026-03-21..2026-03-31: later than the last sync of the account"


def test_an_account_that_was_never_synced_lacks_everything_up_to_today() -> None:
    queries = _queries([*LISTS, COSTS], [])

    assert {query.dataset for query in queries if query.absent is not None} == {*LISTS, COSTS}
    assert {str(query.window) for query in queries if query.window} == {"2026-03-01..2026-03-31"}


def test_the_day_before_counts_while_its_sync_may_still_run() -> None:
    receipt = _receipt(ORDERS, date(2026, 3, 1), date(2026, 3, 20), read_at=datetime(2026, 3, 19, 23, 30, tzinfo=UTC))

    late = _queries([ORDERS], [receipt])[-1]

    assert (str(late.window), late.absent) == ("2026-03-20..2026-03-31", None)


@pytest.mark.parametrize(
    ("dataset", "window", "source", "rows"),
    [
        (ORDERS, MARCH, MovingList(orders(251), day_of_order), 251),
        (ORDERS, Window(date(2026, 2, 10), date(2026, 3, 2)), MovingList(orders(200), day_of_order), 132),
        (STOCK, None, MovingList(stock(3)), 3),
        (STOCK, None, MovingList(stock(3), envelope=()), 3),
    ],
    ids=["month", "months", "snapshot", "without a total"],
)
def test_what_the_source_has_and_the_replica_never_read_is_absent(
    dataset: Dataset, window: Window | None, source: MovingList, rows: int
) -> None:
    comparison = _compare(AccountQuery(dataset, SHOP, window, TODAY, absent="never synced"), source)

    assert (comparison.verdict, comparison.rows) == (ComparisonResult.ABSENT, rows)
    assert comparison.differences == (f"never synced; the source has {rows} rows of it",)


def test_where_the_source_has_no_rows_nothing_is_absent() -> None:
    source = MovingList([])

    (query,) = _queries([NOTICES], [])
    comparison = _compare(query, source)

    assert comparison.verdict is ComparisonResult.NOT_KNOWN
    assert "never synced" in comparison.not_known[0]
    assert len(source.requests) == 3  # one for each type of notification


def test_an_endpoint_that_the_source_lacks_is_not_absent() -> None:
    query = AccountQuery(BY_PRODUCT, SHOP, MARCH, None, absent="never synced")

    with api_of(_refuse) as source, api_of(_refuse) as replica:
        of_computed = verify(query, source, replica)
        of_listed = verify(AccountQuery(STOCK, SHOP, None, TODAY, absent="never synced"), source, replica)

    assert of_computed.not_known == ("the source does not offer it (status 404)",)
    assert of_listed.verdict is ComparisonResult.FAILED


def test_products_of_a_month_are_compared_in_the_window_loaded_last() -> None:
    at = datetime(2026, 3, 20, 12, tzinfo=UTC)
    receipts = [
        _receipt(BY_PRODUCT, date(2026, 3, 1), date(2026, 3, 10), read_at=at),
        _receipt(BY_PRODUCT, date(2026, 3, 1), date(2026, 3, 21), read_at=at),
    ]

    compared, _ = _queries([BY_PRODUCT], receipts)

    assert (str(compared.window), compared.unknown) == ("2026-03-01..2026-03-20", ())


def test_sources_of_statistics_are_absent_although_not_selected() -> None:
    receipt = _receipt(DAILY, MARCH.start, MARCH.end, read_at=datetime(2026, 3, 31, 12, tzinfo=UTC))

    queries = _queries([], [receipt], has_statistics=True)

    assert [query.dataset for query in queries if query.absent is not None] == [LEDGER, COSTS]
    assert {query.dataset.name for query in queries} == {"transactions", "cost_periods", "statistics"}


def test_a_difference_of_rows_that_the_replica_computed_is_one_of_its_own() -> None:
    replica = MovingList(stock(4))

    def computed(request: httpx.Request) -> httpx.Response:
        answer = replica(request)
        answer.headers["X-Computed-By"] = "replica"
        return answer

    query = AccountQuery(STOCK, SHOP, None, TODAY)
    with api_of(MovingList(stock(3))) as source, api_of(replica) as rows, api_of(computed) as values:
        verdicts = [verify(query, source, other).verdict for other in (rows, values)]
        equal = verify(query, values, values).verdict

    assert verdicts == [ComparisonResult.DIFFERENT, ComparisonResult.COMPUTED]
    assert equal is ComparisonResult.EQUAL
