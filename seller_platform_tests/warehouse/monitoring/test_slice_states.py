"""Tests the states of accounts' months, and which days were restated."""

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import text

from seller_platform.contract import REFRESHED, Account, Window, dataset_named
from seller_platform.errors import CheckFailedError, NotOfferedError, RequestsUsedUpError
from seller_platform.warehouse.loads.history_start import keep_history_start
from seller_platform.warehouse.loads.receipts import offered_pairs
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform.warehouse.monitoring.metrics import activity_since
from seller_platform.warehouse.monitoring.slice_states import SliceState, slice_states
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform_tests.support.receipts import mark_loaded, store_receipt
from seller_platform_tests.support.slices_of_receipts import fill_slices
from seller_platform_tests.support.stored_rows import connect_accounts, execute, store_slice

NOON = datetime(2026, 4, 10, 12, tzinfo=UTC)
SINCE = date(2026, 2, 10)
FEBRUARY, MARCH, APRIL = (Window.month_of(date(2026, month, 1)) for month in (2, 3, 4))
DATED = [dataset for dataset in REFRESHED if dataset.is_dated and not dataset.is_computed]
ORDERS, INVENTORY = dataset_named("orders"), dataset_named("inventory")
KEYS = ("de-1", "de-2")


@pytest.fixture(autouse=True)
def _listed(database: Database) -> None:
    account = Account(1, "Shop", "DE", "EUR", "UTC", "DE", "A")
    connect_accounts(database, [(key, account) for key in KEYS])
    keep_history_start(database, SINCE)


def _states(database: Database) -> Mapping[str, list[str]]:
    states = slice_states(database, since=SINCE, now=NOON)
    assert [f"{month.start:%Y-%m}" for month in states.months] == ["2026-02", "2026-03", "2026-04"]
    return {key: list(states.months_of(key)) for key in KEYS}


def test_the_days_of_history_make_a_month_whole(database: Database) -> None:
    for dataset in DATED:
        mark_loaded(database, dataset, "de-1", FEBRUARY.since(SINCE), MARCH, APRIL)
        mark_loaded(database, dataset, "de-2", MARCH.until(date(2026, 3, 9)), MARCH.since(date(2026, 3, 9)))
    keep_refusal(database, ORDERS, "de-2", MARCH, CheckFailedError("it was away"), run_id=None)

    states = _states(database)

    assert states["de-1"] == [SliceState.LOADED] * 3
    assert states["de-2"] == [SliceState.MISSING, SliceState.FAILED, SliceState.MISSING]


def test_one_day_or_one_dataset_that_lacks_makes_a_month_incomplete(database: Database) -> None:
    for dataset in DATED:
        mark_loaded(database, dataset, "de-1", FEBRUARY, MARCH, APRIL)
        mark_loaded(database, dataset, "de-2", FEBRUARY, MARCH, APRIL)
    of_orders, of_february = f"'orders' AND window_start = '{MARCH.start}'", f"window_start = '{FEBRUARY.start}'"
    execute(database, f"DELETE FROM platform.loads WHERE account = 'de-1' AND dataset = {of_orders}")
    execute(database, f"UPDATE platform.loads SET window_end = '2026-02-28' WHERE account = 'de-2' AND {of_february}")
    execute(database, "DELETE FROM platform.slices")
    with database.begin() as connection:
        fill_slices(driver_of(connection))
    mark_loaded(database, ORDERS, "de-2", FEBRUARY)

    states = _states(database)

    assert states["de-1"] == [SliceState.LOADED, SliceState.INCOMPLETE, SliceState.LOADED]
    assert states["de-2"] == [SliceState.INCOMPLETE, SliceState.LOADED, SliceState.LOADED]


def test_what_is_not_offered_is_failed_where_another_account_has_it(database: Database) -> None:
    by_date = dataset_named("sales_by_date")
    keep_refusal(database, by_date, "de-1", MARCH, NotOfferedError("sales_by_date", "/sales/by-date", 404), run_id=None)

    def kinds() -> set[str]:
        found = database.execute(
            text("SELECT kind FROM platform.problems WHERE dataset = 'sales_by_date' AND account = 'de-1'")
        )
        return set(found.scalars())

    assert kinds() == set()

    mark_loaded(database, by_date, "de-2", MARCH)
    assert "failed" in kinds()
    assert offered_pairs(database, [by_date]) == {("sales_by_date", key) for key in KEYS}


