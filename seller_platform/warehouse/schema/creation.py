"""Creates the tables of a new database, as they are declared, with their partitions and triggers.

A table whose rows belong to accounts is partitioned by the hash of the account. All tables have the same number of
partitions, which a database keeps.
"""

from functools import cache

from psycopg import sql
from sqlalchemy import Connection, MetaData, Table

from seller_platform.warehouse.postgres.database import PARTITIONS, driver_of
from seller_platform.warehouse.schema.comments import schemas
from seller_platform.warehouse.schema.tables import METADATA, declared

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
    """Create every schema, table and trigger.

    Args:
        partitions: How many partitions a table has whose rows belong to accounts.
    """
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
