"""The schema of Dagster's tables, and such tables that are elsewhere.

A migration moves them into their schema. The storage of Dagster names it for each connection, so that neither the role
nor its search path decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from seller_platform.errors import DagsterTablesError
from seller_platform.warehouse.postgres.database import Database

DAGSTER_SCHEMA = "dagster"

_IS_THERE = text(f"SELECT to_regclass('{DAGSTER_SCHEMA}.event_logs') IS NOT NULL")
# Tables of another Dagster, into which this role cannot write, are no strays.
_STRAYS = text("""
SELECT quote_ident(namespace.nspname), (
    SELECT array_agg(relname::text ORDER BY relname) FROM pg_class
    WHERE relnamespace = namespace.oid AND relkind = 'r' AND relname = ANY (:names)
)
FROM pg_class AS logs
JOIN pg_namespace AS namespace ON namespace.oid = logs.relnamespace
WHERE logs.relname = 'event_logs' AND logs.relkind = 'r' AND namespace.nspname <> :own
  AND has_table_privilege(logs.oid, 'INSERT')
  AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = logs.oid AND attname = 'dagster_event_type')
ORDER BY 1
""")
_DROP_VIEWS = text("""
DO $$
DECLARE
    former record;
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = to_regclass('event_logs')) IS DISTINCT FROM 'r' THEN
        RETURN;
    END IF;
    FOR former IN
        SELECT relnamespace::regnamespace AS schema, relname AS name FROM pg_class
        WHERE relkind = 'v' AND pg_has_role(relowner, 'USAGE')
          AND obj_description(oid, 'pg_class') LIKE 'A table of Dagster, for programs that were started before%'
    LOOP
        EXECUTE format('DROP VIEW %s.%I', former.schema, former.name);
    END LOOP;
END $$
""")

TABLES = (
    "alembic_version",
    "asset_check_executions",
    "asset_daemon_asset_evaluations",
    "asset_event_tags",
    "asset_keys",
    "backfill_tags",
    "bulk_actions",
    "concurrency_limits",
    "concurrency_slots",
    "daemon_heartbeats",
    "dynamic_partitions",
    "event_logs",
    "instance_info",
    "instigators",
    "job_ticks",
    "jobs",
    "kvs",
    "pending_steps",
    "run_tags",
    "runs",
    "secondary_indexes",
    "snapshots",
)
"""The tables of Dagster, with that of its migrations."""


@dataclass(frozen=True)
class StrayTables:
    """Tables of Dagster in another schema than theirs, whose name is quoted as SQL needs it."""

    schema: str
    names: Sequence[str]


def place_tables(database: Database) -> None:
    """Ensure that Dagster's tables are in their schema or can be created there; a database is migrated if need be.

    Raises:
        DagsterTablesError: They are in another schema, and belong to another role.
        WarehouseUnavailableError: The server cannot be reached.
    """
    with database.begin() as connection:
        if are_placed(connection):
            return
    database.migrate()
    with database.begin() as connection:
        strays = stray_tables(connection)
        if strays and not are_placed(connection):
            raise DagsterTablesError({each.schema: each.names for each in strays})


def are_placed(connection: Connection) -> bool:
    """Whether Dagster's tables are in their schema."""
    return bool(connection.execute(_IS_THERE).scalar_one())


def stray_tables(connection: Connection) -> list[StrayTables]:
    """Return the schemas that have tables of Dagster beside its own schema."""
    rows = connection.execute(_STRAYS, {"names": list(TABLES), "own": DAGSTER_SCHEMA})
    return [StrayTables(schema, names) for schema, names in rows]


def drop_former_views(connection: Connection) -> None:
    """Drop the views with the former names of Dagster's tables, unless this connection itself uses them."""
    connection.execute(_DROP_VIEWS)
