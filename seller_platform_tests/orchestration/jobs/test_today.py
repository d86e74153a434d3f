"""Tests the job that reads today's orders, and its schedule."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

import dagster as dg
import pytest

from seller_platform.clocks import using_clock
from seller_platform.contract import Window, dataset_named
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.jobs.today import SCHEDULE, today_definitions, today_slices
from seller_platform.orchestration.partitions import partition_key
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform_tests.support.http_upstream import BERLIN
from seller_platform_tests.support.independent_upstream import Rows
from seller_platform_tests.support.platform import (
    HISTORY_START,
    KEYS,
    ROW_COUNT,
    Platform,
    failure_of,
    lent_platform,
    newest_checks,
    reported_partitions,
)
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.receipts import receipts_of_run

ORDERS, INVENTORY = dataset_named("orders"), dataset_named("inventory")
FEBRUARY = Window.month_of(date(2026, 2, 1))
FRIDAY = datetime(2026, 2, 6, 12, tzinfo=UTC)


@dataclass
class Today:
    """The job over a platform whose accounts are discovered, with a clock that tests set."""

    platform: Platform
    now: datetime = FRIDAY
    job: dg.JobDefinition = field(init=False)

    def __post_init__(self) -> None:
        definitions = dg.Definitions.merge(
            today_definitions(),
            dg.Definitions(
                assets=[asset_for(ORDERS, HISTORY_START)],
                resources=self.platform.resources,
                executor=dg.in_process_executor,
            ),
        )
        self.job = definitions.resolve_job_def("read_orders_today")

    def read(self) -> dg.ExecuteInProcessResult:
        with using_clock(lambda: self.now):
            return self.job.execute_in_process(instance=self.platform.instance, raise_on_error=False)

    def receipts(self, result: dg.ExecuteInProcessResult) -> Sequence[Receipt]:
        return receipts_of_run(self.platform.database, result.run_id)


@pytest.fixture(scope="module")
def today(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Today]:
    with lent_platform(databases, tmp_path_factory.mktemp("today")) as platform:
        platform.discover()
        yield Today(platform)


def test_a_run_reads_the_local_today_of_every_account(today: Today, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = today.read(), today.read()
    monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", "1")
    without_requests = today.read()

    assert (first.success, again.success, without_requests.success) == (True, True, True)
    assert {(each.account, each.window) for each in today.receipts(first)} == {
        (key, Window.day(FRIDAY.date())) for key in KEYS
    }
    assert all(each.rows > 0 for each in today.receipts(first))
    assert reported_partitions(first) == {str(partition_key(key, FEBRUARY)) for key in KEYS}
    assert newest_checks(today.platform.instance, ORDERS)[ROW_COUNT].passed
    assert [each.changed for each in today.receipts(again)] == [False, False]
    assert reported_partitions(again) == set()
    assert today.receipts(without_requests) == ()


def test_an_unreadable_account_fails_by_name_and_others_are_read(today: Today, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(rows: Rows, seller: str) -> Rows:
        return [{"purchase_date": f"{today.now:%Y-%m-%d} noon"}] if seller == "A1FOREIGN" else rows

    monkeypatch.setitem(today.platform.upstream.changes, ORDERS.path, broken)
    today.now = FRIDAY + timedelta(days=2)

    result = today.read()

    assert f"today's orders of 1 account was not read: {KEYS[0]}." in failure_of(result)[0]
    assert [each.account for each in today.receipts(result)] == [KEYS[1]]


@pytest.mark.parametrize(
    ("now", "windows"),
    [
        (datetime(2026, 2, 6, 12, tzinfo=UTC), [("2026-02-06", "2026-02-07")]),
        # In Berlin it is 00:15 and then 00:30.
        (datetime(2026, 2, 5, 23, 15, tzinfo=UTC), [("2026-02-05", "2026-02-07")]),
        (datetime(2026, 2, 5, 23, 30, tzinfo=UTC), [("2026-02-06", "2026-02-07")]),
        (datetime(2026, 2, 28, 23, 0, tzinfo=UTC), [("2026-02-28", "2026-03-01"), ("2026-03-01", "2026-03-02")]),
    ],
)
def test_yesterday_is_read_with_today_soon_after_midnight(now: datetime, windows: list[tuple[str, str]]) -> None:
    account = KnownAccount("de-2", "default", BERLIN)
    zones = "Asia/Tokyo", "America/New_York"
    others = [KnownAccount(zone, "default", replace(BERLIN, timezone=zone)) for zone in zones]

    slices = today_slices([account], now)

    assert [(str(each.window.start), str(each.window.end)) for each in slices] == windows
    days = [each.window.start for each in today_slices(others, datetime(2026, 2, 6, 23, 30, tzinfo=UTC))]
    assert days == [date(2026, 2, 7), date(2026, 2, 6)]


def test_a_tick_requests_one_run(instance: dg.DagsterInstance) -> None:
    (schedule,) = today_definitions().schedules or ()
    assert isinstance(schedule, dg.ScheduleDefinition)

    def tick() -> tuple[int, str | None]:
        with dg.build_schedule_context(instance, scheduled_execution_time=datetime.now(UTC)) as context:
            data = schedule.evaluate_tick(context)
        return len(data.run_requests or ()), data.skip_message

    first = tick()
    run = dg.DagsterRun("job", tags={"dagster/schedule_name": SCHEDULE}, status=dg.DagsterRunStatus.STARTED)
    instance.add_run(run)

    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert first == (1, None)
    assert tick() == (0, "under way: the run of an earlier tick; the next tick reads the orders again")
