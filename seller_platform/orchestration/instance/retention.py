"""Deletes what is old, also events, executions of checks, runs and backfills of Dagster, which keeps them for ever.

What the UI shows of a partition stays: its newest materialization and the first one with that data version, its newest
observation, failure and attempt, the newest execution of each of its checks, and the runs of these. Unfinished runs
stay whole. Plots show what is younger than the retention, and each partition's newest point. Sensors read events after
a number, which no deletion changes.

Rows are deleted in the order of their numbers, some thousands at a time, so that no lock is held for long.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster_postgres.event_log import PostgresEventLogStorage
from sqlalchemy import Connection

from seller_platform.capabilities import contributed
from seller_platform.errors import PartsFailedError
from seller_platform.settings import Settings
from seller_platform.warehouse.loads.retention import RECEIPT_DAYS, SNAPSHOT_DAYS, UNCHANGED_DAYS, Pruned, prune
from seller_platform.warehouse.postgres.database import Database

_BATCH = 5_000
_FINISHED = ["SUCCESS", "FAILURE", "CANCELED"]

_OLD_EXECUTIONS = """
SELECT id FROM asset_check_executions AS old
WHERE id > %(after)s AND id < %(until)s AND EXISTS (
    SELECT FROM asset_check_executions AS newer
    WHERE newer.asset_key = old.asset_key AND newer.check_name = old.check_name
      AND newer.partition IS NOT DISTINCT FROM old.partition
      AND newer.id > old.id AND newer.evaluation_event_storage_id IS NOT NULL
)
"""
# CASE, because PostgreSQL finds `=` and IS NULL in the index, but not one condition with both.
# Failures stay as long as their run. Evaluations of checks are kept as executions, too. Of the newest materializations
# with equal data versions the first one stays: Dagster compares the newest with what an asset downstream has read.
_OLD_EVENTS = """
SELECT id FROM event_logs AS old
WHERE id > %(after)s AND id < %(until)s
  AND NOT EXISTS (SELECT FROM runs WHERE runs.run_id = old.run_id AND runs.status <> ALL (%(finished)s))
  AND CASE
    WHEN asset_key IS NULL THEN NOT coalesce(dagster_event_type IN ('STEP_FAILURE', 'PIPELINE_FAILURE'), false)
    WHEN partition IS NULL THEN EXISTS (
        SELECT FROM event_logs AS newer
        WHERE newer.asset_key = old.asset_key AND newer.dagster_event_type = old.dagster_event_type
          AND newer.id > old.id AND newer.partition IS NULL
    )
    ELSE EXISTS (
        SELECT FROM event_logs AS newer
        WHERE newer.asset_key = old.asset_key AND newer.dagster_event_type = old.dagster_event_type
          AND newer.partition = old.partition AND newer.id > old.id
    ) AND NOT (
        dagster_event_type = 'ASSET_MATERIALIZATION'
        AND {version_of_old} IS NOT NULL
        AND {version_of_old} IS DISTINCT FROM (
            SELECT {version_of_other} FROM event_logs AS other
            WHERE other.asset_key = old.asset_key AND other.dagster_event_type = old.dagster_event_type
              AND other.partition = old.partition AND other.id < old.id
            ORDER BY other.id DESC LIMIT 1
        )
        AND NOT EXISTS (
            SELECT FROM event_logs AS other
            WHERE other.asset_key = old.asset_key AND other.dagster_event_type = old.dagster_event_type
              AND other.partition = old.partition AND other.id > old.id
              AND {version_of_other} IS DISTINCT FROM {version_of_old}
        )
    )
  END
"""
_VERSION = """
(SELECT max(value) FROM asset_event_tags WHERE event_id = {event}.id AND key = 'dagster/data_version')
"""
_OLD_EVENTS = _OLD_EVENTS.format(  # the texts are ours
    version_of_old=_VERSION.format(event="old"), version_of_other=_VERSION.format(event="other")
)
_DELETE_EXECUTIONS = "DELETE FROM asset_check_executions WHERE id = ANY (%(ids)s)"
_DELETE_EVENTS = """
WITH tags AS (DELETE FROM asset_event_tags WHERE event_id = ANY (%(ids)s))
DELETE FROM event_logs WHERE id = ANY (%(ids)s)
"""
# An execution that was planned has the state of its run.
_OLD_RUNS = """
SELECT runs.id FROM runs
WHERE runs.id > %(after)s AND runs.id < %(until)s AND status = ANY (%(finished)s)
  AND coalesce(to_timestamp(end_time), update_timestamp AT TIME ZONE 'UTC') < %(before)s
  AND NOT EXISTS (SELECT FROM event_logs WHERE event_logs.run_id = runs.run_id AND asset_key IS NOT NULL)
  AND run_id <> ALL (%(planning)s)
