"""What a migration is made of: steps that readers and loaders do not wait for.

A step may end at any statement, because its process is killed: it goes on when it runs again, and does nothing where
it is done. Tables, columns and conditions are named by text, not by the declared tables: a migration never changes.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, LiteralString, NamedTuple, Protocol

import psycopg
from psycopg import sql

from seller_platform.errors import WarehouseError
from seller_platform.warehouse.migrations.short_locks import ShortLocks
from seller_platform.warehouse.postgres.advisory_locks import TRY_LOCK

_HAS_COLUMN = """
SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s AND NOT attisdropped)
"""
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"
_PARTITIONS = """
SELECT nspname, relname FROM pg_inherits
JOIN pg_class AS class ON class.oid = inhrelid JOIN pg_namespace AS namespace ON namespace.oid = relnamespace
WHERE inhparent = %s::regclass ORDER BY relname
"""


_HAS_TRIGGER = "SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = %s::regclass AND tgname = %s)"

# The trigger of a row computes from its other columns, whatever program writes it.
_FILL = sql.SQL("""
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT {expressions} INTO {values} FROM (SELECT NEW.*) AS stored;
    RETURN NEW;
END
$$;
CREATE TRIGGER {trigger} BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {function}()
""")
_UNFILLED = sql.SQL("""
SELECT tableoid::regclass::text, account, local_day, count(*) FROM {table} WHERE {is_unfilled}
GROUP BY tableoid, account, local_day ORDER BY 1, 2, 3
""")
_FILL_DAYS = sql.SQL("""
UPDATE {table} SET {column} = {column}
WHERE account = %(account)s AND local_day BETWEEN %(first)s AND %(last)s AND {is_unfilled}
""")
_VACUUM = sql.SQL("VACUUM (ANALYZE, TRUNCATE false) {}")
_ROWS_AT_ONCE = 20_000
_REPORT_SECONDS = 5.0
_PAUSE_SECONDS = 0.2

Report = Callable[[str], None]


class MigrationStep(Protocol):
    """A change of one table.

    Attributes:
        table: With its schema.
        passes: How often it goes through all rows; 0: its work does not depend on them.
    """

    passes: ClassVar[int]

    @property
    def table(self) -> str: ...

    def __str__(self) -> str:
        """Return what it does, to follow the number of its migration."""
        ...

    def is_done(self, locks: ShortLocks) -> bool:
        """Whether the database has it already."""
        ...

    def rows_left(self, locks: ShortLocks, rows: Mapping[str, int]) -> int:
        """Return how many rows it has yet to go through.

        Args:
            rows: Of each partition of its table.
        """
        ...

    def run(self, locks: ShortLocks, report: Report) -> None:
        """Do what is not done yet.

        Args:
            report: Receives a line every few seconds.

        Raises:
            WarehouseError: A lock was not free for a long time. What was done is kept.
        """
        ...

    def rehearse(self, driver: psycopg.Connection[Any], table: str) -> None:
        """Do the same with a table that no one else uses, which has some of the rows."""
        ...


@dataclass(frozen=True)
class AddColumn:
    """Adds a column, which every row has at once: null, or a constant default.

    Attributes:
        table: With its schema.
        definition: The type, and a constant default.
    """

    passes: ClassVar[int] = 0

    table: LiteralString
    column: LiteralString
    definition: LiteralString
    comment: LiteralString

    def __str__(self) -> str:
        return f"add column {self.column} to {self.table}"

    def is_done(self, locks: ShortLocks) -> bool:
        return locks.driver.execute(_HAS_COLUMN, [self.table, self.column]).fetchone() == (True,)

    def rows_left(self, locks: ShortLocks, rows: Mapping[str, int]) -> int:  # noqa: ARG002  # it goes through none
        return 0

    def run(self, locks: ShortLocks, report: Report) -> None:  # noqa: ARG002  # it takes a moment
        locks.transaction(lambda: self.rehearse(locks.driver, self.table))

    def rehearse(self, driver: psycopg.Connection[Any], table: str) -> None:
        names = {"table": identifier(table), "column": sql.Identifier(self.column)}
        add = sql.SQL("ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} {definition}")
        driver.execute(add.format(**names, definition=sql.SQL(self.definition)))
        comment = sql.SQL("COMMENT ON COLUMN {table}.{column} IS {comment}")
        driver.execute(comment.format(**names, comment=sql.Literal(self.comment)))


@dataclass(frozen=True)
class AddIndex:
    """Builds an index without a lock that a reader or a loader waits for; of a partitioned table one by one.

    Attributes:
        table: With its schema.
        definition: The columns in brackets, and what CREATE INDEX takes after them; `USING` before them.
    """

    passes: ClassVar[int] = 2  # built beside others, it reads the table once more

    table: LiteralString
    name: LiteralString
    definition: LiteralString

    def __str__(self) -> str:
        return f"build index {self.name} of {self.table}"

    def is_done(self, locks: ShortLocks) -> bool:
        return _is_valid(locks, _beside(self.table, self.name)) is True

    def rows_left(self, locks: ShortLocks, rows: Mapping[str, int]) -> int:
        return sum(rows[part] for part in rows if not _is_valid(locks, _beside(part, self._name_of(part))))

    def run(self, locks: ShortLocks, report: Report) -> None:
        parts = partitions_of(locks, self.table)
        if parts == [self.table]:
            self._build(locks, self.table, self.name)
            return
        names = [self._name_of(part) for part in parts]
        for number, (part, name) in enumerate(zip(parts, names, strict=True), start=1):
            self._build(locks, part, name)
            report(f"index {self.name}: built on partition {number} of {len(parts)}")
        create = sql.SQL("CREATE INDEX IF NOT EXISTS {} ON ONLY {} {}")
        locks.execute(create.format(sql.Identifier(self.name), identifier(self.table), sql.SQL(self.definition)))
        attach, of_parent = sql.SQL("ALTER INDEX {} ATTACH PARTITION {}"), identifier(_beside(self.table, self.name))
        for part, name in zip(parts, names, strict=True):
            locks.execute(attach.format(of_parent, identifier(_beside(part, name))))

    def rehearse(self, driver: psycopg.Connection[Any], table: str) -> None:
        create = sql.SQL("CREATE INDEX ON {} {}")
        driver.execute(create.format(identifier(table), sql.SQL(self.definition)))

    def _name_of(self, partition: str) -> str:
        return self.name if partition == self.table else f"{partition.partition('.')[2]}_{self.name}"

    def _build(self, locks: ShortLocks, table: str, name: str) -> None:
        index = _beside(table, name)
        drop = sql.SQL("DROP INDEX CONCURRENTLY {}").format(identifier(index))
        create = sql.SQL("CREATE INDEX CONCURRENTLY {} ON {} {}").format(
            sql.Identifier(name), identifier(table), sql.SQL(self.definition)
        )

        def build() -> None:
            is_valid = _is_valid(locks, index)
            if is_valid is False:  # its process was killed, or it lost a deadlock
                locks.driver.execute(drop)
            if not is_valid:
                locks.driver.execute(create)

        locks.run_alone(build)


class FilledColumn(NamedTuple):
    """A column whose value follows from other columns of its row.

    Attributes:
        expression: Of columns of the row.
    """

    name: LiteralString
    definition: LiteralString
    expression: LiteralString
    comment: LiteralString


@dataclass(frozen=True)
class FillColumns:
    """Writes every row of a dataset's table anew, with columns that follow from others of it.

    So a column changes its type, or is split: the new columns are filled, and the former one stays, because programs of
    the former version read and write it. A trigger fills the rows that they write. No step drops a column yet.

    The days of an account are filled under the lock that a load of them holds, 20,000 rows at once.

    Attributes:
        table: A table of schema `seller` or `history` whose rows belong to accounts.
    """

    passes: ClassVar[int] = 1

    table: LiteralString
    columns: Sequence[FilledColumn]

    def __str__(self) -> str:
        return f"fill {', '.join(column.name for column in self.columns)} of {self.table}"

    def is_done(self, locks: ShortLocks) -> bool:
        return self._has_trigger(locks.driver) and not self._unfilled(locks.driver)

    def rows_left(self, locks: ShortLocks, rows: Mapping[str, int]) -> int:
        if not self._has_trigger(locks.driver):
            return sum(rows.values())
        return sum(days.rows for days in self._unfilled(locks.driver))

    def run(self, locks: ShortLocks, report: Report) -> None:
        if not self._has_trigger(locks.driver):
            locks.transaction(lambda: self._begin(locks.driver, self.table))
        left, began = self._unfilled(locks.driver), time.monotonic()
        rows, done, reported, deadline = sum(days.rows for days in left), 0, began, began + locks.patience_seconds
        while left:
            blocked = []
            for days, following in zip(left, [*left[1:], None], strict=True):
                if not locks.transaction(lambda days=days: self._fill_unless_loaded(locks.driver, days)):  # type: ignore[misc]
                    blocked.append(days)
                    continue
                done, now = done + days.rows, time.monotonic()
                deadline = now + locks.patience_seconds
                if now - reported > _REPORT_SECONDS:
                    seconds = (now - began) / done * (rows - done)
                    report(f"{self.table}: {done / rows:.0%} of its rows are written, about {seconds:.0f} s left")
                    reported = now
                if following is None or following.partition != days.partition:
                    vacuum = _VACUUM.format(identifier(days.partition))
                    locks.run_alone(lambda vacuum=vacuum: locks.driver.execute(vacuum))  # type: ignore[misc]
            left = blocked
            if left and time.monotonic() > deadline:
                raise WarehouseError(
                    f"the days of {left[0].account} in {self.table} from {left[0].first} were loaded all the time",
                    code="TableInUseError",
                    step="Run `seller-platform migrate` again when the load has ended; it goes on where it was.",
                )
            if left:
                time.sleep(_PAUSE_SECONDS)

    def rehearse(self, driver: psycopg.Connection[Any], table: str) -> None:
        for column in self.columns:  # some of the rows may be filled already
            drop = sql.SQL("ALTER TABLE {} DROP COLUMN IF EXISTS {}")
            driver.execute(drop.format(identifier(table), sql.Identifier(column.name)))
        self._begin(driver, table)
        for days in self._unfilled(driver, table):
            self._fill(driver, days, table)

    def _begin(self, driver: psycopg.Connection[Any], table: str) -> None:
        for column in self.columns:
            AddColumn(self.table, column.name, column.definition, column.comment).rehearse(driver, table)
        driver.execute(
            _FILL.format(
                table=identifier(table),
                trigger=sql.Identifier(self._trigger),
                function=sql.Identifier("platform", f"{self._trigger}_{table.replace('.', '_')}"),
                expressions=sql.SQL(", ").join(sql.SQL(column.expression) for column in self.columns),
                values=sql.SQL(", ").join(sql.Identifier("new", column.name) for column in self.columns),
            )
        )

    def _fill_unless_loaded(self, driver: psycopg.Connection[Any], days: "_Days") -> bool:
        """Fill some days, and return whether no load of them held their lock."""
        lock = f"{self.table.partition('.')[2]}|{days.account}|{days.first:%Y-%m}"
        if driver.execute(TRY_LOCK, {"name": lock}).fetchone() != (True,):
            return False
        self._fill(driver, days, self.table)
        return True

    def _fill(self, driver: psycopg.Connection[Any], days: "_Days", table: str) -> None:
        column = sql.Identifier(self.columns[0].name)
        fill = _FILL_DAYS.format(table=identifier(table), column=column, is_unfilled=self._is_unfilled)
        driver.execute(fill, {"account": days.account, "first": days.first, "last": days.last})

    def _unfilled(self, driver: psycopg.Connection[Any], table: str | None = None) -> list["_Days"]:
        unfilled = _UNFILLED.format(table=identifier(table or self.table), is_unfilled=self._is_unfilled)
        return list(_together(driver.execute(unfilled).fetchall()))

    def _has_trigger(self, driver: psycopg.Connection[Any]) -> bool:
        return driver.execute(_HAS_TRIGGER, [self.table, self._trigger]).fetchone() == (True,)

    @property
    def _trigger(self) -> str:
        return f"fill_{self.columns[0].name}"

    @property
    def _is_unfilled(self) -> sql.Composed:
        conditions = [
            sql.SQL("({} IS NULL AND ({}) IS NOT NULL)").format(sql.Identifier(name), sql.SQL(expression))
            for name, _, expression, _ in self.columns
        ]
        return sql.SQL("({})").format(sql.SQL(" OR ").join(conditions))


class _Days(NamedTuple):
    """Days of one month of an account that are filled at once."""

    partition: str
    account: str
    first: date
    last: date
    rows: int


def _together(counted: Sequence[tuple[str, str, date, int]]) -> Iterator[_Days]:
    """Join days of the same month until they have enough rows."""
    days: _Days | None = None
    for partition, account, day, rows in counted:
        if (
            days is not None
            and (days.partition, days.account) == (partition, account)
            and (days.first.year, days.first.month) == (day.year, day.month)
            and days.rows + rows <= _ROWS_AT_ONCE
        ):
            days = days._replace(last=day, rows=days.rows + rows)
            continue
        if days is not None:
            yield days
        days = _Days(partition, account, day, day, rows)
    if days is not None:
        yield days


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
