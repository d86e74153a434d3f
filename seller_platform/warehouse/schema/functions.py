"""The functions `history.<dataset>_as_of`, which return the rows as they were stored at a moment."""

from itertools import groupby
from operator import itemgetter

from psycopg import sql
from sqlalchemy import Connection

from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.tables import GONE_LOAD_ID, HISTORY, SELLER

_COLUMNS = """
SELECT class.relname, attribute.attname, format_type(attribute.atttypid, attribute.atttypmod)
FROM pg_attribute AS attribute
JOIN pg_class AS class ON class.oid = attribute.attrelid AND class.relkind = 'r'
WHERE class.relnamespace = %s::regnamespace AND attribute.attnum > 0 AND NOT attribute.attisdropped
  AND to_regclass(format('%%I.%%I', %s::text, class.relname)) IS NOT NULL
ORDER BY class.relname, attribute.attnum
"""

# PostgreSQL puts the query of such a function into the query that calls it, so that its conditions use the indexes.
_FUNCTION = sql.SQL("""
CREATE FUNCTION {function} (moment timestamptz) RETURNS TABLE ({columns}) LANGUAGE sql STABLE AS $$
    SELECT {names} FROM {stored}
    WHERE load_id NOT IN (SELECT id FROM platform.loads WHERE finished_at > moment)
    UNION ALL
    SELECT {names} FROM {former}
    WHERE load_id NOT IN (SELECT id FROM platform.loads WHERE finished_at > moment)
      AND {gone} IN (SELECT id FROM platform.loads WHERE finished_at > moment)
$$
""")

_COMMENT = sql.SQL("COMMENT ON FUNCTION {} IS {}")


def create_functions(connection: Connection) -> None:
    """Create each table's function anew, because its columns are those of the table."""
    driver = driver_of(connection)
    found = driver.execute(_COLUMNS, [SELLER, HISTORY]).fetchall()
    for table, columns in groupby(found, key=itemgetter(0)):
        types = {name: kind for _, name, kind in columns}
        function = sql.Identifier(HISTORY, f"{table}_as_of")
        driver.execute(sql.SQL("DROP FUNCTION IF EXISTS {}").format(function))
        driver.execute(
            _FUNCTION.format(
                function=function,
                columns=sql.SQL(", ").join(
                    sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in types.items()
                ),
                names=sql.SQL(", ").join(map(sql.Identifier, types)),
                stored=sql.Identifier(SELLER, table),
                former=sql.Identifier(HISTORY, table),
                gone=sql.Identifier(GONE_LOAD_ID),
            )
        )
        comment = f"Rows of {SELLER}.{table} as they were stored at a moment."
        driver.execute(_COMMENT.format(function, sql.Literal(comment)))
