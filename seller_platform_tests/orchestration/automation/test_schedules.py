"""Tests what each schedule requests at which hour."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache

import dagster as dg
import pytest
import time_machine
from dagster._core.definitions.schedule_definition import ScheduleExecutionData

from seller_platform.contract import LISTS, Account, Dataset, Window, dataset_named
from seller_platform.errors import BudgetTooSmallError, RequestsUsedUpError
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.automation.schedules import CLOSED_MONTHS, schedule_definitions
from seller_platform.orchestration.partitions import add_accounts
from seller_platform.orchestration.placement import Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.orchestration.tags import ACCOUNT_TAG, CHANGED, REFRESH_TAG
from seller_platform.warehouse.connections.accounts import accounts, save_accounts
from seller_platform.warehouse.loads.refusals import keep_refusal, refusals
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.platform import HISTORY_START
from seller_platform_tests.support.receipts import store_receipts
from seller_platform_tests.support.stored_rows import connect_accounts

START = "dagster/asset_partition_range_start"
END = "dagster/asset_partition_range_end"
NAMES = sorted(dataset.name for dataset in LISTS)
SALES = tuple(dataset for dataset in LISTS if dataset.area == "sales")
STOCK = (dataset_named("inventory"),)
SINCE_JANUARY = Window(date(2026, 1, 1), date(2026, 5, 21))
AT = datetime(2026, 5, 20, 11, tzinfo=UTC)
LOS_ANGELES, BERLIN = "America/Los_Angeles", "Europe/Berlin"


@cache
def _definitions(history_start: date, read: Sequence[Dataset], cron: str | None) -> dg.Definitions:
    resources = dict.fromkeys(("warehouse", "seller_api"), dg.ResourceDefinition.none_resource())
    assets = dg.Definitions([asset_for(dataset, history_start) for dataset in LISTS], resources=resources)
    dated, undated = ([each.name for each in read if each.is_dated is is_dated] for is_dated in (True, False))
    chosen = {"refresh": dated + undated, "reread": dated, "snapshot": undated}
    settings = {name: {"datasets": names, "cron": cron} for name, names in chosen.items()}
    placement = Placement(schedules=type(Placement().schedules).model_validate(settings))
    return dg.Definitions.merge(schedule_definitions(history_start, LISTS, placement), assets)


@dataclass(frozen=True)
class Schedules:
    """The schedules over a warehouse, and the accounts that tests register."""

    database: Database
    instance: dg.DagsterInstance

    def register(self, zones: dict[str, str]) -> None:
        """Store accounts with these time zones, and add their partitions."""
        connect_accounts(
            self.database,
            [
                (key, Account(number, key, "US", "USD", zone, "MARKET", f"S{number}"))
                for number, (key, zone) in enumerate(zones.items())
            ],
        )
        add_accounts(self.instance, zones)

    def read(self, names: Sequence[str], account: str, window: Window, at: datetime) -> None:
        """Store receipts of successful loads."""
        store_receipts(self.database, names, account, window, at)

    def tick(
        self, schedule: str, at: datetime, read: Sequence[Dataset] = SALES, cron: str | None = None
    ) -> list[dg.RunRequest]:
        """Return the runs that a schedule of some datasets requests at a moment."""
        return list(self.ticked(schedule, at, read, cron=cron).run_requests or [])

    def ticked(
        self,
        schedule: str,
        at: datetime,
        read: Sequence[Dataset] = SALES,
        history_start: date = HISTORY_START,
        cron: str | None = None,
    ) -> ScheduleExecutionData:
        """Return what a schedule's tick at a moment comes to."""
        resources = {"warehouse": WarehouseResource(database_url=self.database.url)}
        definition = _definitions(history_start, read, cron).resolve_schedule_def(schedule)
        with dg.build_schedule_context(self.instance, scheduled_execution_time=at, resources=resources) as context:
            return definition.evaluate_tick(context)


@pytest.fixture
def schedules(database: Database, instance: dg.DagsterInstance) -> Iterator[Schedules]:
    yield Schedules(database, instance)
    instance.wipe()


def ranges(requests: Sequence[dg.RunRequest]) -> list[tuple[list[str], str, str]]:
    return [
        ([key.path[-1] for key in request.asset_selection or ()], request.tags[START], request.tags[END])
        for request in requests
    ]


