"""The comments of the schemas, of what libraries create in them, and of views, which are created with theirs."""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection

from seller_platform.capabilities import capabilities
from seller_platform.warehouse.postgres.database import DAGSTER_SCHEMA, driver_of
from seller_platform.warehouse.postgres.versions import VERSION_SCHEMA, VERSION_TABLE

_SCHEMAS = {
    "seller": "What the API lists, one table for each list; views *_latest have the newest snapshot of each account.",
    "history": "Former rows of schema seller, and functions that return its tables as they were at a moment.",
    "partitions": "The partitions of the tables in seller and history, by the hash of the account; query those tables.",
    "marts": "Tables that are computed from schema seller.",
    "platform": "Accounts, receipts of loads and builds, and what the programs keep for themselves.",
    DAGSTER_SCHEMA: "Dagster's own tables: its runs, events, partitions and schedules.",
}
_VERSION = {
    (): "The migration that the schemas are at, in one row.",
    ("version_num",): "The number of the migration.",
    ("views",): "The number of the migration whose functions and views there are.",
}


def schemas() -> Mapping[str, str]:
    """Return what each schema holds."""
    contributed_by = (capability.schemas for capability in capabilities())
    return {**_SCHEMAS, **dict(item for each in contributed_by for item in each.items())}


def comment_on_schemas(connection: Connection) -> None:
    """Comment on every schema, and on the table with their version."""
    driver = driver_of(connection)
    for schema, comment in schemas().items():
        driver.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(schema), sql.Literal(comment)))
    for column, comment in _VERSION.items():
        kind = sql.SQL("COLUMN" if column else "TABLE")
        named = sql.Identifier(VERSION_SCHEMA, VERSION_TABLE, *column)
        driver.execute(sql.SQL("COMMENT ON {} {} IS {}").format(kind, named, sql.Literal(comment)))


def create_view(
    driver: psycopg.Connection[Any], view: str, query: sql.Composable, comment: str, columns: Mapping[str, str]
) -> None:
    """Create a view anew with its comments, in place where its columns stay: views of others may read it.

    Args:
        view: Its name, with its schema.
        columns: The comments of its columns, by name.
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
