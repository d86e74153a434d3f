"""Tests what each schedule requests at which hour, and that its runs read it."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from time import process_time
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
from dagster._core.definitions.schedule_definition import ScheduleExecutionData
from sqlalchemy import insert

from seller_platform.contract import LISTS, Account, Window, dataset_named
from seller_platform.errors import BudgetTooSmallError, RequestsUsedUpError
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.automation.schedules import CLOSED_MONTHS, schedule_definitions
from seller_platform.orchestration.partitions import add_accounts
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.orchestration.tags import ACCOUNT_TAG, CHANGED, REFRESH_TAG
from seller_platform.warehouse.connections.accounts import KnownConnection, accounts, save_accounts, save_connection
from seller_platform.warehouse.connections.sent_requests import take_requests
from seller_platform.warehouse.loads.refusals import keep_refusal, refusals
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import LOADS
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.platform import HISTORY_START, Platform

pytestmark = pytest.mark.dagster_tables

START = "dagster/asset_partition_range_start"
END = "dagster/asset_partition_range_end"
NAMES = sorted(dataset.name for dataset in LISTS)
SALES = [dataset for dataset in LISTS if dataset.area == "sales"]


def register(database: Database, instance: dg.DagsterInstance, zones: dict[str, str]) -> None:
    save_connection(database, KnownConnection("default", "http://api", "http://api", "client"))
    listed = [
        (key, Account(number, key, "US", "USD", zone, "MARKET", f"S{number}"))
        for number, (key, zone) in enumerate(zones.items())
    ]
    save_accounts(database, "default", listed)
    add_accounts(instance, zones)


def read(database: Database, names: Sequence[str], account: str, window: Window, at: datetime) -> None:
    """Store receipts of successful loads."""
    counts = dict.fromkeys(("requests", "pages", "body_bytes", "announced", "rows"), 0)
    common = {**counts, "digest": b"", "verdict": "match", "changed": True, "started_at": at, "finished_at": at}
    with database.begin() as connection:
        connection.execute(
            insert(LOADS),
            [
                {
                    **common,
                    "dataset": name,
                    "account": account,
                    "window_start": part.start,
                    "window_end": part.end,
                }
                for name in names
                for part in window.months()
            ],
        )


def tick(
    schedule: str, at: datetime, instance: dg.DagsterInstance, database_url: str, history_start: date = HISTORY_START
) -> list[dg.RunRequest]:
    """Return the runs that a schedule requests at a moment."""
    return list(ticked(schedule, at, instance, database_url, history_start).run_requests or [])


def ticked(
    schedule: str, at: datetime, instance: dg.DagsterInstance, database_url: str, history_start: date = HISTORY_START
) -> ScheduleExecutionData:
    """Return what a schedule's tick at a moment comes to."""
    assets = dg.Definitions([asset_for(dataset, history_start) for dataset in LISTS])
    resources = dg.Definitions(
        resources={
            "warehouse": WarehouseResource(database_url=database_url),
            "seller_api": dg.ResourceDefinition.none_resource(),
        }
    )
    definitions = dg.Definitions.merge(schedule_definitions(history_start, LISTS), assets, resources)
    definition = definitions.resolve_schedule_def(schedule)
    with dg.build_schedule_context(
        instance, scheduled_execution_time=at, resources={"warehouse": WarehouseResource(database_url=database_url)}
    ) as context:
        return definition.evaluate_tick(context)


def ranges(requests: Sequence[dg.RunRequest]) -> list[tuple[list[str], str, str]]:
    return [
        ([key.path[-1] for key in request.asset_selection or ()], request.tags[START], request.tags[END])
        for request in requests
    ]


def accounts_between(request: dg.RunRequest, listed: Sequence[str]) -> list[str]:
    first, last = (request.tags[tag].split("|")[0] for tag in (START, END))
    return list(listed[listed.index(first) : listed.index(last) + 1])


@pytest.mark.slow
def test_a_refresh_requests_runs_that_read_what_was_never_read(
    platform: Platform, database_url: str, instance: dg.DagsterInstance
) -> None:
    platform.instance = instance
    platform.discover()
    at = datetime(2026, 3, 20, 11, tzinfo=UTC)

    requests = tick("refresh_sales", at, instance, database_url)
    for request in requests:
        result = dg.materialize(
            list(platform.assets.values()),
            selection=list(request.asset_selection or ()),
            instance=instance,
            resources=platform.resources,
            tags=request.tags,
        )
        assert result.success

    months = {f"{key}|{month}" for key in independent_upstream.KEYS.values() for month in independent_upstream.MONTHS}
    for name in ("orders", "daily_product_sales", "transactions"):
        assert platform.materialized(dataset_named(name)) == months
    # Everything has been read. This upstream does not compute statistics, so their newest month is requested again.
    again = tick("refresh_sales", at, instance, database_url)
    assert {name for names, _, _ in ranges(again) for name in names} == {"sales_by_product", "sales_by_date"}


