"""Dagster's storage on our PostgreSQL: dagster-postgres with one pool of connections.

dagster-postgres opens a connection for nearly every statement, which took most of the time that Dagster needs beside a
load. Before every event it checks that its tables exist, and it needs minutes for the states of checks with many
partitions. As in dagster-postgres, an event is committed before any work that takes long: sensors read events in the
order of their numbers, so no event may become visible long after a later one.

Any Dagster deployment can use the storage, with the options of dagster-postgres. Its tables are then where the search
path of its role leads, or in the schema of the option `schema`. Without a server among the options it is that of our
settings, so that `dagster.yaml` has neither a path nor a password, and the schema is `dagster`. The plain
`storage: postgres:` of dagster-postgres also works, with `options=-csearch_path=dagster` in its URL.
"""

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Self, cast
from uuid import uuid4

from dagster import AssetCheckKey, AssetKey, DagsterEventType, EventLogEntry, Field, StringSource
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)
from dagster._core.storage.asset_check_state import AssetCheckState
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._serdes import ConfigurableClassData
from dagster_postgres.event_log import PostgresEventLogStorage
from dagster_postgres.run_storage import PostgresRunStorage
from dagster_postgres.schedule_storage import PostgresScheduleStorage
from dagster_postgres.storage import DagsterPostgresStorage
from dagster_postgres.utils import (
    DagsterPostgresException,
    pg_config,
    pg_url_from_config,
    retry_pg_connection_fn,
)
from dagster_shared.serdes import serialize_value
from sqlalchemy import URL, Connection, Engine, ExceptionContext, Select, create_engine, func, select
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool
from sqlalchemy.schema import CreateSchema

from seller_platform.errors import DatabaseFullError, InvalidSettingError, WarehouseUnavailableError
from seller_platform.orchestration.instance.check_states import (
    Check,
    CheckedAssets,
    CheckedPartitions,
    CheckStates,
    changed_partitions,
    checked_partitions,
    latest_executions,
)
from seller_platform.orchestration.instance.held_evaluations import hold, is_evaluation_of_run
from seller_platform.orchestration.instance.partition_keys import use_faster_functions
from seller_platform.settings import read_settings
from seller_platform.warehouse.postgres.database import DAGSTER_SCHEMA, Database, driver_url
from seller_platform.warehouse.postgres.location import warehouse_url
from seller_platform.warehouse.postgres.refusals import refusal_of
from seller_platform.warehouse.postgres.urls import place_of, user_of

_LOG = logging.getLogger(__name__)

# The states of checks need the newest execution of each partition without the table itself, which has several kB for
# each slice, and the executions that are newer than an event. The page of a check lists its newest executions.
_INDEXES = {
    "idx_asset_check_executions_newest": """
CREATE INDEX IF NOT EXISTS idx_asset_check_executions_newest
ON asset_check_executions (asset_key, partition, check_name, id DESC)
INCLUDE (execution_status, run_id, evaluation_event_storage_id, materialization_event_storage_id)
""",
    "idx_asset_check_executions_history": """
CREATE INDEX IF NOT EXISTS idx_asset_check_executions_history
ON asset_check_executions (asset_key, check_name, id DESC)
""",
    "idx_asset_check_executions_event": """
CREATE INDEX IF NOT EXISTS idx_asset_check_executions_event ON asset_check_executions (evaluation_event_storage_id)
""",
}
# A view has the former name of a table that was moved.
_MISSING = """
SELECT to_regclass(%(name)s) IS NULL
   AND (SELECT relkind FROM pg_class WHERE oid = to_regclass('asset_check_executions')) = 'r'
"""
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('asset_check_executions'))"
# A value that changes when events are deleted, under this name among the cursors of Dagster's daemons.
_DELETIONS = "seller_platform/deletions"
# So many assets are read at once.
_READERS = 4
_RESTART_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0)