def accounts_between(request: dg.RunRequest, listed: Sequence[str]) -> list[str]:
    first, last = (request.tags[tag].split("|")[0] for tag in (START, END))
    return list(listed[listed.index(first) : listed.index(last) + 1])


def test_only_days_that_may_have_changed_are_requested(schedules: Schedules) -> None:
    schedules.register({"us-1": LOS_ANGELES, "us-2": BERLIN})
    for account in ("us-1", "us-2"):
        schedules.read(NAMES, account, SINCE_JANUARY.until(date(2026, 5, 20)), AT - timedelta(days=1))

    of_both = schedules.tick("refresh", AT)
    schedules.read(NAMES, "us-2", SINCE_JANUARY, AT + timedelta(minutes=5))
    of_one = schedules.tick("refresh", AT + timedelta(hours=1))
    schedules.read(NAMES, "us-1", SINCE_JANUARY, AT + timedelta(hours=1, minutes=5))
    of_none = schedules.tick("refresh", AT + timedelta(hours=3))

    lookback_14, lookback_30 = ["transactions"], sorted({each.name for each in SALES} - {"transactions"})
    assert sorted((sorted(names), first, last) for names, first, last in ranges(of_both)) == [
        (lookback_30, "us-1|2026-04-01", "us-2|2026-05-01"),
        (lookback_14, "us-1|2026-05-01", "us-2|2026-05-01"),
    ]
    assert all(request.tags[REFRESH_TAG] == CHANGED for request in of_both)
    assert len({request.run_key for request in of_both}) == len(of_both)
    assert {request.tags[ACCOUNT_TAG] for request in of_one} == {"us-1"}
    assert {(first, last) for _, first, last in ranges(of_one)} == {
        ("us-1|2026-04-01", "us-1|2026-05-01"),
        ("us-1|2026-05-01", "us-1|2026-05-01"),
    }
    assert of_none == []


def test_no_zone_is_missed_and_none_is_read_for_two_days_at_once(schedules: Schedules) -> None:
    zones = {"us-1": LOS_ANGELES, "us-2": "Asia/Tokyo", "us-3": "Pacific/Auckland"}
    schedules.register(zones)

    def due(at: datetime, cron: str | None = None) -> set[str]:
        requests = schedules.tick("refresh", at, STOCK, cron)
        return {key for request in requests for key in accounts_between(request, list(zones))}

    # The first tick requests all accounts, each for its own day. At the next tick Tokyo has its next day.
    assert [due(AT.replace(hour=hour)) for hour in (11, 14, 18)] == [set(zones), {"us-1", "us-2"}, {"us-1"}]
    # A component may have its first tick at another hour.
    assert [due(AT.replace(hour=hour), "0 14,18 * * *") for hour in (14, 18)] == [set(zones), {"us-1", "us-3"}]
    # In Auckland it is summer and already the 21st.
    assert due(datetime(2026, 12, 20, 11, tzinfo=UTC)) == set(zones)


def test_rows_that_an_upstream_may_not_compute_are_probed_by_one_month(schedules: Schedules) -> None:
    schedules.register({"us-1": LOS_ANGELES})

    before = ranges(schedules.tick("refresh", AT))
    schedules.read(["sales_by_date"], "us-1", Window(date(2026, 5, 1), date(2026, 5, 21)), AT)
    after = ranges(schedules.tick("refresh", AT + timedelta(hours=1)))

    assert (["sales_by_product", "sales_by_date"], "us-1|2026-05-01", "us-1|2026-05-01") in before
    assert (["sales_by_date"], "us-1|2026-01-01", "us-1|2026-04-01") in after


def test_a_tick_requests_at_most_a_hundred_runs_of_the_newest_months(schedules: Schedules) -> None:
    schedules.register({f"us-{10000 + number}": BERLIN for number in range(1_000)})

    requests = schedules.tick("refresh", datetime(2026, 11, 20, 11, tzinfo=UTC))

    assert len(requests) == 100
    assert {last.split("|")[1] for _, _, last in ranges(requests)} == {f"2026-{month:02}-01" for month in range(3, 12)}
    assert {name for names, _, _ in ranges(requests) for name in names} == {dataset.name for dataset in SALES}


