"""What Alembic's operations lack: changes of large tables that readers and loads do not wait for.

Each commits what the migration did before it, and works in several transactions. A process may be killed between
them: when the migration runs again, each goes on where it was. Readers and loads use the tables meanwhile.
"""

from typing import LiteralString

from alembic import op
from psycopg import sql
from psycopg.errors import LockNotAvailable

from seller_platform.warehouse.postgres.advisory_locks import TRY_LOCK
from seller_platform.warehouse.postgres.database import driver_of

_PARTITIONS = """
SELECT nspname, relname FROM pg_inherits
JOIN pg_class AS class ON class.oid = inhrelid JOIN pg_namespace AS namespace ON namespace.oid = relnamespace
WHERE inhparent = %s::regclass ORDER BY relname
"""
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"

# The trigger fills the rows that programs of the version before write.
_TRIGGER = """
CREATE OR REPLACE FUNCTION platform.{name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.{column} := (SELECT {value} FROM (SELECT NEW.*) AS stored);
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER {name} BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION platform.{name}()
"""
_UNFILLED = """
SELECT DISTINCT account, to_char({day}, 'YYYY-MM') FROM {table}
WHERE {column} IS NULL AND ({value}) IS NOT NULL ORDER BY 1, 2
"""
_FILL = """
UPDATE {table} SET {column} = {value} WHERE account = %(account)s AND ctid = ANY (ARRAY(
    SELECT ctid FROM {table}
    WHERE account = %(account)s AND {day} >= CAST(%(month)s || '-01' AS date)
      AND {day} < CAST(%(month)s || '-01' AS date) + interval '1 month'
      AND {column} IS NULL AND ({value}) IS NOT NULL
    LIMIT {rows}
))
"""
_ROWS_AT_ONCE = 1_000
"""A load of the same month waits while so many rows are written, some hundredths of a second."""


def create_index(name: LiteralString, table: LiteralString, definition: LiteralString) -> None:
    """Build an index without a lock that a reader or a load waits for; of a partitioned table one by one.

    Args:
        table: With its schema.
        definition: The columns in brackets, and what CREATE INDEX takes after them; `USING` before them.
    """
    schema, _, of = table.partition(".")
    with op.get_context().autocommit_block():
        driver = driver_of(op.get_bind())
        parts = driver.execute(_PARTITIONS, [table]).fetchall()
        beside = [((at, f"{part}_{name}"), (at, part)) for at, part in parts] or [((schema, name), (schema, of))]
        # It waits for transactions that are older, which wait for nothing of it.
        driver.execute("SET lock_timeout = 0")
        for index, indexed in beside:
            is_valid = driver.execute(_IS_VALID, [".".join(index)]).fetchone()
            if is_valid == (False,):  # its process was killed, or it lost a deadlock
                driver.execute(sql.SQL("DROP INDEX CONCURRENTLY {}").format(sql.Identifier(*index)))
            if is_valid != (True,):
                create = sql.SQL("CREATE INDEX CONCURRENTLY {} ON {} {}")
                named = (sql.Identifier(index[1]), sql.Identifier(*indexed), sql.SQL(definition))
                driver.execute(create.format(*named))
        driver.execute("RESET lock_timeout")
        if parts:
            create = sql.SQL("CREATE INDEX IF NOT EXISTS {} ON ONLY {} {}")
            named = (sql.Identifier(name), sql.Identifier(schema, of), sql.SQL(definition))
            driver.execute(create.format(*named))
            for index, _ in beside:
                attach = sql.SQL("ALTER INDEX {} ATTACH PARTITION {}")
                driver.execute(attach.format(sql.Identifier(schema, name), sql.Identifier(*index)))


def fill_column(table: LiteralString, column: LiteralString, value: LiteralString, day: LiteralString) -> None:
    """Compute a column of every row from its other columns, and of the rows that programs go on to write.

    So a column changes its type, or is split: programs of the version before read and write the former one. A later
    version drops it, and the trigger. Rows are written under the lock that loads of their month hold.

    Args:
        table: A table of schema `seller` or `history` whose rows belong to accounts.
        value: An expression over columns of the row.
        day: The column with the day by which loads replace the table's rows.

    Raises:
        LockNotAvailable: A load held the lock of a month. All others are filled.
    """
    dataset = table.partition(".")[2]
    words = {"table": table, "column": column, "value": value, "day": day, "rows": _ROWS_AT_ONCE}
    trigger = _TRIGGER.format(name=f"fill_{column}_of_{table.replace('.', '_')}", **words)
    driver_of(op.get_bind()).execute(trigger.encode())
    with op.get_context().autocommit_block():
        driver = driver_of(op.get_bind())
        fill, busy = _FILL.format(**words).encode(), ""
        for account, month in driver.execute(_UNFILLED.format(**words).encode()).fetchall():
            lock, filled = f"{dataset}|{account}|{month}", _ROWS_AT_ONCE
            while filled == _ROWS_AT_ONCE:
                with driver.transaction():
                    if driver.execute(TRY_LOCK, {"name": lock}).fetchone() != (True,):
                        busy = lock
                        break
                    filled = driver.execute(fill, {"account": account, "month": month}).rowcount
        if busy:
            raise LockNotAvailable(f"a load holds the lock of {busy}")