# One statement for all evaluations of a slice. `store_event` of dagster-postgres takes three for each, with a commit
# each, one of them a NOTIFY without a listener.
_EVALUATIONS = """
WITH given AS (
    SELECT * FROM unnest(
        %(run_id)s::text[], %(event)s::text[], %(dagster_event_type)s::text[], %(timestamp)s::timestamp[],
        %(step_key)s::text[], %(asset_key)s::text[], %(partition)s::text[], %(checked_asset)s::text[],
        %(check_name)s::text[], %(checked_partition)s::text[], %(status)s::text[], %(materialization)s::bigint[]
    ) WITH ORDINALITY AS evaluation (
        run_id, event, dagster_event_type, timestamp, step_key, asset_key, partition, checked_asset, check_name,
        checked_partition, status, materialization, number
    )
),
stored AS (
    INSERT INTO event_logs (run_id, event, dagster_event_type, timestamp, step_key, asset_key, partition)
    SELECT run_id, event, dagster_event_type, timestamp, step_key, asset_key, partition FROM given ORDER BY number
    RETURNING id, event
),
evaluated AS (SELECT given.*, stored.id FROM given JOIN stored USING (event)),
planned AS (
    UPDATE asset_check_executions AS execution
    SET execution_status = evaluated.status, evaluation_event = evaluated.event,
        evaluation_event_timestamp = evaluated.timestamp, evaluation_event_storage_id = evaluated.id,
        materialization_event_storage_id = evaluated.materialization
    FROM evaluated
    WHERE execution.asset_key = evaluated.checked_asset AND execution.check_name = evaluated.check_name
      AND execution.run_id = evaluated.run_id AND execution.partition {is_partition}
    RETURNING evaluated.id
)
INSERT INTO asset_check_executions (
    asset_key, check_name, partition, run_id, execution_status, evaluation_event, evaluation_event_timestamp,
    evaluation_event_storage_id, materialization_event_storage_id
)
SELECT checked_asset, check_name, checked_partition, run_id, status, event, timestamp, id, materialization
FROM evaluated
WHERE id NOT IN (SELECT id FROM planned)
"""
# The event that a check is planned names all partitions of the run, and is stored with the execution of each.
_PLANNED = """
INSERT INTO asset_check_executions (
    asset_key, check_name, partition, run_id, execution_status, evaluation_event, evaluation_event_timestamp,
    evaluation_event_storage_id
)
SELECT %(asset)s, %(check)s, partition, %(run_id)s, %(status)s, %(event)s, %(timestamp)s, %(id)s
FROM unnest(%(partitions)s::text[]) AS partition
"""
# Dagster keeps one execution of a check for each run and partition. Evaluations without a run have the same empty run.
_FORGET_RUNLESS = """
DELETE FROM asset_check_executions
WHERE asset_key = %(asset)s AND check_name = %(check)s AND partition = %(partition)s AND run_id = ''
"""
_OF_WHOLE = _EVALUATIONS.format(is_partition="IS NULL")
_OF_PARTITION = _EVALUATIONS.format(is_partition="= evaluated.checked_partition")


class PooledPostgresStorage(DagsterPostgresStorage):
    """dagster-postgres with one pool for its three parts."""

    def __init__(
        self,
        postgres_url: str,
        should_autocreate_tables: bool = True,  # Dagster's signature
        inst_data: ConfigurableClassData | None = None,
        *,
        schema: str | None = None,
    ) -> None:
        use_faster_functions()
        url = driver_url(postgres_url, "psycopg2")
        if schema is not None:
            url = _url_in_schema(url, schema)
        super().__init__(url.render_as_string(hide_password=False), should_autocreate_tables, inst_data)
        pool = {"isolation_level": "AUTOCOMMIT", "poolclass": QueuePool, "pool_size": 4, "max_overflow": 16}
        engine = create_engine(url, pool_pre_ping=True, **pool)
        # Without pre-ping: an event is stored once more if its connection is lost.
        events = create_engine(url, **pool)
        for each in (engine, events):
            listen(each, "handle_error", _raise_if_full)
        self._event_log_storage = _EventLogStorage(
            self.postgres_url, events, should_autocreate_tables=should_autocreate_tables
        )
        for part in (self._run_storage, self._event_log_storage, self._schedule_storage):
            part._engine = engine  # there is no parameter for it
        if should_autocreate_tables:
            self._event_log_storage.add_indexes()

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        """Return the options of dagster-postgres, and the schema of the tables."""
        sentence = "The schema of Dagster's tables. By default, the first one of the search path of the role."
        return {
            **cast("Mapping[str, Any]", pg_config()),
            "schema": Field(StringSource, is_required=False, description=sentence),
        }

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        names_server = "postgres_url" in config_value or "postgres_db" in config_value
        creates, schema = config_value.get("should_autocreate_tables", True), config_value.get("schema")
        if names_server:
            url = pg_url_from_config(config_value)
            if schema is not None and creates:
                _create_schema(url, schema)
            return cls(url, creates, inst_data, schema=schema)
        url = warehouse_url(read_settings())
        if schema in (None, DAGSTER_SCHEMA):
            _migrate(url)
        return cls(url, creates, inst_data, schema=schema or DAGSTER_SCHEMA)


