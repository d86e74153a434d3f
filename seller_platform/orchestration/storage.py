"""Dagster's storage on our PostgreSQL: dagster-postgres with one pool of connections.

dagster-postgres opens a connection for nearly every statement, which took most of the time that Dagster needs beside a
load. As in dagster-postgres, an event is committed before any work that takes long: sensors read events in the order of
their numbers, so no event may become visible long after a later one.

Any Dagster deployment can use the storage, with the options of dagster-postgres. Its tables are then where the search
path of its role leads, or in the schema of the option `schema`. Without a server among the options it is that of our
settings, so that `dagster.yaml` has neither a path nor a password, and the schema is `dagster`. The plain
`storage: postgres:` of dagster-postgres also works, with `options=-csearch_path=dagster` in its URL.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, cast

import dagster as dg
import stamina
from dagster_postgres.event_log import PostgresEventLogStorage
from dagster_postgres.run_storage import PostgresRunStorage
from dagster_postgres.schedule_storage import PostgresScheduleStorage
from dagster_postgres.storage import DagsterPostgresStorage
from dagster_postgres.utils import DagsterPostgresException, pg_config, pg_url_from_config, retry_pg_connection_fn
from sqlalchemy import URL, ExceptionContext, create_engine, func, select, text
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool
from sqlalchemy.schema import CreateSchema

from seller_platform.errors import DatabaseFullError, InvalidSettingError, WarehouseUnavailableError, followed
from seller_platform.settings import read_settings
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import DAGSTER_SCHEMA, Database, driver_url
from seller_platform.warehouse.postgres.location import warehouse_url
from seller_platform.warehouse.postgres.refusals import refusal_of
from seller_platform.warehouse.postgres.sessions import check_server, session
from seller_platform.warehouse.postgres.urls import place_of

_LOG = logging.getLogger(__name__)

_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_DELETE = text("DELETE FROM event_logs WHERE run_id = :run_id AND event = :event")


class PooledPostgresStorage(DagsterPostgresStorage):
    """dagster-postgres with one pool for its three parts."""

    def __init__(
        self,
        postgres_url: str,
        should_autocreate_tables: bool = True,  # Dagster's signature
        inst_data: Any = None,
        *,
        schema: str | None = None,
    ) -> None:
        url = _session_url(postgres_url, schema)
        super().__init__(url.render_as_string(hide_password=False), should_autocreate_tables, inst_data)
        engine = create_engine(
            url, isolation_level="AUTOCOMMIT", poolclass=QueuePool, pool_size=4, max_overflow=16, pool_pre_ping=True
        )
        listen(engine, "handle_error", _raise_if_full)
        listen(engine, "first_connect", lambda driver, _: check_server(driver, postgres_url, {"search_path": None}))
        self._events = _EventLogStorage(self.postgres_url, should_autocreate_tables)
        parts: Iterable[Any] = (self.run_storage, self.event_log_storage, self.schedule_storage)
        for part in parts:
            part._engine = engine  # no parameter sets it: https://github.com/dagster-io/dagster/issues/33935

    @property
    def event_log_storage(self) -> PostgresEventLogStorage:
        return self._events

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        """Return the options of dagster-postgres, and the schema of the tables."""
        sentence = "The schema of Dagster's tables. By default, the first one of the search path of the role."
        return {
            **cast("Mapping[str, Any]", pg_config()),
            "schema": dg.Field(dg.StringSource, is_required=False, description=sentence),
        }

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Mapping[str, Any]) -> Self:
        names_server = "postgres_url" in config_value or "postgres_db" in config_value
        creates, schema = config_value.get("should_autocreate_tables", True), config_value.get("schema")
        if names_server:
            url = pg_url_from_config(config_value)
            if schema is not None and creates:
                engine = create_engine(_session_url(url, schema), poolclass=NullPool)
                with retry_pg_connection_fn(engine.connect) as connection, connection.begin():
                    # Also where the schema exists, it would need the right to create one.
                    if connection.execute(select(func.to_regnamespace(schema))).scalar() is None:
                        connection.execute(CreateSchema(schema, if_not_exists=True))
            return cls(url, creates, inst_data, schema=schema)
        url = warehouse_url(read_settings())
        if schema in (None, DAGSTER_SCHEMA):
            with Database(url, connections=1) as database:
                for attempt in _attempts():
                    with attempt:
                        migrate(database)
        return cls(url, creates, inst_data, schema=schema or DAGSTER_SCHEMA)


class _StoragePart:
    """A part of a `PooledPostgresStorage`, for Dagster's Helm chart, which always configures three parts.

    Dagster's own class for such a part, `LegacyEventLogStorage`, knows no pools.
    """

    part: str

    config_type = PooledPostgresStorage.config_type

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Mapping[str, Any]) -> Any:
        return getattr(PooledPostgresStorage.from_config_value(inst_data, config_value), cls.part)


class PooledRunStorage(_StoragePart, PostgresRunStorage):
    part = "run_storage"


class PooledEventLogStorage(_StoragePart, PostgresEventLogStorage):
    part = "event_log_storage"


class PooledScheduleStorage(_StoragePart, PostgresScheduleStorage):
    part = "schedule_storage"


def _raise_if_full(context: ExceptionContext) -> None:
    """Name a full disk. Dagster prints errors of its storage before ours, with statements and all their values."""
    if context.engine is not None:
        refusal = refusal_of(context.original_exception, where=place_of(context.engine.url))
        if isinstance(refusal, DatabaseFullError):
            raise refusal from context.original_exception


def _session_url(postgres_url: str, schema: str | None) -> URL:
    """Return a URL with all parameters of its connections, which find their tables in a schema.

    The statements of Dagster and of this package name no schema. Without one, the search path of the role counts.
    """
    if schema is not None and _SCHEMA_NAME.fullmatch(schema) is None:
        problem = f"has the schema {schema!r}; use lower-case letters, digits and underscores"
        raise InvalidSettingError("storage in dagster.yaml", problem)
    url = driver_url(postgres_url, "psycopg2")
    return url.update_query_dict(session(url, {"search_path": schema}))


class _EventLogStorage(PostgresEventLogStorage):
    """The event log of dagster-postgres, which stores an event again if its connection is lost."""

    def store_event(self, event: dg.EventLogEntry) -> None:
        """Store an event, and try again while the server restarts.

        It stores an event in several transactions. What a lost connection may have left of it is deleted before.
        """
        for attempt in _attempts():
            with attempt:
                if attempt.num > 1:
                    with self.index_connection() as connection:
                        connection.execute(_DELETE, {"run_id": event.run_id, "event": dg.serialize_value(event)})
                super().store_event(event)


def _attempts() -> Iterator[stamina.Attempt]:
    """Yield attempts until one succeeds, for as long as the server restarts. Thus a restart fails no run."""

    def is_away(error: Exception) -> bool:
        if isinstance(error, WarehouseUnavailableError):
            _LOG.warning("%s", followed(str(error), "Attempts go on for half a minute."))
        is_lost = isinstance(error, DBAPIError) and error.connection_invalidated
        return is_lost or isinstance(error, WarehouseUnavailableError | DagsterPostgresException)

    return iter(stamina.retry_context(is_away, attempts=6, timeout=None, wait_initial=1, wait_max=15, wait_jitter=0))
