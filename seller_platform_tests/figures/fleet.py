"""A warehouse of many accounts of which every slice is loaded and every mart is built, without rows, and its ticks."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import dagster as dg
from psycopg import sql
from sqlalchemy import text

from seller_platform.contract import REFRESHED, Account, Window
from seller_platform.ingest.loads.planner import REFRESH_HOUR
from seller_platform.orchestration.component import SellerPlatformComponent
from seller_platform.warehouse.marts import MARTS
from seller_platform.warehouse.marts.due import Derived, partition_states
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform_tests.support.stored_rows import connect_accounts

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
_BUILT = sql.SQL(
    "COPY platform.derived_partitions (folder, name, account, month, fingerprint, run_id, tried_at, "
    "digest, changed_build_id) FROM STDIN"
)


def fill_warehouse(database: Database, keys: Sequence[str], months: Sequence[Window]) -> None:
    """Store that every slice was loaded and every mart was built half an hour ago.

    Args:
        keys: The keys of the accounts.
        months: The months of history, up to the current one.
    """
    account = Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "DE", "S")
    connect_accounts(database, [(key, account) for key in keys])
    moment = datetime.now(UTC) - timedelta(minutes=30)
    values = {
        "datasets": [dataset.name for dataset in REFRESHED],
        "are_dated": [dataset.is_dated for dataset in REFRESHED],
        "months": [month.start for month in months],
        "moment": moment,
    }
    with database.begin() as connection:
        driver = driver_of(connection)
        driver.execute("INSERT INTO platform.history_start VALUES (true, %s)", (months[0].start,))
        driver.execute("ALTER TABLE platform.loads DISABLE TRIGGER keep_slice")
        driver.execute(_LOADS, values)
        driver.execute(_SLICES)
        driver.execute("ALTER TABLE platform.loads ENABLE TRIGGER keep_slice")
    for mart in MARTS:
        derived = Derived.of(mart)
        with database.begin() as connection:
            states = partition_states(connection, derived, keys, months)
            with driver_of(connection).cursor() as cursor, cursor.copy(_BUILT) as copy:
                for state in states:
                    copy.write_row(
                        (
                            "",
                            derived.name,
                            state.account,
                            state.month,
                            state.fingerprint,
                            "run",
                            moment,
                            bytes(16),
                            1,
                        )
                    )
    with database.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("VACUUM ANALYZE"))


def ticks(folder: Path, variables: Mapping[str, str]) -> dict[str, Callable[[], object]]:
    """Return the evaluation of each schedule and sensor, by name.

    Args:
        folder: The folder of the Dagster instance.
        variables: Of the environment; they are set in this process.
    """
    os.environ.update(variables)
    definitions, instance = SellerPlatformComponent().definitions(), dg.DagsterInstance.from_config(str(folder))
    resources = dict(definitions.resources or {})
    due_at = datetime.now(UTC).replace(hour=REFRESH_HOUR) + timedelta(days=1)

    def evaluate(definition: dg.ScheduleDefinition | dg.SensorDefinition) -> None:
        if isinstance(definition, dg.ScheduleDefinition):
            with dg.build_schedule_context(instance, scheduled_execution_time=due_at, resources=resources) as context:
                definition.evaluate_tick(context)
            return
        cursor = cursors.get(definition.name)
        with dg.build_sensor_context(instance, cursor=cursor, resources=resources, definitions=definitions) as context:
            cursors[definition.name] = definition.evaluate_tick(context).cursor

    cursors: dict[str, str | None] = {}
    repository = definitions.get_repository_def()
    evaluated: list[dg.ScheduleDefinition | dg.SensorDefinition] = [*repository.schedule_defs, *repository.sensor_defs]
    return {each.name: partial(evaluate, each) for each in evaluated}
