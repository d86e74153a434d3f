"""The views `seller.<dataset>_latest`: of each account the newest snapshot.

They are created anew after each upgrade, because their columns are those of the tables.
"""

from psycopg import sql
from sqlalchemy import Connection

from seller_platform.contract import DATASETS
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.comments import create_view
from seller_platform.warehouse.schema.tables import SELLER

_COLUMNS = """
SELECT attname, col_description(attrelid, attnum) FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""

# The newest snapshot may have no rows: its slice has its day.
_VIEW = sql.SQL("""
SELECT {columns}
FROM platform.accounts AS known
CROSS JOIN LATERAL (
    SELECT greatest((SELECT max({day}) FROM {table} WHERE account = known.key),
                    (SELECT newest_day FROM platform.slices
                     WHERE dataset = {name} AND account = known.key)) AS day
) AS newest
JOIN {table} AS stored ON stored.account = known.key AND stored.{day} = newest.day
""")


def create_latest_views(connection: Connection) -> None:
    """Create the view of each dataset that keeps snapshots, with the comments of its table's columns."""
    driver = driver_of(connection)
    for dataset in [each for each in DATASETS if each.keeps_snapshots]:
        columns = dict(driver.execute(_COLUMNS, [dataset.table]).fetchall())
        query = _VIEW.format(
            columns=sql.SQL(", ").join(sql.Identifier("stored", name) for name in columns),
            day=sql.Identifier(dataset.slice_column),
            table=sql.Identifier(SELLER, dataset.name),
            name=sql.Literal(dataset.name),
        )
        comment = f"The newest snapshot of each account. {dataset.doc}"
        create_view(driver, f"{dataset.table}_latest", query, comment, columns)