class PooledRunStorage(PostgresRunStorage):
    """The runs of a `PooledPostgresStorage`. Dagster's Helm chart configures three parts instead of one storage."""

    config_type = PooledPostgresStorage.config_type

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        return cast("Self", PooledPostgresStorage.from_config_value(inst_data, config_value).run_storage)


class PooledEventLogStorage(PostgresEventLogStorage):
    """The events of a `PooledPostgresStorage`, configured as a part."""

    config_type = PooledPostgresStorage.config_type

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        return cast("Self", PooledPostgresStorage.from_config_value(inst_data, config_value).event_log_storage)


class PooledScheduleStorage(PostgresScheduleStorage):
    """The schedules and sensors of a `PooledPostgresStorage`, configured as a part."""

    config_type = PooledPostgresStorage.config_type

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        return cast("Self", PooledPostgresStorage.from_config_value(inst_data, config_value).schedule_storage)


def _migrate(url: str) -> None:
    """Ensure that the schema of Dagster's tables exists, and try again while the server restarts.

    Thus a restart fails no run that starts meanwhile.
    """
    with Database(url, connections=1) as database:
        for pause in _RESTART_PAUSES_SECONDS:
            try:
                return database.migrate()
            except WarehouseUnavailableError as error:
                _LOG.warning("%s Trying again in %g s.", error, pause)
            time.sleep(pause)
        return database.migrate()


def _raise_if_full(context: ExceptionContext) -> None:
    """Name a full disk. Dagster prints errors of its storage before ours, with statements and all their values."""
    if context.engine is not None:
        url = context.engine.url
        refusal = refusal_of(context.original_exception, where=place_of(url), user=user_of(url))
        if isinstance(refusal, DatabaseFullError):
            raise refusal from context.original_exception


def _url_in_schema(url: URL, schema: str) -> URL:
    """Return a URL whose connections find their tables in a schema.

    The statements of Dagster and of this package name no schema.
    """
    if _SCHEMA_NAME.fullmatch(schema) is None:
        problem = f"has the schema {schema!r}; use lower-case letters, digits and underscores"
        raise InvalidSettingError("storage in dagster.yaml", problem)
    given = url.query.get("options", ())
    options = [given] if isinstance(given, str) else [*given]
    return url.update_query_dict({"options": " ".join([*options, f"-csearch_path={schema}"])})


def _create_schema(postgres_url: str, schema: str) -> None:
    engine = create_engine(_url_in_schema(driver_url(postgres_url, "psycopg2"), schema), poolclass=NullPool)
    with retry_pg_connection_fn(engine.connect) as connection, connection.begin():
        # Also where the schema exists, it would need the right to create one.
        if connection.execute(select(func.to_regnamespace(schema))).scalar() is None:
            connection.execute(CreateSchema(schema, if_not_exists=True))


