"""Measures the size of Dagster's tables and indexes over days of refreshes, with `prune` every day.

`python -m seller_platform_tests.benchmarks.retention [--days 90] [--slices 3600] [--keep 30]` prints a table.

Every simulated day loads so many slices: the current month of every account of the dated lists, as the daily refresh
does. A run of each 100 slices stores its events and those of its materializations and checks, copied by PostgreSQL
from one real slice. Then everything older than the retention is deleted, and autovacuum is simulated by VACUUM.
"""

import argparse
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from rich.console import Console
from rich.table import Table

from seller_platform.contract import LISTS, Window
from seller_platform.orchestration.assets.checks import evaluations
from seller_platform.orchestration.assets.events import materialization
from seller_platform.orchestration.instance.retention import prune_instance
from seller_platform.orchestration.partitions import add_accounts, partition_key
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.benchmarks.interface import receipt_of
from seller_platform_tests.support.dagster_instance import connect_to_tables, postgres_instance
from seller_platform_tests.support.folders import temporary_folder

_DATED = [dataset for dataset in LISTS if dataset.is_dated]
_TABLES = ("event_logs", "asset_event_tags", "asset_check_executions", "runs", "run_tags")
_RUN_EVENTS = 40

_DAY = """
WITH run AS (
    INSERT INTO runs (run_id, pipeline_name, status, run_body, create_timestamp, update_timestamp, start_time, end_time)
    SELECT gen_random_uuid()::text, 'job', 'SUCCESS', repeat(md5(number::text), 60), %(now)s, %(now)s,
           extract(epoch FROM %(now)s::timestamptz), extract(epoch FROM %(now)s::timestamptz)
    FROM generate_series(0, %(runs)s - 1) AS number
    RETURNING run_id
),
numbered AS (SELECT run_id, row_number() OVER () - 1 AS number FROM run),
tagged AS (
    INSERT INTO run_tags (run_id, key, value) SELECT run_id, 'tag' || each, run_id
    FROM run, generate_series(1, 6) AS each
),
logs AS (
    INSERT INTO event_logs (run_id, event, dagster_event_type, timestamp, step_key)
    SELECT run_id, repeat(md5(run_id), 30), 'ENGINE_EVENT', %(now)s, 'step'
    FROM run, generate_series(1, %(run_events)s)
),
slice AS (
    SELECT asset_key, account || '|' || %(month)s AS partition, run_id
    FROM unnest(%(assets)s::text[]) WITH ORDINALITY AS asset (asset_key, place),
         unnest(%(accounts)s::text[]) WITH ORDINALITY AS account (account, number)
    JOIN numbered ON numbered.number = account.number %% %(runs)s
),
planned AS (
    INSERT INTO event_logs (run_id, event, dagster_event_type, timestamp, step_key, asset_key, partition)
    SELECT run_id, repeat('x', 600), 'ASSET_MATERIALIZATION_PLANNED', %(now)s, 'step', asset_key, partition FROM slice
),
loaded AS (
    INSERT INTO event_logs (run_id, event, dagster_event_type, timestamp, step_key, asset_key, partition)
    SELECT slice.run_id, real.event, real.dagster_event_type, %(now)s, 'step', slice.asset_key, slice.partition
    FROM slice
    JOIN real_events AS real ON real.dagster_event_type = 'ASSET_MATERIALIZATION' AND real.asset_key = slice.asset_key
    RETURNING id, run_id, asset_key, partition
),
dimensions AS (
    INSERT INTO asset_event_tags (event_id, asset_key, key, value, event_timestamp)
    SELECT id, asset_key, 'dagster/partition/' || each, split_part(partition, '|', 1), %(now)s
    FROM loaded, unnest('{account,month}'::text[]) AS each
),
evaluated AS (
    INSERT INTO event_logs (run_id, event, dagster_event_type, timestamp, step_key)
    SELECT loaded.run_id, evaluation_event, 'ASSET_CHECK_EVALUATION', %(now)s, 'step'
    FROM loaded JOIN real_checks USING (asset_key)
)
INSERT INTO asset_check_executions (asset_key, check_name, partition, run_id, execution_status, evaluation_event,
                                    evaluation_event_timestamp, evaluation_event_storage_id,
                                    materialization_event_storage_id, create_timestamp)
SELECT asset_key, check_name, loaded.partition, loaded.run_id, execution_status, evaluation_event, %(now)s, loaded.id,
       loaded.id, %(now)s
FROM loaded JOIN real_checks USING (asset_key)
"""
_COPIES = """
CREATE TABLE real_events AS SELECT * FROM event_logs WHERE dagster_event_type = 'ASSET_MATERIALIZATION';
CREATE TABLE real_checks AS SELECT * FROM asset_check_executions;
"""
_SIZES = """
SELECT sum(pg_table_size(name::regclass)), sum(pg_indexes_size(name::regclass)) FROM unnest(%s::text[]) AS name
"""


