"""The functions `history.<dataset>_as_of`, which return the rows as they were stored at a moment."""

from psycopg import sql
from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql

from seller_platform.contract import DATASETS
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.tables import GONE_LOAD_ID, HISTORY, SELLER, table_for

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
    """Create each dataset's function anew, because its columns are those of the table."""
    for dataset in DATASETS:
        function = sql.Identifier(HISTORY, f"{dataset.name}_as_of")
        table = table_for(dataset)
        names = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
        statements = (
            sql.SQL("DROP FUNCTION IF EXISTS {}").format(function),
            _FUNCTION.format(
                function=function,
                columns=_columns(table),
                names=names,
                stored=sql.Identifier(SELLER, dataset.name),
                former=sql.Identifier(HISTORY, dataset.name),
                gone=sql.Identifier(GONE_LOAD_ID),
            ),
            _COMMENT.format(function, sql.Literal(f"Rows of {dataset.table} as they were stored at a moment.")),
        )
        for statement in statements:
            driver_of(connection).execute(statement)


def _columns(table: Table) -> sql.Composed:
    """Return the names and types of a table's columns."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy's
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.type.compile(dialect)))
        for column in table.columns
    )