def test_retired_accounts_and_those_of_runs_under_way_are_left_out(schedules: Schedules) -> None:
    schedules.register(dict.fromkeys(["A", "B", "C"], BERLIN))
    kept = [(account.key, account.account) for account in accounts(schedules.database) if account.key != "B"]
    save_accounts(schedules.database, "default", [*kept, ("D", kept[0][1])])
    at = datetime.now(UTC).replace(hour=11)

    requests = schedules.tick("refresh", at, STOCK)
    tags = {"dagster/schedule_name": "refresh"}
    schedules.instance.add_run(dg.DagsterRun("job", tags=tags, status=dg.DagsterRunStatus.STARTED))

    assert [(first, last) for _, first, last in ranges(requests)] == [("A", "A"), ("C", "C")]
    assert schedules.tick("refresh", at, STOCK) == []
    assert schedules.tick("snapshot", at, STOCK) != []
    with time_machine.travel(at + timedelta(days=2)):  # the run counts as lost
        assert schedules.tick("refresh", at + timedelta(days=2), STOCK) != []


def test_closed_months_of_the_local_calendar_are_read_again_as_a_whole(schedules: Schedules) -> None:
    schedules.register({"us-1": LOS_ANGELES, "us-2": "Pacific/Kiritimati", "us-3": BERLIN})
    at = datetime(2026, 5, 31, 13, tzinfo=UTC)
    for account in ("us-1", "us-2"):
        schedules.read(["orders"], account, Window(date(2026, 1, 1), date(2026, 5, 31)), at - timedelta(days=1))

    requests = schedules.tick("reread", at)

    assert CLOSED_MONTHS == 3
    assert ranges(requests) == [
        (["orders"], "us-2|2026-05-01", "us-2|2026-05-01"),
        (["orders"], "us-1|2026-03-01", "us-2|2026-04-01"),
        (["orders"], "us-1|2026-02-01", "us-1|2026-02-01"),
    ]
    assert all(REFRESH_TAG not in request.tags for request in requests)


def test_hourly_snapshots_leave_requests_to_a_refresh(schedules: Schedules, monkeypatch: pytest.MonkeyPatch) -> None:
    schedules.register({"A": LOS_ANGELES})
    schedules.read(NAMES, "A", SINCE_JANUARY.until(date(2026, 5, 20)), AT - timedelta(days=1))
    monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", "1")
    before_it = schedules.ticked("snapshot", AT.replace(hour=3, minute=30), STOCK)
    schedules.read(NAMES, "A", Window.day(date(2026, 5, 20)), AT + timedelta(minutes=5))
    after_it = schedules.tick("snapshot", AT.replace(minute=30), STOCK)
    monkeypatch.delenv("SELLER_API_REQUESTS_PER_DAY")
    schedules.register({"A": LOS_ANGELES, "B": BERLIN})
    both = schedules.tick("snapshot", AT.replace(minute=30), STOCK)

    assert [(first, last) for _, first, last in ranges(both)] == [("A", "B")]
    assert str(before_it.skip_message).startswith("1 slice waits, the first is inventory of A")
    assert len(after_it) == 1
    status = {each.name: each.default_status for each in schedule_definitions(HISTORY_START).schedules or ()}
    running, stopped = dg.DefaultScheduleStatus.RUNNING, dg.DefaultScheduleStatus.STOPPED
    assert status == {"refresh": running, "reread": running, "snapshot": stopped}


def test_a_slice_that_no_day_suffices_for_is_a_problem(schedules: Schedules, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", "96")
    schedules.register({"us-1": BERLIN})
    at, march = datetime(2026, 3, 20, 11, tzinfo=UTC), Window.month_of(date(2026, 3, 1))
    spent = RequestsUsedUpError("default", per_day=96, renews_at=at, sent=96)
    for dataset in SALES:
        keep_refusal(schedules.database, dataset, "us-1", march, spent, run_id=None)

    result = schedules.ticked("refresh", at, history_start=march.start)

    assert "may send 96 a day" in str(result.skip_message)
    stored = {each.error for of_pair in refusals(schedules.database).values() for each in of_pair}
    assert stored == {BudgetTooSmallError.__name__}
