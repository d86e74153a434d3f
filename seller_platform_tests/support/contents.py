"""What a database has, as counts and hashes: all rows, and those of every moment."""

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg
from psycopg import sql

from seller_platform.warehouse.postgres.database import Database, driver_of

_COLUMNS = """
SELECT nspname || '.' || relname, array_agg(attname::text ORDER BY attnum)
FROM pg_attribute
JOIN pg_class AS class ON class.oid = attrelid
JOIN pg_namespace AS namespace ON namespace.oid = relnamespace
WHERE nspname IN ('seller', 'history', 'platform', 'service', 'marts') AND relkind IN ('r', 'p') AND attnum > 0
  AND NOT attisdropped AND NOT relispartition AND relname <> 'schema_version'
GROUP BY 1
"""
_HASH = sql.SQL("""
SELECT count(*), coalesce(sum(hashtextextended(ROW({columns})::text, 0)::numeric), 0)::text FROM {table} AS stored
""")
_MOMENTS = """
SELECT DISTINCT percentile_disc(part) WITHIN GROUP (ORDER BY finished_at)
FROM platform.loads, unnest(ARRAY[0, 0.25, 0.5, 0.75, 1]) AS part GROUP BY part
"""


@dataclass(frozen=True)
class Contents:
    """What a database has.

    Attributes:
        columns: By table with its schema.
        hashes: How many rows, and the sum of their hashes: by table, and by `as_of` function and moment.
    """

    columns: Mapping[str, list[str]]
    hashes: Mapping[str, tuple[int, str]]


def contents_of(database: Database, columns_of: Contents | None = None) -> Contents:
    """Return what a database has.

    Args:
        columns_of: What it had: tables and columns that came afterwards are left out.
    """
    with database.begin() as connection:
        driver = driver_of(connection)
        columns = dict(driver.execute(_COLUMNS).fetchall()) if columns_of is None else columns_of.columns
        hashes = {}
        for table, names in columns.items():
            hashes[table] = _hash(driver, sql.Identifier(*table.split(".")), names)
        moments = driver.execute(_MOMENTS).fetchall()
        for table, names in columns.items():
            schema, _, name = table.partition(".")
            if schema == "seller":
                for (moment,) in moments:
                    function = sql.SQL("{}({})").format(sql.Identifier("history", f"{name}_as_of"), sql.Literal(moment))
                    hashes[f"{table} at {moment}"] = _hash(driver, function, names)
    return Contents(columns, hashes)


def _hash(driver: psycopg.Connection, table: sql.Composable, columns: list[str]) -> tuple[int, str]:
    names = sql.SQL(", ").join(sql.Identifier("stored", name) for name in columns)
    row = driver.execute(_HASH.format(columns=names, table=table)).fetchone()
    assert row is not None
    return row
