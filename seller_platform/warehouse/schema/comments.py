"""The comments of the schemas, and of what libraries create in them."""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection

from seller_platform.warehouse.postgres.database import DAGSTER_SCHEMA, VERSION_SCHEMA, VERSION_TABLE, driver_of

SCHEMAS = {
    "seller": "What the API lists, one table for each list; views *_latest have the newest snapshot of each account.",
    "history": "Former rows of schema seller, and functions that return its tables as they were at a moment.",
    "partitions": "The partitions of the tables in seller and history, by the hash of the account; query those tables.",
    "marts": "Tables that are computed from schema seller.",
    "platform": "Accounts, receipts of loads and builds, and what the programs keep for themselves.",
    "service": "What the REST API keeps beside the rows: users, applications, tokens, sums and reports.",
    DAGSTER_SCHEMA: "Dagster's own tables: its runs, events, partitions and schedules.",
}
"""What each schema holds."""

_VERSION = {
    (): "The migration that the schemas are at, in one row.",
    ("version_num",): "The number of the migration.",
    ("views",): "The number of the migration whose functions and views there are.",
}


def comment_on_schemas(connection: Connection) -> None:
    """Comment on every schema, and on the table with their version."""
    driver = driver_of(connection)
    for schema, comment in SCHEMAS.items():
        driver.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(schema), sql.Literal(comment)))
    for column, comment in _VERSION.items():
        kind = sql.SQL("COLUMN" if column else "TABLE")
        named = sql.Identifier(VERSION_SCHEMA, VERSION_TABLE, *column)
        driver.execute(sql.SQL("COMMENT ON {} {} IS {}").format(kind, named, sql.Literal(comment)))


def comment_on_view(driver: psycopg.Connection[Any], view: str, comment: str, columns: Mapping[str, str]) -> None:
    """Comment on a view, named with its schema, and on its columns."""
    name = sql.Identifier(*view.split("."))
    driver.execute(sql.SQL("COMMENT ON VIEW {} IS {}").format(name, sql.Literal(comment)))
    for column, described in columns.items():
        commented = sql.SQL("{}.{}").format(name, sql.Identifier(column))
        driver.execute(sql.SQL("COMMENT ON COLUMN {} IS {}").format(commented, sql.Literal(described)))
