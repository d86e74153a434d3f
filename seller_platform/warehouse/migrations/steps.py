"""What a migration is made of: steps that readers and loaders do not wait for.

A step may end at any statement, because its process is killed: it goes on when it runs again, and does nothing where
it is done. Tables, columns and conditions are named by text, not by the declared tables: a migration never changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString, Protocol

from psycopg import sql

from seller_platform.warehouse.migrations.short_locks import ShortLocks

_HAS_COLUMN = """
SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s AND NOT attisdropped)
"""
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"
_PARTITIONS = """
SELECT nspname, relname FROM pg_inherits
JOIN pg_class AS class ON class.oid = inhrelid JOIN pg_namespace AS namespace ON namespace.oid = relnamespace
WHERE inhparent = %s::regclass ORDER BY relname
"""


class MigrationStep(Protocol):
    """A change of one table."""

    def __str__(self) -> str:
        """Return what it does, to follow the number of its migration."""
        ...

    def is_done(self, locks: ShortLocks) -> bool:
        """Whether the database has it already."""
        ...

    def run(self, locks: ShortLocks) -> None:
        """Do what is not done yet."""
        ...


@dataclass(frozen=True)
class AddColumn:
    """Adds a column, which every row has at once: null, or a constant default.

    Attributes:
        table: With its schema.
        definition: The type, and a constant default.
    """

    table: LiteralString
    column: LiteralString
    definition: LiteralString
    comment: LiteralString

    def __str__(self) -> str:
        return f"add column {self.column} to {self.table}"

    def is_done(self, locks: ShortLocks) -> bool:
        return locks.driver.execute(_HAS_COLUMN, [self.table, self.column]).fetchone() == (True,)

    def run(self, locks: ShortLocks) -> None:
        names = {"table": identifier(self.table), "column": sql.Identifier(self.column)}
        add = sql.SQL("ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} {definition}")
        comment = sql.SQL("COMMENT ON COLUMN {table}.{column} IS {comment}")
        locks.execute(
            add.format(**names, definition=sql.SQL(self.definition)),
            comment.format(**names, comment=sql.Literal(self.comment)),
        )


@dataclass(frozen=True)
class AddIndex:
    """Builds an index without a lock that a reader or a loader waits for; of a partitioned table one by one.

    Attributes:
        table: With its schema.
        definition: The columns in brackets, and what CREATE INDEX takes after them; `USING` before them.
    """

    table: LiteralString
    name: LiteralString
    definition: LiteralString

    def __str__(self) -> str:
        return f"build index {self.name} of {self.table}"

    def is_done(self, locks: ShortLocks) -> bool:
        return _is_valid(locks, _beside(self.table, self.name)) is True

    def run(self, locks: ShortLocks) -> None:
        partitions = locks.driver.execute(_PARTITIONS, [self.table]).fetchall()
        if not partitions:
            self._build(locks, self.table, self.name)
            return
        parts = [(f"{schema}.{table}", f"{table}_{self.name}") for schema, table in partitions]
        for table, name in parts:
            self._build(locks, table, name)
        create = sql.SQL("CREATE INDEX IF NOT EXISTS {} ON ONLY {} {}")
        of_parent = identifier(_beside(self.table, self.name))
        locks.execute(create.format(sql.Identifier(self.name), identifier(self.table), sql.SQL(self.definition)))
        attach = sql.SQL("ALTER INDEX {} ATTACH PARTITION {}")
        for table, name in parts:
            locks.execute(attach.format(of_parent, identifier(_beside(table, name))))

    def _build(self, locks: ShortLocks, table: str, name: str) -> None:
        is_valid = _is_valid(locks, _beside(table, name))
        if is_valid is False:  # its process was killed
            locks.execute_alone(sql.SQL("DROP INDEX CONCURRENTLY {}").format(identifier(_beside(table, name))))
        if not is_valid:
            create = sql.SQL("CREATE INDEX CONCURRENTLY {} ON {} {}")
            locks.execute_alone(create.format(sql.Identifier(name), identifier(table), sql.SQL(self.definition)))


def identifier(name: str) -> sql.Identifier:
    """Return the name of a table with its schema, for a statement."""
    return sql.Identifier(*name.split("."))


def partitions_of(locks: ShortLocks, table: str) -> Sequence[str]:
    """Return the partitions of a table with their schema; of another table itself."""
    return [f"{schema}.{name}" for schema, name in locks.driver.execute(_PARTITIONS, [table]).fetchall()] or [table]


def _beside(table: str, index: str) -> str:
    """Return an index with the schema of its table."""
    return f"{table.partition('.')[0]}.{index}"


def _is_valid(locks: ShortLocks, index: str) -> bool | None:
    """Return whether an index can be used; None where there is none."""
    row = locks.driver.execute(_IS_VALID, [index]).fetchone()
    return None if row is None else bool(row[0])
