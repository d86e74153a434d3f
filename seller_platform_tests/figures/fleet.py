"""Measures the screen and a tick of the sensor in an installation of many accounts, with everything due.

Every slice is loaded, half an hour ago, and has no rows. The screen has 36,000 slices, the tick 1,000 accounts. The CPU
is that of the processes and of PostgreSQL.
"""

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from sqlalchemy import text

from seller_platform.contract import REFRESHED, Account, Window
from seller_platform.ingest.loads.planner import Planner
from seller_platform.orchestration.assets.reporting import SENSOR as CHECKS
from seller_platform.orchestration.automation.following import SENSOR
from seller_platform.orchestration.component import SellerPlatformComponent
from seller_platform.orchestration.partitions import add_accounts
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.figures.measuring import spent, spent_by_command
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.installation import temporary_server
from seller_platform_tests.support.processes import COMMAND, environment
from seller_platform_tests.support.stored_rows import connect_accounts

MOST_OF_SCREEN, MOST_OF_TICK = 1.0, 2.0
_SCREEN_SLICES = 36_000
# Without the trigger of receipts, which takes a tenth of a millisecond each. That of slices is left on.
_LOADS = """
    INSERT INTO platform.loads (dataset, account, window_start, window_end, requests, pages, body_bytes, announced,
                                rows, digest, verdict, changed, started_at, finished_at, time_zone, currency)
    SELECT dataset, account, month, CAST(CASE WHEN is_dated THEN month + interval '1 month' ELSE month + 1 END AS date),
           2, 1, 50000, 200, 200, '0123456789abcdef', 'match', true, CAST(%(moment)s AS timestamptz),
           CAST(%(moment)s AS timestamptz), 'Europe/Berlin', 'EUR'
    FROM unnest(%(datasets)s::text[], %(are_dated)s::boolean[]) AS datasets (dataset, is_dated)
    CROSS JOIN unnest(%(months)s::date[]) AS month
    CROSS JOIN (SELECT key AS account FROM platform.accounts) AS listed
    WHERE is_dated OR month = (SELECT max(each) FROM unnest(%(months)s::date[]) AS each)
"""
_SLICES = """
    INSERT INTO platform.slices (dataset, account, month, load_id, changed_load_id, reported_load_id, verdict,
                                 first_day, newest_day, rows, read_at, current_at, days_read, time_zone, currency)
    SELECT dataset, account, of_month, id, id, id, verdict,
           CASE WHEN of_month IS NULL THEN started_at::date END, CASE WHEN of_month IS NULL THEN started_at::date END,
           rows, started_at, CASE WHEN of_month IS NULL OR window_end > started_at::date THEN started_at END,
           CASE WHEN of_month IS NOT NULL THEN array_fill(started_at, ARRAY[31]) END, time_zone, currency
    FROM (SELECT *, platform.month_of_slice(dataset, window_start) AS of_month FROM platform.loads) AS load
"""


def fill_warehouse(database: Database, keys: Sequence[str], months: Sequence[Window]) -> None:
    """Store that every slice was loaded half an hour ago."""
    account = Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "DE", "S")
    connect_accounts(database, [(key, account) for key in keys])
    values = {
        "datasets": [dataset.name for dataset in REFRESHED],
        "are_dated": [dataset.is_dated for dataset in REFRESHED],
        "months": [month.start for month in months],
        "moment": datetime.now(UTC) - timedelta(minutes=30),
    }
    with database.begin() as connection:
        driver = driver_of(connection)
        driver.execute("INSERT INTO platform.history_start VALUES (true, %s)", (months[0].start,))
        driver.execute("ALTER TABLE platform.loads DISABLE TRIGGER keep_slice")
        driver.execute(_LOADS, values)
        driver.execute(_SLICES)
        driver.execute("ALTER TABLE platform.loads ENABLE TRIGGER keep_slice")
    with database.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("VACUUM ANALYZE"))


def measure(*, accounts: int = 1_000, months: int = 36) -> Promises:
    """Options: accounts whose marts are due, and months of history."""
    now = datetime.now(UTC)
    longer = Window(Window.month_of(now.date() - timedelta(days=31 * months)).start, Window.month_of(now.date()).end)
    history = list(longer.months())[-months:]
    dated = sum(dataset.is_dated for dataset in REFRESHED)
    with temporary_server() as (server, folder):
        few = [f"de-{number}" for number in range(_SCREEN_SLICES // (dated * len(history)))]
        with Database(server.database("screen")) as database:
            migrate(database)
            fill_warehouse(database, few, history)
            variables = environment(folder, SELLER_PLATFORM_DATABASE_URL=database.url)
            took = spent_by_command([*COMMAND, "status", "--fail-on", "never"], variables, server)
        screen = took.own + took.postgres
        with Database(server.database("fleet")) as database:
            migrate(database)
            fill_warehouse(database, [f"de-{number}" for number in range(accounts)], history)
            tick = max(_tick_seconds(server, database.url, folder / "dagster", accounts))
    return Promises(
        f"{len(history)} months",
        [
            Figure(
                "`status` of 36,000 slices",
                f"{screen:.2f} s of CPU",
                f"at most {MOST_OF_SCREEN} s",
                screen <= MOST_OF_SCREEN,
            ),
            Figure(
                f"a tick, all marts, checks or lists of {accounts:,} accounts due",
                f"{tick:.2f} s of CPU",
                f"at most {MOST_OF_TICK} s",
                tick <= MOST_OF_TICK,
            ),
        ],
    )


def _tick_seconds(server: EmbeddedServer, database_url: str, folder: Path, accounts: int) -> list[float]:
    """Return the CPU of three ticks of the sensor of marts, of one of the checks, and of one of the daily refresh."""
    folder.mkdir()
    os.environ["SELLER_PLATFORM_DATABASE_URL"] = database_url
    definitions = SellerPlatformComponent().definitions()
    sensor = definitions.get_sensor_def(SENSOR)
    seconds, cursor = [], None
    with postgres_instance(server.database("dagster"), folder) as instance:
        add_accounts(instance, [f"de-{number}" for number in range(accounts)])
        for _ in range(3):
            resources = dict(definitions.resources or {})
            with dg.build_sensor_context(
                instance, cursor=cursor, resources=resources, definitions=definitions
            ) as context:
                ticks = []
                took = spent(lambda: ticks.append(sensor.evaluate_tick(context)), server)  # noqa: B023
            assert ticks[0].run_requests, "nothing is due"
            cursor = ticks[0].cursor
            seconds.append(took.own + took.postgres)
        with dg.build_sensor_context(instance, resources=resources, definitions=definitions) as context:
            took = spent(lambda: definitions.get_sensor_def(CHECKS).evaluate_tick(context), server)
        seconds.append(took.own + took.postgres)
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).replace(hour=Planner.refresh_at.hour)
        with dg.build_schedule_context(instance, scheduled_execution_time=tomorrow, resources=resources) as at:
            refreshed = []
            schedule = definitions.resolve_schedule_def("refresh")
            took = spent(lambda: refreshed.append(schedule.evaluate_tick(at)), server)
        assert refreshed[0].run_requests, "nothing is due"
    return [*seconds, took.own + took.postgres]