"""
_PLANNING = "SELECT DISTINCT run_id FROM asset_check_executions WHERE execution_status = 'PLANNED'"
_DELETE_RUNS = """
WITH events AS (
    DELETE FROM event_logs USING runs WHERE runs.id = ANY (%(ids)s) AND event_logs.run_id = runs.run_id
)
DELETE FROM runs WHERE id = ANY (%(ids)s) RETURNING run_id
"""
_OLD_BACKFILLS = """
SELECT id FROM bulk_actions
WHERE id > %(after)s AND id < %(until)s AND timestamp < %(before)s
  AND status NOT IN ('REQUESTED', 'CANCELING', 'FAILING')
"""
_DELETE_BACKFILLS = """
WITH tags AS (
    DELETE FROM backfill_tags USING bulk_actions
    WHERE bulk_actions.id = ANY (%(ids)s) AND backfill_id = bulk_actions.key
)
DELETE FROM bulk_actions WHERE id = ANY (%(ids)s)
"""


# The kind of rows, their table, the column that says how old a row is unless the query for the old ones does, that
# query, and how they are deleted.
_TABLES = (
    ("executions of checks", "asset_check_executions", "create_timestamp", _OLD_EXECUTIONS, _DELETE_EXECUTIONS),
    ("events", "event_logs", "timestamp", _OLD_EVENTS, _DELETE_EVENTS),
    ("runs", "runs", None, _OLD_RUNS, _DELETE_RUNS),
    ("backfills", "bulk_actions", None, _OLD_BACKFILLS, _DELETE_BACKFILLS),
)


def delete_old(
    database: Database,
    instance: dg.DagsterInstance,
    settings: Settings,
    *,
    snapshot_days: int = SNAPSHOT_DAYS,
    receipt_days: int = RECEIPT_DAYS,
    dagster_days: int | None = None,
    dry: bool,
) -> tuple[Pruned, Mapping[str, int], int | None, PartsFailedError | None]:
    """Delete what is older than so many days, of Dagster by default as many as the settings say.

    Args:
        dry: Count only.

    Returns:
        What was deleted of the warehouse; of Dagster's tables by kind; how many exported files, if there are any; and
        why some of these were not deleted.
    """
    now = datetime.now(UTC)
    # First, because without a package that it needs nothing is deleted.
    of_files = (prune_files(database, settings, dry=dry) for prune_files in contributed("prune_files"))
    files, error = next(filter(None, of_files), (None, None))
    pruned = prune(
        database,
        snapshots_before=now.date() - timedelta(days=snapshot_days),
        receipts_before=now.date() - timedelta(days=receipt_days),
        unchanged_before=now.date() - timedelta(days=UNCHANGED_DAYS),
        dry=dry,
    )
    before = now - timedelta(days=dagster_days or settings.dagster_retention_days)
    return pruned, prune_instance(instance, before=before, dry=dry), files, error


def prune_instance(instance: dg.DagsterInstance, *, before: datetime, dry: bool) -> Mapping[str, int]:
    """Delete what is older than a moment and no longer needed, and return the number of rows by kind.

    The logs of deleted runs go with them. An instance on another storage than PostgreSQL is left as it is; it returns
    nothing.

    Args:
        dry: Count only. Runs are counted that could go now; more may go after their events.
    """
    storage, removed = instance.event_log_storage, dict[str, int]()
    if not isinstance(storage, PostgresEventLogStorage):
        return removed
    with storage.index_connection() as connection:  # it commits each statement
        for kind, table, moment, old, delete in _TABLES:
            removed[kind] = 0
            for ids in _old_rows(connection, table, moment, old, before):
                removed[kind] += len(ids)
                if not dry:
                    deleted = connection.exec_driver_sql(delete, {"ids": ids})
                    for (run_id,) in deleted if deleted.returns_rows else ():
                        instance.compute_log_manager.delete_logs(prefix=[run_id])
    return removed


def _old_rows(
    connection: Connection, table: str, moment: str | None, old: str, before: datetime
) -> Iterator[list[int]]:
    """Yield the numbers of a table's old rows, some thousands at a time."""
    ends = f"SELECT coalesce(min(id), 0), coalesce(max(id), 0) + 1 FROM {table}"  # noqa: S608  # one of ours
    start, until = connection.exec_driver_sql(ends).one()
    if moment is not None:
        # Numbers grow with time: PostgreSQL stops at the first row that is younger, without an index of times.
        younger = f"SELECT min(id) FROM {table} WHERE {moment} AT TIME ZONE 'UTC' >= %(before)s"  # noqa: S608  # ours
        until = connection.exec_driver_sql(younger, {"before": before}).scalar() or until
    planning = [row[0] for row in connection.exec_driver_sql(_PLANNING)] if table == "runs" else []
    values = {"before": before, "finished": _FINISHED, "planning": planning}
    for after in range(start - 1, until - 1, _BATCH):
        bounds = {"after": after, "until": min(after + _BATCH + 1, until)}
        ids = [row[0] for row in connection.exec_driver_sql(old, {**values, **bounds})]
        if ids:
            yield ids
