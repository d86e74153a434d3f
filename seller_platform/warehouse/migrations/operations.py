"""What Alembic's operations lack: an index that readers and loads do not wait for, also of a partitioned table."""

from typing import LiteralString

from alembic import op
from psycopg import sql

from seller_platform.warehouse.postgres.database import driver_of

_PARTITIONS = """
SELECT CAST(relnamespace::regnamespace AS text), relname FROM pg_inherits
JOIN pg_class AS class ON class.oid = inhrelid WHERE inhparent = %s::regclass ORDER BY relname
"""
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"
_CREATE = "CREATE INDEX {} IF NOT EXISTS {} ON {} {}"


def create_index(name: LiteralString, table: LiteralString, definition: LiteralString) -> None:
    """Build an index, of a partitioned table partition by partition.

    What the migration did before is committed. If the process is killed, the migration runs again and this goes on.

    Args:
        table: With its schema.
        definition: The columns in brackets, and what CREATE INDEX takes after them; `USING` before them.
    """
    schema, _, of = table.partition(".")
    with op.get_context().autocommit_block():
        driver = driver_of(op.get_bind())
        parts = driver.execute(_PARTITIONS, [table]).fetchall()
        builds = [("CONCURRENTLY", f"{part}_{name}", (at, part)) for at, part in parts]
        # That of the whole table takes those of its partitions, and builds nothing.
        builds.append(("" if parts else "CONCURRENTLY", name, (schema, of)))
        for how, index, indexed in builds:
            # A build waits for older transactions, which wait for nothing of it.
            driver.execute("SET lock_timeout = 0" if how else "RESET lock_timeout")
            if driver.execute(_IS_VALID, [f"{indexed[0]}.{index}"]).fetchone() == (False,):  # its process was killed
                driver.execute(sql.SQL("DROP INDEX CONCURRENTLY {}").format(sql.Identifier(indexed[0], index)))
            named = (sql.SQL(how), sql.Identifier(index), sql.Identifier(*indexed), sql.SQL(definition))
            driver.execute(sql.SQL(_CREATE).format(*named))
        driver.execute("RESET lock_timeout")