def test_only_months_with_days_that_may_have_changed_are_requested(
    database: Database, database_url: str, instance: dg.DagsterInstance
) -> None:
    register(database, instance, {"A.US": "America/Los_Angeles", "B.DE": "Europe/Berlin"})
    yesterday = datetime(2026, 5, 19, 11, tzinfo=UTC)
    for account in ("A.US", "B.DE"):
        names = [dataset.name for dataset in SALES]
        read(database, names, account, Window(date(2026, 1, 1), date(2026, 5, 20)), yesterday)

    requests = tick("refresh_sales", yesterday + timedelta(days=1), instance, database_url)

    lookback_14, lookback_30 = ["transactions"], sorted({each.name for each in SALES} - {"transactions"})
    assert sorted((sorted(names), first, last) for names, first, last in ranges(requests)) == [
        (lookback_30, "A.US|2026-04-01", "B.DE|2026-05-01"),
        (lookback_14, "A.US|2026-05-01", "B.DE|2026-05-01"),
    ]
    assert all(request.tags[REFRESH_TAG] == CHANGED for request in requests)
    assert len({request.run_key for request in requests}) == len(requests)


def test_a_later_tick_requests_only_accounts_that_the_first_did_not_load(
    database: Database, database_url: str, instance: dg.DagsterInstance
) -> None:
    register(database, instance, {"A.US": "America/Los_Angeles", "B.DE": "Europe/Berlin"})
    first_tick = datetime(2026, 5, 20, 11, tzinfo=UTC)
    everything = Window(date(2026, 1, 1), date(2026, 5, 21))
    read(database, NAMES, "B.DE", everything, first_tick + timedelta(minutes=5))
    read(database, NAMES, "A.US", everything.until(date(2026, 5, 20)), first_tick - timedelta(days=1))

    requests = tick("refresh_sales", first_tick + timedelta(hours=1), instance, database_url)

    assert {request.tags[ACCOUNT_TAG] for request in requests} == {"A.US"}
    assert {(first, last) for _, first, last in ranges(requests)} == {
        ("A.US|2026-04-01", "A.US|2026-05-01"),
        ("A.US|2026-05-01", "A.US|2026-05-01"),
    }
    read(database, NAMES, "A.US", everything, first_tick + timedelta(hours=1, minutes=5))
    assert tick("refresh_sales", first_tick + timedelta(hours=3), instance, database_url) == []


@pytest.mark.parametrize(
    ("at", "due"),
    [
        # The first tick requests all accounts, each for its own day. At the next tick Tokyo has its next day.
        (datetime(2026, 5, 20, 11, tzinfo=UTC), {"A.US", "B.JP", "C.NZ"}),
        (datetime(2026, 5, 20, 14, tzinfo=UTC), {"A.US", "B.JP"}),
        (datetime(2026, 5, 20, 18, tzinfo=UTC), {"A.US"}),
        # In Auckland it is summer and already the 21st.
        (datetime(2026, 12, 20, 11, tzinfo=UTC), {"A.US", "B.JP", "C.NZ"}),
    ],
)
def test_no_zone_is_missed_and_none_is_read_for_two_days_at_once(
    at: datetime, due: set[str], database: Database, database_url: str, instance: dg.DagsterInstance
) -> None:
    zones = {"A.US": "America/Los_Angeles", "B.JP": "Asia/Tokyo", "C.NZ": "Pacific/Auckland"}
    register(database, instance, zones)

    requests = tick("refresh_inventory", at, instance, database_url)

    assert {key for request in requests for key in accounts_between(request, list(zones))} == due