def first_months(days: int) -> Sequence[date]:
    """Return the days to simulate; the last is today."""
    today = datetime.now(UTC).date()
    return [today - timedelta(days=days - 1 - number) for number in range(days)]


def main() -> None:
    """Simulate the days and print sizes by day."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--slices", type=int, default=3_600)
    parser.add_argument("--keep", type=int, default=30, help="days of retention")
    parser.add_argument("--every", type=int, default=10, help="print each so many days")
    chosen = parser.parse_args()
    accounts = [f"S{number:04}.US" for number in range(chosen.slices // len(_DATED))]
    title = f"{len(accounts) * len(_DATED):,} slices a day, everything is kept for {chosen.keep} days"
    table = Table(title=title, title_justify="left")
    for name in ("day", "tables MB", "indexes MB", "events", "executions", "runs", "deleted", "prune s"):
        table.add_column(name, justify="right")
    with temporary_folder() as folder:
        server = EmbeddedServer(folder / "postgres")
        url = server.database("retention")
        with postgres_instance(url, folder) as instance, connect_to_tables(url) as connection:
            add_accounts(instance, accounts)
            for dataset in _DATED:
                month = Window.month_of(date(2020, 1, 1))
                receipt, key = receipt_of(dataset, accounts[0], month), partition_key(accounts[0], month)
                instance.report_runless_asset_event(
                    materialization(
                        dataset, receipt, partition=key, endpoint_url="http://a", database_uri="postgres://x"
                    )
                )
                for evaluation in evaluations(instance, dataset, receipt, key):
                    instance.report_runless_asset_event(evaluation)
            connection.execute(_COPIES)
            assets = [row[0] for row in connection.execute("SELECT asset_key FROM real_events").fetchall()]
            for number, day in enumerate(first_months(chosen.days), start=1):
                now = datetime(day.year, day.month, day.day, 11, tzinfo=UTC)
                values = {"now": now, "month": day.replace(day=1).isoformat(), "accounts": accounts, "assets": assets}
                runs = max(1, chosen.slices // 100)
                connection.execute(_DAY, {**values, "runs": runs, "run_events": _RUN_EVENTS})
                began = time.perf_counter()
                removed = prune_instance(instance, before=now - timedelta(days=chosen.keep), dry=False)
                seconds = time.perf_counter() - began
                connection.execute(f"VACUUM ANALYZE {', '.join(_TABLES)}")
                if number % chosen.every == 0 or number == 1:
                    sizes = connection.execute(_SIZES, (list(_TABLES),)).fetchone() or (0, 0)
                    counts = [
                        (connection.execute(f"SELECT count(*) FROM {name}").fetchone() or (0,))[0]
                        for name in ("event_logs", "asset_check_executions", "runs")
                    ]
                    megabytes = [f"{int(size) / 1e6:,.0f}" for size in sizes]
                    figures = [f"{count:,}" for count in (*counts, sum(removed.values()))]
                    table.add_row(str(number), *megabytes, *figures, f"{seconds:.1f}")
        server.close()
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
