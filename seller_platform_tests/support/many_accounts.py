"""Tables as large as those of many accounts: the stored rows of one account under thousands of keys."""

from collections.abc import Iterable

import psycopg
from psycopg import sql

from seller_platform.contract import DATASETS, LISTS, Slicing
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import HISTORY, SELLER, history_of, table_for
from seller_platform_tests.support.stored_rows import connect, insert_rows, rows_of

KEY = "us-1"
OWNED = [dataset for dataset in DATASETS if dataset.slicing is not Slicing.CONNECTION]
"""The datasets whose rows are those of an account."""

_REPEAT = """
INSERT INTO {table} (account, {others}) SELECT 'other ' || number, {others}
FROM {table}, generate_series(1, 2 + {rows} / (SELECT count(*) + 1 FROM {table})) AS number
"""


def store_large_lists(database: Database) -> None:
    """Connect an account, and store 20,000 rows or more in the table of each list, some of which are of it."""
    connect(database, KEY)
    for dataset in LISTS:
        insert_rows(database, dataset, KEY, rows_of(dataset, KEY))
    repeat_for_others(database, 20_000, [SELLER])


def repeat_for_others(database: Database, rows: int, schemas: Iterable[str] = (SELLER, HISTORY)) -> None:
    """Give other accounts the rows of the stored ones, so that each table that has some has at least so many."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        for schema in schemas:
            for table in map({SELLER: table_for, HISTORY: history_of}[schema], OWNED):
                others = [sql.Identifier(each.name) for each in table.columns if each.name != "account"]
                names = {"table": sql.Identifier(schema, table.name), "others": sql.SQL(", ").join(others)}
                connection.execute(sql.SQL(_REPEAT).format(**names, rows=sql.Literal(rows)))
        connection.execute("VACUUM ANALYZE")