@pytest.mark.parametrize(
    ("zone", "read_at", "tick_at", "due"),
    [
        # In Los Angeles, 8 March has 23 hours, because clocks change from 02:00 to 03:00; 1 November has 25.
        ("America/Los_Angeles", datetime(2026, 3, 8, 7, 59, tzinfo=UTC), datetime(2026, 3, 8, 11, tzinfo=UTC), True),
        ("America/Los_Angeles", datetime(2026, 3, 8, 8, 1, tzinfo=UTC), datetime(2026, 3, 8, 11, tzinfo=UTC), False),
        ("America/Los_Angeles", datetime(2026, 3, 8, 8, 1, tzinfo=UTC), datetime(2026, 3, 9, 11, tzinfo=UTC), True),
        ("America/Los_Angeles", datetime(2026, 11, 1, 7, 1, tzinfo=UTC), datetime(2026, 11, 1, 18, tzinfo=UTC), False),
        ("Asia/Tokyo", datetime(2026, 5, 19, 14, 59, tzinfo=UTC), datetime(2026, 5, 20, 11, tzinfo=UTC), True),
        ("Asia/Tokyo", datetime(2026, 5, 19, 15, 1, tzinfo=UTC), datetime(2026, 5, 20, 11, tzinfo=UTC), False),
    ],
)
def test_a_snapshot_is_taken_once_a_local_day(  # noqa: PLR0917  # its cases and its fixtures
    zone: str,
    read_at: datetime,
    tick_at: datetime,
    due: bool,
    database: Database,
    database_url: str,
    instance: dg.DagsterInstance,
) -> None:
    register(database, instance, {"A": zone})
    read(database, ["inventory"], "A", Window.day(read_at.astimezone(ZoneInfo(zone)).date()), read_at)

    requests = tick("refresh_inventory", tick_at, instance, database_url)

    assert [(first, last) for _, first, last in ranges(requests)] == ([("A", "A")] if due else [])


def test_rows_that_an_upstream_may_not_compute_are_probed_by_one_month(
    database: Database, database_url: str, instance: dg.DagsterInstance
) -> None:
    register(database, instance, {"A.US": "America/Los_Angeles"})
    at = datetime(2026, 5, 20, 11, tzinfo=UTC)

    before = ranges(tick("refresh_sales", at, instance, database_url))
    read(database, ["sales_by_date"], "A.US", Window(date(2026, 5, 1), date(2026, 5, 21)), at)
    after = ranges(tick("refresh_sales", at + timedelta(hours=1), instance, database_url))

    assert (["sales_by_product", "sales_by_date"], "A.US|2026-05-01", "A.US|2026-05-01") in before
    assert (["sales_by_date"], "A.US|2026-01-01", "A.US|2026-04-01") in after


@pytest.mark.nightly
def test_a_thousand_accounts_make_few_runs(database: Database, database_url: str, instance: dg.DagsterInstance) -> None:
    zones = ("America/Los_Angeles", "Europe/Berlin", "Asia/Tokyo", "Europe/London")
    keys = [f"SELLER{number:04}.MARKET" for number in range(1_000)]
    register(database, instance, {key: zones[number % 4] for number, key in enumerate(keys)})
    yesterday = datetime(2026, 5, 19, 11, tzinfo=UTC)
    for number, key in enumerate(keys):
        if number != 500:  # an account that is new today
            read(database, NAMES, key, Window(date(2026, 1, 1), date(2026, 5, 20)), yesterday)
    began = process_time()

    sales = tick("refresh_sales", yesterday + timedelta(days=1), instance, database_url)
    inventory = tick("refresh_inventory", yesterday + timedelta(days=1), instance, database_url)

    assert process_time() - began < 30
    assert (len(sales), len(inventory)) == (52, 10)
    months = [last.split("|")[1] for _, _, last in ranges(sales)]
    assert months == sorted(months, reverse=True)
    covered = [key for request in inventory for key in accounts_between(request, keys)]
    assert covered == keys


def test_a_tick_requests_at_most_a_hundred_runs_of_the_newest_months(
    database: Database, database_url: str, instance: dg.DagsterInstance
) -> None:
    zones = {f"SELLER{number:04}.MARKET": "Europe/Berlin" for number in range(1_000)}
    register(database, instance, zones)
    at = datetime(2026, 11, 20, 11, tzinfo=UTC)

    requests = tick("refresh_sales", at, instance, database_url)

    assert len(requests) == 100
    assert {last.split("|")[1] for _, _, last in ranges(requests)} == {f"2026-{month:02}-01" for month in range(3, 12)}
    assert {name for names, _, _ in ranges(requests) for name in names} == {dataset.name for dataset in SALES}


def test_retired_accounts_and_those_without_partitions_are_left_out(
    database: Database, database_url: str, instance: dg.DagsterInstance
) -> None:
    register(database, instance, dict.fromkeys(["A", "B", "C"], "Europe/Berlin"))
    kept = [(account.key, account.account) for account in accounts(database) if account.key != "B"]
    save_accounts(database, "default", [*kept, ("D", kept[0][1])])

    requests = tick("refresh_inventory", datetime(2026, 5, 20, 11, tzinfo=UTC), instance, database_url)

    assert [(first, last) for _, first, last in ranges(requests)] == [("A", "A"), ("C", "C")]


