"""Tests that slices are replaced exactly and completely, and that receipts describe changes."""

import resource
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import ContractViolationError, ImplausibleReadingError, WarehouseError
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.holds import Judge
from seller_platform.warehouse.loads.receipts import Receipt, Slice
from seller_platform.warehouse.loads.slices import open_load
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import add_rows, stored
from seller_platform_tests.support.waiting import wait_for

ORDERS, REPORT_ROWS = dataset_named("orders"), dataset_named("report_rows")
MARCH = Window.month_of(date(2026, 3, 1))
ACCOUNT = "us-7"


def _order(number: int, *, total: str = "10.00", name: str = "Cup", day: date = MARCH.start) -> Row:
    return (
        f"order-{number}",
        f"{day}T10:00:00-08:00",
        "Shipped",
        Decimal(total),
        "USD",
        1,
        "SKU",
        "ASIN",
        name,
        day.isoformat(),
    )


def _load(
    database: Database,
    rows: Sequence[Row],
    *,
    window: Window = MARCH,
    extras: dict[int, str] | None = None,
    tag: str = "platform",
    judge: Judge | None = None,
) -> Receipt:
    with open_load(database, Slice(ORDERS, ACCOUNT, window)) as load:
        load.spool.write(rows, tags=(tag,), extras=extras or {}, page=1)
        facts = LoadFacts(1, 1, 100, len(rows), CountVerdict.MATCH)
        return load.store(facts, started_at=datetime.now(UTC), judge=judge)


def _store_beside(database: Database, **columns: Any) -> None:
    """Store receipts of another list, another account, and the months before and after."""
    for dataset, account in ((dataset_named("transactions"), ACCOUNT), (ORDERS, "us-8")):
        store_receipt(database, dataset, account, MARCH, **columns)
    for month in (2, 4):
        store_receipt(database, ORDERS, ACCOUNT, Window.month_of(date(2026, month, 1)), **columns)


def _stored(database: Database) -> list[tuple[str, Decimal]]:
    rows = database.execute(text("SELECT platform_order_id, order_total FROM seller.orders ORDER BY 1, 2"))
    return [(row[0], row[1]) for row in rows]


def _delete(database: Database, rows: Sequence[Row]) -> None:
    """Delete rows as an operator does by hand."""
    names = {"names": [row[0] for row in rows]}
    database.execute(text("DELETE FROM seller.orders WHERE platform_order_id = ANY (:names)"), names)


@pytest.mark.parametrize(("name", "day"), [("orders", MARCH.start), ("inventory", MARCH.end)])
def test_a_load_waits_for_another_of_its_month_or_of_any_snapshot(database: Database, name: str, day: date) -> None:
    waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    dataset = dataset_named(name)

    def load() -> bool:
        with open_load(database, Slice(dataset, ACCOUNT, Window.day(day))):
            return True

    with ThreadPoolExecutor(1) as threads:
        with open_load(database, Slice(dataset, ACCOUNT, Window.day(MARCH.last_day))):
            other = threads.submit(load)
            wait_for(lambda: stored(database, waits) == [(1,)])
            assert not other.done()
        assert other.result()


def test_sums_are_those_of_the_window_whatever_window_was_loaded_before(database: Database) -> None:
    tenth = Window.day(date(2026, 3, 10))
    _load(database, [_order(1, total="10.00"), _order(2, total="5.00", day=tenth.start)])

    part = _load(database, [_order(2, total="7.00", day=tenth.start)], window=tenth)
    whole = _load(database, [_order(1, total="11.00"), _order(2, total="7.00", day=tenth.start)])

    assert part.sums == {"rows": 1, "order_total USD": Decimal("7.00")}
    assert part.restatement == {"order_total USD": {"before": "5.00", "after": "7.00"}}
    assert whole.sums == {"rows": 2, "order_total USD": Decimal("18.00")}
    assert whole.restatement == {"order_total USD": {"before": "17.00", "after": "18.00"}}


def test_a_slice_has_the_rows_of_all_its_parts(database: Database) -> None:
    for day, count in ((1, 1), (2, 2), (2, 3)):
        window = Window.day(date(2026, 3, day))
        _load(database, [_order(number, day=window.start) for number in range(count)], window=window)

    assert stored(database, "SELECT rows FROM platform.slices") == [(4,)]


@pytest.mark.parametrize("day", [MARCH.start, MARCH.last_day])
def test_the_last_load_of_a_part_does_not_stand_for_the_whole_slice(database: Database, day: date) -> None:
    rows = [_order(1, day=MARCH.start), _order(2, day=MARCH.last_day)]
    alone = [row for row in rows if row[-1] == str(day)]
    _load(database, rows)
    _load(database, alone, window=Window.day(day))
    _delete(database, alone)

    _load(database, alone)

    assert [name for name, _ in _stored(database)] == [alone[0][0]]