def test_a_slice_is_what_all_its_receipts_say(database: Database) -> None:
    chance = random.Random(1)
    kinds: Sequence[tuple[str, str | None, str | None, Mapping[str, object] | None]] = [
        *(("match", zone, "EUR", None) for zone in ("UTC", "UTC", "Asia/Tokyo")),
        ("match", "UTC", "JPY", {"moved": {}}),
        ("mismatch", "UTC", "EUR", None),
        ("unverifiable", None, None, {"reverts_load": 1}),
        *[("held", "UTC", "EUR", None)] * 2,
    ]
    for number in range(300):
        first, at = date(2026, 4, chance.randint(1, 22)), NOON + timedelta(hours=chance.randint(-500, 100))
        part, today = (
            Window(first, first + timedelta(days=chance.randint(1, 8))),
            Window.day(date(2026, 4, 1 + number // 10)),
        )
        dataset, window = chance.choice([(ORDERS, part), (ORDERS, part), (ORDERS, APRIL), (INVENTORY, today)])
        columns = zip(("verdict", "time_zone", "currency", "notes"), chance.choice(kinds), strict=True)
        store_receipt(database, dataset, f"S{number % 50}", window, at=at, rows=number, **dict(columns))

    def slices() -> list[str]:
        row = "to_jsonb(slice) - ARRAY['since', 'transaction_id', CASE WHEN month IS NOT NULL THEN 'rows' END]"
        return [*database.execute(text(f"SELECT ({row})::text FROM platform.slices AS slice ORDER BY 1")).scalars()]

    kept = slices()
    execute(database, "DELETE FROM platform.slices")
    with database.begin() as connection:
        fill_slices(driver_of(connection))
    assert kept == slices()


def test_what_should_have_been_read_is_missing_incomplete_or_late(database: Database) -> None:
    """26 hours before noon of 10 April the 9th was not over, so that it need not have been read."""
    begun, today, until_8th = FEBRUARY.since(SINCE), Window.day(NOON.date()), APRIL.until(date(2026, 4, 9))
    outage, used_up = CheckFailedError("it was away"), RequestsUsedUpError("default", per_day=1, renews_at=NOON)
    late = ["failed formerly", "failed lately", "later"]
    read = {
        "a day of April": (begun, MARCH, until_8th.until(date(2026, 4, 8)), today),
        "a day of February": (FEBRUARY.since(date(2026, 2, 11)), MARCH, APRIL),
        "late": (begun, MARCH, until_8th),
        "until the 8th": (begun, MARCH, until_8th, today),
        **dict.fromkeys(["failed", "held", "waits"], (begun, APRIL)),
        **dict.fromkeys(["never", "retired", "unusable"], ()),
        **dict.fromkeys([*late, "whole"], (begun, MARCH, APRIL)),
    }
    connect_accounts(database, [(key, Account(1, key, "DE", "EUR", "UTC", "DE", key)) for key in read])
    execute(database, "UPDATE platform.accounts SET retired_at = now() WHERE key = 'retired'")
    store_receipt(database, dataset_named("accounts"), "default", today, notes={"unusable_accounts": {"unusable": ""}})
    for key, windows in read.items():
        for dataset, window in [(INVENTORY, today), *((ORDERS, each) for each in windows)] if windows else ():
            store_receipt(database, dataset, key, window, at=NOON - timedelta(hours=26 + (key in late)))
    for key, month in {"failed": MARCH, "failed formerly": FEBRUARY, "failed lately": APRIL}.items():
        keep_refusal(database, ORDERS, key, month, outage, run_id=None)
    for key in ("never", "waits"):
        keep_refusal(database, ORDERS, key, MARCH, used_up, run_id=None)
    store_receipt(database, ORDERS, "held", MARCH, at=NOON, verdict="held")
    store_receipt(database, ORDERS, "whole", Window.day(APRIL.start), at=NOON)  # the days until today stay read

    def unread(dataset: str) -> list[tuple[object, ...]]:
        query = "SELECT account, kind, to_char(month, 'Mon') FROM platform.unread_slices(:noon, :since) "
        rows = text(f"{query} WHERE dataset = :dataset AND account <> 'de-2' ORDER BY account, kind, month")
        return [*database.execute(rows, {"noon": NOON, "since": SINCE, "dataset": dataset}).tuples()]

    assert unread("orders") == [
        ("a day of April", "incomplete", "Apr"),
        ("a day of February", "incomplete", "Feb"),
        ("failed formerly", "late", None),
        ("late", "late", None),
        ("later", "late", None),
        *(("never", "missing", month) for month in ("Feb", "Mar", "Apr")),
        ("waits", "missing", "Mar"),
    ]
    assert unread("inventory") == [*((key, "late", None) for key in late), ("never", "missing", None)]


def test_only_days_that_had_been_read_when_they_were_over_are_restated(database: Database) -> None:
    def load(window: Window, totals: Mapping[str, tuple[str, str]], at: datetime) -> None:
        rows = [
            (name, f"{day}T10:00:00Z", "Shipped", Decimal(total), "EUR", 1, "SKU", "A", "Cup", day)
            for name, (day, total) in totals.items()
        ]
        store_slice(database, ORDERS, window, rows, "de-1", at=at)

    kept, old, new = ("2026-04-01", "5.00"), ("2026-04-01", "7.00"), ("2026-04-09", "3.00")
    load(APRIL, {"kept": kept, "changed": old}, NOON - timedelta(days=2))
    load(APRIL, {"kept": kept, "changed": ("2026-04-01", "4.50"), "new": new}, NOON)

    activity = activity_since(database, NOON - timedelta(days=1))

    (restated,) = activity.restatements
    assert (restated.dataset, restated.account) == ("orders", "de-1")
    assert (restated.first_day, restated.last_day) == (date(2026, 4, 1), date(2026, 4, 1))
    assert (restated.rows_came, restated.rows_went) == (1, 1)
    assert (restated.amount, restated.amount_name) == (Decimal("-2.50"), "order_total EUR")
    assert (activity.loads, activity.rows_came) == (1, 2)
