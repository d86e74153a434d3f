"""Tests which slices are drawn at random, and the bound that follows from their comparisons."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from math import isclose

import pytest
from sqlalchemy import text

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.sampling.draws import (
    DrawnSlice,
    Sample,
    SampledStratum,
    Stratum,
    count_slices,
    draw,
    keep_comparison,
    requests_of_comparisons,
    sample,
    upper_bound,
)
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts

BY_PRODUCT, STOCK, ORDERS = map(dataset_named, ("sales_by_product", "warehouse_stock", "orders"))
DAY = timedelta(days=1)
NOW = datetime(2026, 6, 20, 12, tzinfo=UTC)
MANY = 10**4


@pytest.fixture
def accounts(database: Database) -> Iterator[Database]:
    listed = [(f"S{number}", Account(number, "A", "US", "USD", "UTC", "M", f"S{number}")) for number in range(3)]
    connect_accounts(database, listed)
    yield database


def _load(database: Database, account: str, month: Window, rows: int, read_at: datetime = NOW) -> None:
    store_receipt(
        database, TRANSACTIONS, account, month, rows=rows, announced=rows, started_at=read_at, time_zone="UTC"
    )


def _drawn(database: Database, stratum: Stratum, requests: int = 10, points: int = 40) -> Counter[tuple[str, Window]]:
    drawn = (draw(database, stratum, point / points, requests) for point in range(points))
    return Counter((each.account, each.window) for each in drawn if each is not None)


@pytest.mark.parametrize(
    ("comparisons", "different", "slices", "expected"),
    [
        (300, 0, MANY, 0.0100),  # 1 - 0.05 ** (1 / 300) is 0.009936
        (1204, 1, MANY, 0.0041),
        (50, 50, MANY, 1.0),
        (10, 0, MANY, 0.258866),
        (10, 0, 4, 0.5),
        (2000, 20, 50, 0.04),  # of 50 slices, two may differ now: more than the share in the long run
    ],
)
def test_the_bound_is_that_of_the_binomial_or_the_one_for_so_few_slices(
    comparisons: int, different: int, slices: int, expected: float
) -> None:
    assert isclose(upper_bound(comparisons, different, slices), expected, rel_tol=1e-3)


def test_differences_that_become_more_frequent_count_by_the_newer_half() -> None:
    bounds = [SampledStratum(500, 500, 0.0, 200, 4, lately, NOW).bound for lately in range(5)]

    assert bounds == [upper_bound(200, 4, 500)] * 3 + [upper_bound(100, lately, 500) for lately in (3, 4)]


def test_slices_are_drawn_by_their_rows_and_settled_ones_apart(accounts: Database) -> None:
    march, april = Window.month_of(date(2026, 3, 1)), Window.month_of(date(2026, 4, 1))
    _load(accounts, "S0", march, 299)
    _load(accounts, "S1", april, 99)
    store_receipt(accounts, BY_PRODUCT, "S0", april, rows=99, at=datetime(2026, 4, 30, tzinfo=UTC))  # not over
    _load(accounts, "S1", march, 50, read_at=datetime(2026, 4, 14, tzinfo=UTC))  # its last day may have changed since

    assert _drawn(accounts, Stratum.SETTLED) == {("S0", march): 30, ("S1", april): 10}
    assert set(_drawn(accounts, Stratum.CHANGING)) == {("S1", march)}


def test_large_slices_are_drawn_in_parts(accounts: Database) -> None:
    _load(accounts, "S0", Window.month_of(date(2026, 4, 1)), 6_000)

    drawn = _drawn(accounts, Stratum.SETTLED, requests=3)  # 4,000 rows a day, beside the request of an empty list
    count_slices(accounts, 3, NOW)

    thirds = [
        Window(date(2026, 4, 1) + number * 10 * DAY, date(2026, 4, 11) + number * 10 * DAY) for number in range(3)
    ]
    assert drawn == {("S0", third): pytest.approx(40 / 3, abs=1) for third in thirds}
    assert sample(accounts, NOW).strata[Stratum.SETTLED] == SampledStratum(3, 3, 0.0, 0, 0, 0, None)


def test_the_bound_of_some_accounts_follows_from_their_comparisons_alone(accounts: Database) -> None:
    march, april = Window.month_of(date(2026, 3, 1)), Window.month_of(date(2026, 4, 1))
    _load(accounts, "S0", march, 28_001)
    _load(accounts, "S0", april, 99)
    for month in (march, april):
        _load(accounts, "S1", month, 49)
    count_slices(accounts, 1, NOW)
    compared = (
        ("S0", True, 4),
        ("S1", False, 3),
        ("S1", False, 2),
        ("S1", True, 1),
        ("S1", None, 12),
        ("S1", True, 720),
    )
    for account, differed, hours in compared:
        drawn = DrawnSlice(Stratum.SETTLED, TRANSACTIONS, account, "default", april)
        keep_comparison(accounts, drawn, started_at=NOW - timedelta(hours=hours), requests=hours, differed=differed)
    store_receipt(accounts, TRANSACTIONS, "S0", april, verdict="held")

    first, second, both = (sample(accounts, NOW, keys).strata[Stratum.SETTLED] for keys in (("S0",), ("S1",), None))

    assert second == SampledStratum(2, 2, 0.0, 3, 1, 1, NOW - timedelta(hours=3))
    assert (first.slices, first.comparisons, first.different, first.open) == (1, 1, 1, 1)
    assert (both.slices, both.effective_slices, both.comparisons, both.different) == (3, 3, 4, 2)
    assert round(first.left_out_percent, 1) > round(both.left_out_percent, 1) > second.left_out_percent == 0
    assert sample(accounts, NOW, ("S2",)).strata == {}
    assert requests_of_comparisons(accounts, NOW.date()) == {"default": 4 + 3 + 2 + 1 + 12}


def test_a_settled_slice_that_differed_is_named_for_a_week(accounts: Database) -> None:
    april, (settled, changing) = Window.month_of(date(2026, 4, 1)), Stratum
    compared = (
        *((settled, load, True, 6) for load in (1, 2)),
        *((changing, 3, True, 0), (settled, None, True, 0), (settled, 4, False, 0), (settled, 5, True, 8)),
    )
    for stratum, load_id, differed, days in compared:
        drawn, at = DrawnSlice(stratum, TRANSACTIONS, "S0", "default", april), datetime.now(UTC) - days * DAY
        keep_comparison(accounts, drawn, started_at=at, requests=1, differed=differed, load_id=load_id)

    found = accounts.execute(text("SELECT month, load_id FROM platform.problems WHERE kind = 'differed'"))
    assert [*found.tuples()] == [(april.start, 2)]


def test_slices_of_accounts_that_are_no_longer_listed_are_not_drawn(accounts: Database) -> None:
    _load(accounts, "S0", Window.month_of(date(2026, 3, 1)), 10)
    count_slices(accounts, 1, NOW)
    assert set(sample(accounts, NOW).strata) == {Stratum.SETTLED}

    accounts.execute(text("UPDATE platform.accounts SET retired_at = now()"))
    count_slices(accounts, 1, NOW)

    assert _drawn(accounts, Stratum.SETTLED) == {}
    assert sample(accounts, NOW).strata == {}


def test_the_sentence_names_bounds_comparisons_and_what_is_left_out() -> None:
    since = datetime(2026, 11, 3, 1, tzinfo=UTC)
    settled = SampledStratum(900, 800, 12.4, 1204, 3, 0, since, open=1)
    changing = SampledStratum(30, 20, 0, 301, 9, 4, since)

    assert str(Sample({})) == ("How many slices differ from the upstream is not known: no settled one was compared yet")
    assert str(Sample({Stratum.SETTLED: settled, Stratum.CHANGING: changing})) == (
        "Since 3 November 2026, 1,204 checks compared months that should no longer change with the API: 3 differed, 2 "
        "repaired, 1 open. Unless something happened since, at most 0.88 % of the rows are in months that differ, with "
        "95 % confidence; of months that may still change at most 10 %, from 301 checks. Slices with 13 % of the rows "
        "are too large to compare"
    )
    alone = str(Sample({Stratum.SETTLED: SampledStratum(900, 800, 0, 300, 0, 0, since)}))
    assert "300 checks compared months that should no longer change with the API: none differed. Unless" in alone


def test_an_empty_month_is_drawn_by_what_was_announced_last(accounts: Database) -> None:
    march, april = Window.month_of(date(2026, 3, 1)), Window.month_of(date(2026, 4, 1))
    _load(accounts, "S0", march, 299)
    _load(accounts, "S1", march, 99)
    for month in (march, april):
        _load(accounts, "S1", month, 0)
    for dataset, day in ((STOCK, april.start), (TRANSACTIONS, april.end)):
        store_receipt(accounts, dataset, "S1", Window.day(day), announced=500)

    assert _drawn(accounts, Stratum.SETTLED, points=401) == {("S0", march): 300, ("S1", march): 100, ("S1", april): 1}
