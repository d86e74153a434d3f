"""Tests that retention keeps one snapshot a month and every needed receipt."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import text

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.warehouse.loads.retention import Pruned, prune
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import latest_receipts, store_receipt
from seller_platform_tests.support.stored_rows import connect, execute, store_slice, stored
from seller_platform_tests.support.waiting import wait_for

STOCK, TRANSACTIONS = dataset_named("warehouse_stock"), dataset_named("transactions")
NOW = date(2026, 11, 1)


def _load(database: Database, dataset: Dataset, window: Window, at: date, *values: object) -> int:
    moment = datetime(at.year, at.month, at.day, 12, tzinfo=UTC)
    row = (*values, *[None] * (len(dataset.columns) - len(values)), str(window.start))
    return store_slice(database, dataset, window, [row], at=moment).id


def _snapshot(database: Database, day: date) -> int:
    return _load(database, STOCK, Window.day(day), day, "SKU", "Shelf")


def _receipts(database: Database) -> set[int]:
    return set(database.execute(text("SELECT id FROM platform.loads")).scalars())


def _prune(database: Database, *, dry: bool = False) -> Pruned:
    return prune(
        database,
        snapshots_before=NOW - timedelta(90),
        receipts_before=NOW - timedelta(30),
        unchanged_before=NOW - timedelta(7),
        dry=dry,
    )


def test_of_old_snapshots_the_last_of_each_month_stays(database: Database) -> None:
    old = [date(2026, 6, 1), date(2026, 6, 29), date(2026, 7, 3), date(2026, 7, 31)]
    last = [date(2026, 8, 2)]  # of August before the day from which on all are kept
    fresh = [date(2026, 8, 3), date(2026, 10, 1), date(2026, 10, 2)]
    for day in (*old, *last, *fresh):
        _snapshot(database, day)

    would, did = _prune(database, dry=True), _prune(database)

    assert would == did
    assert did.rows["warehouse_stock"] == 2
    kept = stored(database, "SELECT DISTINCT local_day FROM seller.warehouse_stock ORDER BY 1")
    assert kept == [(day,) for day in (date(2026, 6, 29), date(2026, 7, 31), *last, *fresh)]
    assert _prune(database).rows["warehouse_stock"] == 0


def test_receipts_of_last_reads_and_of_stored_and_former_rows_are_kept(database: Database) -> None:
    march = Window.month_of(date(2026, 3, 1))
    former = _load(database, TRANSACTIONS, march, date(2026, 4, 1), "2026-03-01T00:00:00Z", "Order")
    wrote = _load(database, TRANSACTIONS, march, date(2026, 4, 2), "2026-03-01T00:00:00Z", "Fee")
    confirmed = _load(database, TRANSACTIONS, march, date(2026, 4, 3), "2026-03-01T00:00:00Z", "Fee")
    newest = _load(database, TRANSACTIONS, march, date(2026, 4, 4), "2026-03-01T00:00:00Z", "Fee")
    at = datetime(2026, 4, 5, tzinfo=UTC)
    held = store_receipt(database, TRANSACTIONS, "us-1", march, at=at, verdict="held", changed=False)
    before = latest_receipts(database)

    pruned = _prune(database)

    assert pruned.receipts == 1
    assert _receipts(database) == {former, wrote, newest, held}
    assert confirmed not in _receipts(database)
    assert latest_receipts(database) == before
    assert database.execute(text("SELECT DISTINCT load_id FROM seller.transactions")).scalars().all() == [wrote]


def test_of_readings_of_a_day_that_changed_nothing_the_last_is_kept(database: Database) -> None:
    old, fresh = (Window.day(NOW - timedelta(days)) for days in (9, 2))
    wrote, _, last, kept, also = (
        _load(database, TRANSACTIONS, day, day.start, f"{day.start}T00:00:00Z", "Order")
        for day in (old, old, old, fresh, fresh)
    )

    pruned = _prune(database)

    assert pruned.receipts == 1
    assert _receipts(database) == {wrote, last, kept, also}


@pytest.mark.needs("reports")
def test_the_receipt_that_a_report_names_stays_though_it_changed_nothing(database: Database) -> None:
    connect(database, "us-1")
    day = Window.day(NOW - timedelta(9))
    wrote, named, _, last = (
        _load(database, TRANSACTIONS, day, day.start, f"{day.start}T00:00:00Z", "Order") for _ in range(4)
    )
    execute(
        database,
        """
        INSERT INTO platform.report_jobs (account, selector, value, format, state, requested_at, give_up_after,
                                          attempted_at, polls, next_poll_at, load_id)
        SELECT 'us-1', 'day', value, 'json', 'loaded', now(), interval '1 day', now(), 0, now(), load
        FROM (VALUES ('a', %s::bigint), ('b', null)) AS jobs (value, load)
        """,
        named,
    )

    _prune(database)

    assert _receipts(database) == {wrote, named, last}


def test_former_rows_of_a_snapshot_go_with_it(database: Database) -> None:
    day = Window.day(date(2026, 6, 1))
    for name in ("A", "B"):
        _load(database, STOCK, day, day.start, f"SKU-{name}", "Main", 1)
    _snapshot(database, date(2026, 6, 2))

    pruned = _prune(database)

    assert pruned.rows["warehouse_stock"] == 2
    assert database.execute(text("SELECT count(*) FROM history.warehouse_stock")).scalar_one() == 0


def test_what_tables_hold_as_a_whole_is_analyzed_unless_the_run_is_dry(database: Database) -> None:
    counts = (
        "SELECT sum(analyze_count) FROM pg_stat_user_tables WHERE schemaname = 'seller' AND relname = 'warehouse_stock'"
    )
    statistics = "SELECT count(*) FROM pg_stats WHERE schemaname = 'seller' AND tablename = 'warehouse_stock'"
    _snapshot(database, date(2026, 10, 1))

    # The database may have been lent to other tests before.
    [(before,)] = stored(database, counts)
    _prune(database, dry=True)
    [(after_dry,)] = stored(database, counts)
    _prune(database)
    [(after,)] = stored(database, counts)

    assert (after_dry - before, after - after_dry) == (0, 1)
    assert stored(database, statistics) > [(0,)]


def test_tables_are_analyzed_one_after_the_other(database: Database) -> None:
    """Whoever waits to analyze the second table holds no lock of the first, nor a snapshot."""
    with ThreadPoolExecutor(1) as threads:
        with database.begin() as other:
            other.execute(text("LOCK TABLE history.orders IN SHARE UPDATE EXCLUSIVE MODE"))
            pruning = threads.submit(_prune, database)
            waiting = "SELECT pid FROM pg_locks WHERE relation = 'history.orders'::regclass AND NOT granted"
            pid = wait_for(lambda: other.execute(text(waiting)).scalar())
            held = other.execute(
                text("SELECT relation::regclass::text FROM pg_locks WHERE pid = :pid AND granted"), {"pid": pid}
            )
            assert "seller.orders" not in held.scalars().all()
        pruning.result()


@pytest.mark.needs("reports", "marts")
def test_of_old_builds_the_newest_and_of_reports_what_awaits_a_run_stays(database: Database) -> None:
    connect(database, "us-1")
    # Of the second partition only the first build exists; all partitions that differ in one value were built later.
    execute(
        database,
        """
        INSERT INTO platform.mart_builds
            (mart, account, window_start, rows, digest, parameters, loads, started_at, finished_at)
        SELECT mart, account, month, number, '', '{}', '{}', at, at
        FROM (VALUES (1, 'b', 'us-1', null), (2, 'b', 'us-1', date '2026-03-01'), (3, 'b', 'us-1', '2026-02-01'),
                     (4, 'b', 'us-1', '2026-04-01'), (5, 'b', 'us-0', '2026-03-01'), (6, 'b', 'us-2', '2026-03-01'),
                     (7, 'a', 'us-1', '2026-03-01'), (8, 'c', 'us-1', '2026-03-01'))
                 AS partitions (position, mart, account, month),
             (VALUES (1, date '2026-06-01'), (2, '2026-10-02'), (3, '2026-10-30')) AS builds (number, at)
        WHERE position <> 2 OR number = 1
        ORDER BY position, number
        """,
    )
    execute(
        database,
        """
        INSERT INTO platform.report_jobs (account, selector, value, format, state, requested_at, give_up_after,
                                          attempted_at, polls, next_poll_at, told_at)
        SELECT 'us-1', 'day', state || told_at || at, 'json', state, at, interval '1 day', at, 0, at,
               nullif(told_at, '')::timestamptz
        FROM (VALUES ('pending', ''), ('loaded', ''), ('failed', ''), ('given_up', ''), ('failed', '2026-06-02'))
                 AS jobs (state, told_at),
             (VALUES (date '2026-06-01'), ('2026-10-02'), ('2026-10-30')) AS moments (at)
        """,
    )

    would, did = _prune(database, dry=True), _prune(database)

    assert would == did
    assert stored(database, "SELECT rows FROM platform.mart_builds ORDER BY id") == [
        (number,) for numbers in ([2, 3], [1], *[[2, 3]] * 6) for number in numbers
    ]
    assert did.receipts == 7 + 2
    left = stored(database, "SELECT state FROM platform.report_jobs ORDER BY requested_at, state")
    assert [state for (state,) in left[:3]] == ["failed", "given_up", "pending"]
    assert len(left) == 3 + 2 * 5


@pytest.mark.needs("sampling")
def test_counts_of_requests_and_comparisons_that_are_old_are_deleted(database: Database) -> None:
    execute(
        database,
        """
        INSERT INTO platform.sent_requests (connection, day, requests)
        SELECT 'default', day, 1 FROM unnest('{2026-10-01, 2026-10-02, 2026-10-03}'::date[]) AS day
        """,
    )
    execute(
        database,
        """
        INSERT INTO platform.comparisons (stratum, dataset, account, window_start, window_end, requests, started_at)
        SELECT 'settled', 'orders', 'us-1', day, day, 1, day
        FROM unnest('{2026-10-01, 2026-10-02, 2026-10-03}'::date[]) AS day
        """,
    )

    _prune(database, dry=True)
    _prune(database)

    kept = [(date(2026, 10, day),) for day in (2, 3)]
    assert stored(database, "SELECT day FROM platform.sent_requests ORDER BY 1") == kept
    assert stored(database, "SELECT window_start FROM platform.comparisons ORDER BY 1") == kept
