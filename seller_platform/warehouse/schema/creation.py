"""Creates the schemas, tables and views of a database with their comments.

A table whose rows belong to accounts is partitioned by the hash of the account. All tables have the same number of
partitions, which a database keeps.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection, MetaData, Table

from seller_platform.capabilities import capabilities
from seller_platform.warehouse.postgres.database import DAGSTER_SCHEMA, PARTITIONS, driver_of
from seller_platform.warehouse.schema.tables import METADATA, declared

_SCHEMAS = {
    "seller": "What the API lists, one table for each list; views *_latest have the newest snapshot of each account.",
    "history": "Former rows of schema seller, and functions that return its tables as they were at a moment.",
    "partitions": "The partitions of the tables in seller and history, by the hash of the account; query those tables.",
    "marts": "Tables that are computed from schema seller.",
    "platform": "Accounts, receipts of loads and builds, and what the programs keep for themselves.",
    DAGSTER_SCHEMA: "Dagster's own tables: its runs, events, partitions and schedules.",
}

# A refresh changes few rows of a large table; at the default share its dead rows would stay for months.
_PARTITION = sql.SQL(
    "CREATE TABLE {} PARTITION OF {} FOR VALUES WITH (MODULUS {}, REMAINDER {}) "
    "WITH (autovacuum_vacuum_scale_factor = 0.02)"
)

_NUMBER = """
SELECT max(number) FROM (
    SELECT count(*) AS number FROM pg_inherits JOIN pg_class AS class ON class.oid = inhparent
    WHERE relnamespace = 'seller'::regnamespace GROUP BY class.oid
) AS tables
"""


def partitions_of(connection: Connection) -> int:
    """Return how many partitions the tables of a database have."""
    return int(connection.exec_driver_sql(_NUMBER).scalar_one())


@cache
def partition_of(table: Table, number: int) -> Table:
    """Return a partition of a table, for statements about it alone; they are numbered from 0."""
    return table.to_metadata(MetaData(), schema=PARTITIONS, name=f"{table.schema}_{table.name}_{number}")


def create_tables(connection: Connection, partitions: int) -> None:
    """Create every schema, table and trigger; a table whose rows belong to accounts with so many partitions."""
    driver = driver_of(connection)
    for schema in schemas():
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    declared().create_all(connection, checkfirst=False)
    for table in METADATA.tables.values():
        if table.dialect_options["postgresql"]["partition_by"]:
            parent = sql.Identifier(str(table.schema), table.name)
            for number in range(partitions):
                partition = sql.Identifier(PARTITIONS, partition_of(table, number).name)
                driver.execute(_PARTITION.format(partition, parent, partitions, number))


def schemas() -> Mapping[str, str]:
    """Return what each schema holds."""
    contributed_by = (capability.schemas for capability in capabilities())
    return {**_SCHEMAS, **dict(item for each in contributed_by for item in each.items())}


def comment_on_schemas(connection: Connection) -> None:
    """Comment on every schema."""
    driver = driver_of(connection)
    for schema, comment in schemas().items():
        driver.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(schema), sql.Literal(comment)))


def create_view(
    driver: psycopg.Connection[Any], view: str, query: sql.Composable, comment: str, columns: Mapping[str, str]
) -> None:
    """Create a view, whose name has its schema, anew with the comments of its columns.

    It is replaced where its columns stay: views of others may read it.
    """
    name = sql.Identifier(*view.split("."))
    create = sql.SQL("CREATE OR REPLACE VIEW {} AS {}").format(name, query)
    try:
        with driver.transaction():
            driver.execute(create)
    except psycopg.errors.InvalidTableDefinition:  # it is replaced only if it has the same first columns
        driver.execute(sql.SQL("DROP VIEW {}").format(name))
        driver.execute(create)
    driver.execute(sql.SQL("COMMENT ON VIEW {} IS {}").format(name, sql.Literal(comment)))
    for column, described in columns.items():
        commented = sql.SQL("{}.{}").format(name, sql.Identifier(column))
        driver.execute(sql.SQL("COMMENT ON COLUMN {} IS {}").format(commented, sql.Literal(described)))
