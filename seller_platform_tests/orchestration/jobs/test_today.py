"""Tests the job that reads today's orders, and its schedule."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.jobs.today import SCHEDULE, today_definitions, today_slices
from seller_platform.orchestration.partitions import partition_key
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import KnownAccount, KnownConnection, save_connection
from seller_platform.warehouse.loads.receipts import receipts_of_run
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.orchestration.automation.test_schedules import register
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.http_upstream import BERLIN
from seller_platform_tests.support.platform import HISTORY_START, Platform, newest_checks, open_platform
from seller_platform_tests.support.postgres import Databases

ORDERS, INVENTORY = dataset_named("orders"), dataset_named("inventory")
KEYS = sorted(independent_upstream.KEYS.values())
FEBRUARY = Window.month_of(date(2026, 2, 1))
PARTITIONS = {str(partition_key(key, FEBRUARY)) for key in KEYS}
ROW_COUNT = "row_count_matches_total"
FRIDAY = datetime(2026, 2, 6, 12, tzinfo=UTC)


@dataclass
class Today:
    """The job over a platform whose accounts are discovered, with a clock that tests set."""

    platform: Platform
    now: datetime = FRIDAY
    job: dg.JobDefinition = field(init=False)

    def __post_init__(self) -> None:
        definitions = dg.Definitions.merge(
            today_definitions(clock=lambda: self.now),
            dg.Definitions(
                assets=[asset_for(ORDERS, HISTORY_START)],
                resources=self.platform.resources,
                executor=dg.in_process_executor,
            ),
        )
        self.job = definitions.resolve_job_def("read_orders_today")

    def read(self) -> dg.ExecuteInProcessResult:
        return self.job.execute_in_process(instance=self.platform.instance, raise_on_error=False)

    def receipts(self, result: dg.ExecuteInProcessResult) -> Sequence[Receipt]:
        return receipts_of_run(self.platform.database, result.run_id)


@pytest.fixture(scope="module")
def today(postgres: EmbeddedServer, databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Today]:
    name, home = databases.lend(), tmp_path_factory.mktemp("today")
    with (
        pytest.MonkeyPatch.context() as patch,
        Database(postgres.url(name)) as database,
        open_platform(database, postgres.url(name), home) as platform,
    ):
        patch.setenv("SELLER_PLATFORM_HOME", str(home))
        platform.discover()
        yield Today(platform)
    databases.take_back(name)


def _materialized(result: dg.ExecuteInProcessResult) -> set[str | None]:
    return {event.partition for event in result.all_events if event.is_step_materialization}


def test_a_run_reads_the_local_today_of_every_account_and_no_other_day(today: Today) -> None:
    result = today.read()

    assert result.success
    assert {(each.account, each.window) for each in today.receipts(result)} == {
        (key, Window.day(FRIDAY.date())) for key in KEYS
    }
    assert all(each.rows > 0 for each in today.receipts(result))
    assert _materialized(result) == PARTITIONS
    assert newest_checks(today.platform.instance, ORDERS)[ROW_COUNT].passed


def test_a_day_that_has_not_changed_is_read_and_reports_nothing(today: Today) -> None:
    today.read()

    result = today.read()

    assert [each.changed for each in today.receipts(result)] == [False, False]
    assert _materialized(result) == set()


def test_each_account_has_its_own_today(today: Today) -> None:
    today.now = datetime(2026, 2, 6, 23, 30, tzinfo=UTC)
    with today.platform.database.begin() as connection:
        zones = dict(connection.execute(text("SELECT key, timezone FROM platform.accounts")).tuples().all())
        connection.execute(
            text("UPDATE platform.accounts SET timezone = 'Asia/Tokyo' WHERE key = :key"), {"key": KEYS[0]}
        )
        connection.execute(
            text("UPDATE platform.accounts SET timezone = 'America/New_York' WHERE key = :key"), {"key": KEYS[1]}
        )

    result = today.read()

    with today.platform.database.begin() as connection:
        for key, zone in zones.items():
            values = {"key": key, "zone": zone}
            connection.execute(text("UPDATE platform.accounts SET timezone = :zone WHERE key = :key"), values)
    today.now = FRIDAY
    days = {each.account: each.window.start for each in today.receipts(result)}
    assert days == {KEYS[0]: date(2026, 2, 7), KEYS[1]: date(2026, 2, 6)}


def test_a_failure_about_other_days_stays_until_these_are_read_again(
    today: Today, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = (str(partition_key(key, FEBRUARY)) for key in (KEYS[0], KEYS[-1]))

    def passed() -> bool:
        return newest_checks(today.platform.instance, ORDERS)[ROW_COUNT].passed

    with monkeypatch.context() as patch:
        patch.setattr(independent_upstream, "_page", _with_wrong_total)
        today.platform.run([ORDERS], first, last)
    today.now = FRIDAY + timedelta(days=1)
    today.read()
    after_other_days = passed()
    today.platform.run([ORDERS], first, last)
    today.now = FRIDAY

    assert (after_other_days, passed()) == (False, True)


def test_an_account_that_cannot_be_read_fails_by_name_and_others_are_read(
    today: Today, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = independent_upstream.order_rows

    def broken(seller: str, *arguments: Any) -> list[dict[str, Any]]:
        unreadable = {"purchase_date": f"{today.now:%Y-%m-%d} noon"}
        return [unreadable] if seller == "A1FOREIGN" else honest(seller, *arguments)

    monkeypatch.setattr(independent_upstream, "order_rows", broken)
    today.now = FRIDAY + timedelta(days=2)

    result = today.read()

    today.now = FRIDAY
    failure = result.failure_data_for_node("read_today")
    assert failure is not None
    assert failure.error is not None
    assert "today's orders of 1 account was not read: A1FOREIGN.market.example." in failure.error.message
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
    account = KnownAccount("S1.DE", "default", BERLIN)

    slices = today_slices([account], now)

    assert [(str(each.window.start), str(each.window.end)) for each in slices] == windows


def test_a_tick_requests_one_run_unless_one_is_under_way(
    database: Database, database_url: str, instance: dg.DagsterInstance
) -> None:
    warehouse = WarehouseResource(database_url=database_url)
    (schedule,) = today_definitions().schedules or ()
    assert isinstance(schedule, dg.ScheduleDefinition)

    def tick(at: datetime) -> tuple[int, str | None]:
        with dg.build_schedule_context(
            instance, scheduled_execution_time=at, resources={"warehouse": warehouse}
        ) as context:
            data = schedule.evaluate_tick(context)
        return len(data.run_requests or ()), data.skip_message

    at = datetime.now(UTC)
    save_connection(database, KnownConnection("default", "http://api", "http://api", "client"))
    without_accounts = tick(at)
    with database.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO platform.accounts (key, connection, id, title, timezone, marketplace, seller_id) "
                "SELECT 'S' || number || '.DE', 'default', number, 'Shop', 'Europe/Berlin', 'DE', 'S' || number "
                "FROM generate_series(1, 100) AS number"
            )
        )
    of_all = tick(at)
    run = dg.DagsterRun("job", tags={"dagster/schedule_name": SCHEDULE}, status=dg.DagsterRunStatus.STARTED)
    instance.add_run(run)
    under_way = tick(at)
    later = tick(at + timedelta(hours=3))

    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert without_accounts == (0, "no account can be read")
    assert of_all == (1, None)
    assert under_way == (0, "under way: the run of an earlier tick; the next tick reads the orders again")
    assert later == (1, None)


def test_a_tick_leaves_the_requests_that_the_daily_refresh_needs(
    database: Database, database_url: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(database, instance, {"A.DE": "Europe/Berlin", "B.DE": "Europe/Berlin"})
    (schedule,) = today_definitions(refreshed=[INVENTORY]).schedules or ()
    assert isinstance(schedule, dg.ScheduleDefinition)
    warehouse = WarehouseResource(database_url=database_url)

    def tick(per_day: int) -> tuple[int, str]:
        monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", str(per_day))
        at = datetime.now(UTC).replace(hour=3)
        with dg.build_schedule_context(
            instance, scheduled_execution_time=at, resources={"warehouse": warehouse}
        ) as context:
            data = schedule.evaluate_tick(context)
        return len(data.run_requests or ()), str(data.skip_message)

    runs, reason = tick(4)

    assert runs == 0
    assert reason.startswith("2 slices wait, the first is orders of A.DE")
    assert tick(5)[0] == 1  # two requests of inventory, and three of orders


def test_a_run_reads_only_accounts_that_the_budget_allows(today: Today, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", "1")

    result = today.read()

    assert result.success
    assert not today.receipts(result)


def _with_wrong_total(
    *arguments: Any, honest: Callable[..., dict[str, Any]] = independent_upstream._page, **options: Any
) -> dict[str, Any]:
    """Return a page of the upstream whose total is one too many."""
    answer = honest(*arguments, **options)
    return {**answer, "total": str(int(answer["total"].replace(",", "")) + 1)}