def test_closed_months_of_the_local_calendar_are_read_again_as_a_whole(
    database: Database, database_url: str, instance: dg.DagsterInstance
) -> None:
    register(database, instance, {"A.US": "America/Los_Angeles", "B.NZ": "Pacific/Kiritimati", "C.DE": "Europe/Berlin"})
    at = datetime(2026, 5, 31, 13, tzinfo=UTC)
    for account in ("A.US", "B.NZ"):
        read(database, ["orders"], account, Window(date(2026, 1, 1), date(2026, 5, 31)), at - timedelta(days=1))

    requests = tick("reread_sales", at, instance, database_url)

    assert CLOSED_MONTHS == 3
    assert ranges(requests) == [
        (["orders"], "B.NZ|2026-05-01", "B.NZ|2026-05-01"),
        (["orders"], "A.US|2026-03-01", "B.NZ|2026-04-01"),
        (["orders"], "A.US|2026-02-01", "A.US|2026-02-01"),
    ]
    assert all(REFRESH_TAG not in request.tags for request in requests)


def test_a_tick_waits_for_the_runs_of_the_tick_before(
    database: Database, database_url: str, instance: dg.DagsterInstance
) -> None:
    register(database, instance, {"A": "Europe/Berlin"})
    at = datetime.now(UTC).replace(hour=11)
    tags = {"dagster/schedule_name": "refresh_inventory"}
    instance.add_run(dg.DagsterRun("job", tags=tags, status=dg.DagsterRunStatus.STARTED))

    assert tick("refresh_inventory", at, instance, database_url) == []
    assert tick("refresh_inventory", at + timedelta(days=2), instance, database_url) != []
    assert tick("refresh_sales", at, instance, database_url) != []


def test_snapshots_are_taken_every_hour_where_that_is_switched_on(
    database: Database, database_url: str, instance: dg.DagsterInstance
) -> None:
    register(database, instance, {"A": "Europe/Berlin", "B": "Europe/Berlin"})
    at = datetime(2026, 5, 20, 11, 30, tzinfo=UTC)
    read(database, NAMES, "A", Window.day(date(2026, 5, 20)), at - timedelta(minutes=5))

    hourly = tick("snapshot_inventory_hourly", at, instance, database_url)

    assert [(first, last) for _, first, last in ranges(hourly)] == [("A", "B")]
    status = {each.name: each.default_status for each in schedule_definitions(HISTORY_START).schedules or ()}
    stopped = {name for name, default in status.items() if default is dg.DefaultScheduleStatus.STOPPED}
    assert stopped == {name for name in status if name.endswith("_hourly")}
    assert set(status) >= {f"refresh_{dataset.area}" for dataset in LISTS} | {"refresh_costs"}
    assert not any("reports" in name or name == "snapshot_costs_hourly" for name in status)


def test_hourly_snapshots_leave_the_requests_of_a_later_refresh(
    database: Database, database_url: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(database, instance, {"A.US": "America/Los_Angeles"})
    first_tick = datetime(2026, 5, 20, 11, tzinfo=UTC)
    read(database, NAMES, "A.US", Window(date(2026, 1, 1), date(2026, 5, 20)), first_tick - timedelta(days=1))
    monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", "1")

    before_it = ticked("snapshot_inventory_hourly", first_tick.replace(hour=3, minute=30), instance, database_url)
    read(database, NAMES, "A.US", Window.day(date(2026, 5, 20)), first_tick + timedelta(minutes=5))
    after_it = ticked("snapshot_inventory_hourly", first_tick.replace(minute=30), instance, database_url)

    assert str(before_it.skip_message).startswith("1 slice waits, the first is inventory of A.US")
    assert len(after_it.run_requests or ()) == 1


@pytest.mark.parametrize("sent", [96, 0], ids=["used up", "too small"])
def test_a_tick_without_a_fitting_slice_names_count_and_reason(
    sent: int,
    database: Database,
    database_url: str,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", "96")
    register(database, instance, {"A.DE": "Europe/Berlin"})
    at, march = datetime(2026, 3, 20, 11, tzinfo=UTC), Window.month_of(date(2026, 3, 1))
    for dataset in SALES if sent == 0 else ():
        error = RequestsUsedUpError("default", per_day=96, renews_at=at, sent=96)
        keep_refusal(database, dataset, "A.DE", march, error, run_id=None)
    take_requests(database, "default", [at.date()], sent, per_day=96)

    result = ticked("refresh_sales", at, instance, database_url, march.start)

    assert result.run_requests == []
    assert str(result.skip_message).startswith(f"{len(SALES)} slices wait, the first is {SALES[0].name} of A.DE")
    assert ("renews at" if sent else "may send 96 a day") in str(result.skip_message)
    assert {each.error for of_pair in refusals(database).values() for each in of_pair} == (
        {BudgetTooSmallError.__name__} if sent == 0 else set()
    )