def test_sums_follow_rows_that_were_changed_by_hand(database: Database) -> None:
    add_rows(database, ORDERS, [_order(9)], account=ACCOUNT, tags=("platform",))
    first = _load(database, [_order(1), _order(2)])
    _delete(database, [_order(2)])
    after_deletion = _load(database, [_order(1), _order(3)])
    add_rows(database, ORDERS, [_order(4)], account=ACCOUNT, tags=("platform",))
    after_insertion = _load(database, [_order(1), _order(5)])

    assert [(each.sums or {})["rows"] for each in (first, after_deletion, after_insertion)] == [2, 2, 2]


def test_equal_amounts_that_are_spelled_otherwise_count_as_they_occur(database: Database) -> None:
    _load(database, [_order(1), _order(1), _order(2), _order(3)])

    _load(database, [_order(1, total="10.000"), _order(2), _order(2, total="10.000")])

    assert [name for name, _ in _stored(database)] == ["order-1", "order-2", "order-2"]


def test_a_load_ends_after_all_of_its_days_though_the_clock_was_set_back(database: Database) -> None:
    future = datetime(2100, 1, 1, tzinfo=UTC)
    _store_beside(database, at=future + timedelta(hours=1))
    for hours in (0, 1):
        store_receipt(database, ORDERS, ACCOUNT, Window.day(MARCH.last_day), at=future - timedelta(hours=hours))

    assert _load(database, [_order(1)]).finished_at == future + timedelta(microseconds=1)


def test_hashes_are_not_believed_while_days_of_the_slice_are_held(database: Database) -> None:
    amounts = []
    _load(database, [_order(1)])
    database.execute(text("UPDATE seller.orders SET order_total = 1"))
    _store_beside(database, verdict="held")
    for number in (2, 3):
        _load(database, [_order(1), _order(number)])
        amounts.append(_stored(database)[0][1])
        store_receipt(database, ORDERS, ACCOUNT, Window.day(MARCH.last_day), verdict="held")

    assert amounts == [1, 10]


def test_rows_that_others_deleted_are_no_doubt_if_a_month_is_as_loaded(database: Database) -> None:
    rows, judge = [_order(number, day=date(2026, 3, 10)) for number in range(40)], Judge({date(2026, 3, 10)})
    _store_beside(database, rows=40)
    _load(database, rows)
    _delete(database, rows[:20])

    for part in (MARCH.until(MARCH.last_day), MARCH.since(date(2026, 3, 2))):
        with pytest.raises(ImplausibleReadingError):
            _load(database, rows, window=part, judge=judge)
    assert "repaired" in (_load(database, rows, judge=judge).notes or {})


def test_a_report_is_compared_with_its_own_last_load(database: Database) -> None:
    day = Window.day(MARCH.start)
    receipts = []
    for report in ("7", "8", "6", "7"):
        with open_load(database, Slice(REPORT_ROWS, ACCOUNT, day, report)) as load:
            load.spool.write([(report, 1, "SKU", "Cup", 1, Decimal(5), str(day.start))], page=1)
            # The clock of the loader is ahead.
            facts, ahead = LoadFacts(1, 1, 0, None, CountVerdict.UNVERIFIABLE), datetime(2100, 1, 1, tzinfo=UTC)
            receipts.append(load.store(facts, started_at=ahead))

    assert [each.seconds for each in receipts] == [0.0] * 4
    assert [each.restatement for each in receipts] == [None, None, None, {}]
    assert [each.changed for each in receipts] == [True, True, True, False]


def test_a_value_that_postgresql_refuses_leaves_the_slice_as_it_was(database: Database) -> None:
    _load(database, [_order(1)])
    broken = (*_order(2)[:1], "2026-02-30T00:00:00Z", *_order(2)[2:])

    with pytest.raises(ContractViolationError, match=r"row 2, column purchase_date") as caught:
        _load(database, [_order(3), broken])

    assert "order-2" not in str(caught.value)
    assert [name for name, _ in _stored(database)] == ["order-1"]


def test_restarting_a_spool_forgets_the_attempt(database: Database) -> None:
    with open_load(database, Slice(ORDERS, ACCOUNT, MARCH)) as load:
        load.spool.write([_order(1)] * 100_000, tags=("platform",), page=1)
        load.spool.restart()
        load.spool.write([_order(2)], tags=("platform",), page=1)
        receipt = load.store(LoadFacts(1, 1, 0, 1, CountVerdict.MATCH), started_at=datetime.now(UTC))

    assert receipt.rows == 1
    assert [name for name, _ in _stored(database)] == ["order-2"]


def test_a_disk_filled_by_the_last_rows_is_reported_when_they_are_read(database: Database) -> None:
    """The last rows may still be in a buffer, which is written when they are read."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    with open_load(database, Slice(ORDERS, ACCOUNT, MARCH)) as load:
        load.spool.write([_order(1)] * 150_000, tags=("platform",), page=1)
        size = sum(len(chunk) for chunk in load.spool.chunks())
        load.spool.write([_order(2)], tags=("platform",), page=2)
        with pytest.raises(WarehouseError, check=lambda error: error.code == "SpoolError", match="make room there"):
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
                load.store(LoadFacts(1, 1, 0, 150_001, CountVerdict.MATCH), started_at=datetime.now(UTC))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    assert _stored(database) == []