class _EventLogStorage(PostgresEventLogStorage):
    """The event log of dagster-postgres with one connection for all statements of an event."""

    def __init__(self, postgres_url: str, events: Engine, *, should_autocreate_tables: bool) -> None:
        self._events = events
        self._of_event = threading.local()
        self._tables: set[str] = set()
        self._columns: set[str] = set()
        self._checked_assets, self._check_states = CheckedAssets(), CheckStates()
        super().__init__(postgres_url, should_autocreate_tables)

    def add_indexes(self) -> None:
        """Create the indexes that are missing. In a large table that takes some seconds, once; evaluations wait."""
        with self.index_connection() as connection:
            missing = [
                statement
                for name, statement in _INDEXES.items()
                if connection.exec_driver_sql(_MISSING, {"name": name}).scalar()
            ]
        if missing:
            with self._events.connect().execution_options(isolation_level="READ COMMITTED") as connection:
                connection.exec_driver_sql(_LOCK)
                for statement in missing:
                    connection.exec_driver_sql(statement)
                connection.commit()

    @cached_property
    def supports_asset_checks(self) -> bool:
        return bool(super().supports_asset_checks)

    def has_table(self, table_name: str) -> bool:
        """Return whether a table exists; a table that was seen is not looked up again."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def has_asset_key_col(self, column_name: str) -> bool:
        """Return whether the table of assets has a column; Dagster reads all its columns for each question."""
        if column_name not in self._columns and super().has_asset_key_col(column_name):
            self._columns.add(column_name)
        return column_name in self._columns

    def get_asset_check_state(self, keys: Sequence[Check]) -> Mapping[AssetCheckKey, AssetCheckState]:
        """Return the state of each check, partition by partition."""
        assets = list(dict.fromkeys(key.asset_key for key, _ in keys))
        deletions = self._instance.run_storage.get_cursor_values({_DELETIONS}).get(_DELETIONS)
        wiped = [details and details.last_wipe_timestamp for details in self._get_assets_details(assets)]
        with ThreadPoolExecutor(_READERS) as readers:
            read = readers.map(lambda asset, wiped: self._checked(asset, (deletions, wiped)), assets, wiped)
            return self._check_states.of(self._instance, keys, dict(zip(assets, read, strict=True)))

    def get_latest_asset_check_execution_by_key(
        self, check_keys: Sequence[AssetCheckKey], partition_filter: PartitionKeyFilter | None = None
    ) -> Mapping[AssetCheckKey, AssetCheckExecutionRecord]:
        """Return the newest execution of each check; Dagster reads all executions to find it."""
        if partition_filter is not None or not check_keys:
            return dict(super().get_latest_asset_check_execution_by_key(check_keys, partition_filter))
        records = {}
        for row in self._fetch(latest_executions(check_keys)):
            key = AssetCheckKey(AssetKey(json.loads(row.asset_key)), row.check_name)
            records[key] = AssetCheckExecutionRecord.from_db_row(row._mapping, key=key)
        return records

    def _fetch(self, statement: Select[Any]) -> Sequence[Any]:
        with self.index_connection() as connection:
            return connection.execute(statement).fetchall()

    def _checked(self, asset: AssetKey, generation: object) -> CheckedPartitions:
        def read(partitions: Sequence[str | None] | None, whole: int | None) -> Sequence[Any]:
            named = None if partitions is None else [each for each in partitions if each is not None]
            loaded = self._latest_event_ids_by_partition_subquery(
                asset, [DagsterEventType.ASSET_MATERIALIZATION], asset_partitions=named
            )
            return self._fetch(checked_partitions(asset, loaded, whole, partitions))

        return self._checked_assets.read(
            asset,
            generation,
            last_event=lambda: self._fetch(select(func.max(SqlEventLogStorageTable.c.id)))[0][0] or 0,
            last_of_whole=lambda: self._get_latest_unpartitioned_materialization_storage_ids([asset]).get(asset),
            changed=lambda after: [row[0] for row in self._fetch(changed_partitions(asset, after))],
            read=read,
        )

    def delete_events(self, run_id: str) -> None:
        """Delete the events of a run; the states of checks are read anew."""
        super().delete_events(run_id)
        self._instance.run_storage.set_cursor_values({_DELETIONS: str(uuid4())})

    def dispose(self) -> None:
        """Close the connections."""
        self._events.dispose()
        super().dispose()

    def store_event(self, event: EventLogEntry) -> None:
        """Store an event, and try again while the server restarts, unless it is held for those that follow.

        Thus a restart fails no run. An event may be stored twice if its commit was not confirmed; that does no harm.
        """
        if is_evaluation_of_run(event):
            if not hold(event):
                self._store_evaluations([event])
        else:
            self._retried(lambda connection: self._store_once(connection, event))

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store events; evaluations of a run with one statement, and again while the server restarts."""
        if all(is_evaluation_of_run(event) for event in events):
            self._store_evaluations(events)
        else:
            super().store_event_batch(events)

    def _retried(self, store: Callable[[Connection], None]) -> None:
        for pause in (*_RESTART_PAUSES_SECONDS, None):
            try:
                with retry_pg_connection_fn(self._events.connect) as connection:
                    return store(connection)
            except DagsterPostgresException:  # it could not connect within some seconds
                if pause is None:
                    raise
            except DBAPIError as error:
                if pause is None or not error.connection_invalidated:
                    raise
            time.sleep(pause)
        return None

    def _store_once(self, connection: Connection, event: EventLogEntry) -> None:
        if event.dagster_event_type == DagsterEventType.ASSET_CHECK_EVALUATION:
            evaluation = event.get_dagster_event().asset_check_evaluation_data
            asset, check, partition = evaluation.asset_key.to_string(), evaluation.check_name, evaluation.partition
            connection.exec_driver_sql(_FORGET_RUNLESS, {"asset": asset, "check": check, "partition": partition})
        self._of_event.connection = connection
        try:
            super().store_event(event)
        finally:
            self._of_event.connection = None

    def _store_evaluations(self, events: Sequence[EventLogEntry]) -> None:
        """Store the events of evaluations, and their statuses in the table of executions."""
        rows = [self._row_of(event) for event in events]

        def store(connection: Connection) -> None:
            for statement, is_whole in ((_OF_WHOLE, True), (_OF_PARTITION, False)):
                chosen = [row for row in rows if (row["checked_partition"] is None) is is_whole]
                if chosen:
                    connection.exec_driver_sql(statement, {name: [row[name] for row in chosen] for name in chosen[0]})

        self._retried(store)

    def _row_of(self, event: EventLogEntry) -> Mapping[str, Any]:
        """Return the values of an evaluation, for its event and for the table of executions."""
        evaluation = event.get_dagster_event().asset_check_evaluation_data
        judged, passed = evaluation.target_materialization_data, evaluation.passed
        status = AssetCheckExecutionRecordStatus.SUCCEEDED if passed else AssetCheckExecutionRecordStatus.FAILED
        return {
            **self._event_to_row(event),
            "checked_asset": evaluation.asset_key.to_string(),
            "check_name": evaluation.check_name,
            "checked_partition": evaluation.partition,
            "status": status.value,
            "materialization": judged.storage_id if judged else None,
        }

    def _store_asset_check_evaluation_planned(self, event: EventLogEntry, event_id: int | None) -> None:
        """Store the planned executions of a check; Dagster serialises and sends the event for each partition anew."""
        planned = cast("AssetCheckEvaluationPlanned", event.get_dagster_event().event_specific_data)
        subset = planned.partitions_subset
        values = {
            "asset": planned.asset_key.to_string(),
            "check": planned.check_name,
            "partitions": [*subset.get_partition_keys()] if subset else [None],
            "run_id": event.run_id,
            "status": AssetCheckExecutionRecordStatus.PLANNED.value,
            "event": serialize_value(event),
            "timestamp": self._event_insert_timestamp(event),  # type: ignore[no-untyped-call]  # Dagster has no types here
            "id": event_id,
        }
        with self.index_connection() as connection:
            connection.exec_driver_sql(_PLANNED, values)

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        """Yield the connection of the event this thread stores, or else one of the pool."""
        held: Connection | None = getattr(self._of_event, "connection", None)
        if held is None:
            with super()._connect() as connection:
                yield connection
        elif held.in_transaction():
            yield held
        else:
            with held.begin():
                yield held
