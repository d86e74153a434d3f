"""Selects stored rows of datasets and marts, and reads them in blocks.

Datasets and marts are read alike, as *relations*. A reader asks for any number of *parts* of one, and a single
statement reads them. The rows come as blocks of CSV, a few thousand at a time; only one block is in memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, TypeAlias

from psycopg import sql
from sqlalchemy import Connection

from seller_platform.contract import DATASETS, LOCAL_DAY, Column, Dataset, Kind, Slicing, Window
from seller_platform.errors import RequestError, did_you_mean
from seller_platform.warehouse.derived.declaration import Mart, MartColumn
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.loads.receipts import joined
from seller_platform.warehouse.postgres.database import driver_of, identifiers
from seller_platform.warehouse.schema.tables import HISTORY

ACCOUNT = "account"
ROWS_PER_BLOCK = 20_000

Source: TypeAlias = Dataset | Mart

SOURCES: tuple[Source, ...] = (*DATASETS, *MARTS)
"""What is read back and exported."""


@dataclass(frozen=True)
class Selection:
    """An account's rows of a window of local days; without one every day that is stored, of a snapshot the newest."""

    account: str
    window: Window | None = None


@dataclass(frozen=True)
class Relation:
    """A table that is read back.

    Attributes:
        schema: Of the table; the first part of the asset key, whose last is `name`.
        own: The columns that the contract or the mart declares.
        order: The columns that order the rows of an account; the others break ties.
        day: The column that places a row in a window; None where a row is of the account as a whole.
        keeps_snapshots: Whether the table holds one list after another, of which a reader wants the newest.
        has_account_parts: False for the accounts themselves.
        is_mart: Whether it is computed; its receipts are those of builds.
        is_monthly: Whether it is loaded month by month.
        as_of: The moment whose rows are read; None for those of now. Marts keep no former rows.
    """

    schema: str
    name: str
    own: tuple[Column | MartColumn, ...]
    order: tuple[str, ...]
    day: str | None
    keeps_snapshots: bool = False
    has_account_parts: bool = True
    is_mart: bool = False
    is_monthly: bool = False
    as_of: datetime | None = None

    @property
    def table(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def columns(self) -> tuple[tuple[str, Kind], ...]:
        """The columns that a reader gets: the account, the local day, and the relation's own."""
        own = tuple((column.name, column.kind) for column in self.own)
        day = () if self.day is None or self.day in dict(own) else ((self.day, Kind.DATE),)
        return ((ACCOUNT, Kind.TEXT), *day, *own)

    @property
    def currency(self) -> str:
        """The column that tells the currency of a row's amounts: its own, else the account, which has one."""
        return next((name for name, _ in self.columns if name.startswith("currency")), ACCOUNT)

    @property
    def source(self) -> sql.Composable:
        """The table or, for a moment, the function that returns its rows."""
        if self.as_of is None:
            return sql.Identifier(self.schema, self.name)
        return sql.SQL("{}({})").format(sql.Identifier(HISTORY, f"{self.name}_as_of"), sql.Literal(self.as_of))


def relation_of(source: Source) -> Relation:
    """Return the table of a dataset or a mart."""
    schema, _, name = source.table.partition(".")
    if isinstance(source, Mart):
        columns = (source.columns, source.key, source.day)
        return Relation(schema, name, *columns, is_mart=True, is_monthly=source.is_monthly)
    return Relation(
        schema,
        name,
        (*source.columns, *source.tags),
        source.order,
        None if source.slicing is Slicing.CONNECTION else LOCAL_DAY,
        keeps_snapshots=source.keeps_snapshots,
        has_account_parts=source.slicing is not Slicing.CONNECTION,
        is_monthly=source.is_dated,
    )


def source_named(name: str) -> Source:
    """Return the dataset or mart of a name, such as `orders`, `seller.orders` or `seller/orders`.

    Raises:
        RequestError: The platform has no such table.
    """
    for source in SOURCES:
        if name in (source.table, source.name, source.table.replace(".", "/")):
            return source
    allowed = [source.table if isinstance(source, Mart) else source.name for source in SOURCES]
    if "/" in name:
        allowed = [source.table.replace(".", "/") for source in SOURCES]
    choice = f"choose one of {', '.join(allowed)}"
    raise RequestError(
        f"there is no asset or table {name!r}{did_you_mean(name, allowed)}; {choice}", code="UnknownRelationError"
    )


def read_blocks(
    connection: Connection,
    relation: Relation,
    parts: Iterable[Selection] | None,
    columns: Sequence[str],
    *,
    rows_per_block: int = ROWS_PER_BLOCK,
) -> Iterator[bytes]:
    """Yield the rows of parts as CSV: by account, then as the API lists them.

    A null is an empty field, an empty text is `""`, and timestamps are in UTC. Rows of several parts come once. The
    errors are those of `merged`.

    Args:
        connection: In a transaction, which can only read from then on.
        parts: None for a relation without accounts.
        columns: Columns of the table; the relation's own, or those of its bookkeeping.
    """
    statement, bindings = _query(relation, parts, columns)
    connection.exec_driver_sql("SET TRANSACTION READ ONLY")
    block: list[bytes] = []
    with driver_of(connection).cursor() as cursor, cursor.copy(_COPY.format(query=statement), bindings) as copy:
        for row in copy:
            block.append(bytes(row))
            if len(block) == rows_per_block:
                yield b"".join(block)
                block.clear()
    if block:
        yield b"".join(block)


_COPY = sql.SQL("COPY ({query}) TO STDOUT (FORMAT csv)")

_ALL = "SELECT {columns} FROM {table} AS stored ORDER BY {order}"

_PARTS = """
SELECT {columns}
FROM {parts}
JOIN {table} AS stored ON stored.account = part.account AND {given}{within}
ORDER BY {order}
"""
_WITHIN = sql.SQL(
    " AND stored.{day} >= coalesce(part.first_day, '-infinity') AND stored.{day} < coalesce(part.end_day, 'infinity')"
)

# The newest snapshot may have no rows: the receipts have its day.
_SNAPSHOTS = """
SELECT {columns}
FROM {parts}
CROSS JOIN LATERAL (
    SELECT greatest((SELECT max({day}) FROM {table} AS stored WHERE account = part.account AND {given}),
                    (SELECT max(window_start) FROM platform.published_loads
                     WHERE dataset = {name} AND account = part.account AND finished_at <= {moment})) AS day
) AS newest
JOIN {table} AS stored
  ON stored.account = part.account
 AND stored.{day} >= coalesce(part.first_day, newest.day) AND stored.{day} < coalesce(part.end_day, newest.day + 1)
 AND {given}
ORDER BY {order}
"""

_GIVEN = sql.SQL(
    "unnest(%(accounts)s::text[], %(firsts)s::date[], %(ends)s::date[]) AS part (account, first_day, end_day)"
)
# So the partitions of other accounts are left out when the statement is planned.
_OF_GIVEN = sql.SQL("stored.account = ANY(%(accounts)s::text[])")


def _query(
    relation: Relation, parts: Iterable[Selection] | None, columns: Sequence[str]
) -> tuple[sql.Composed, dict[str, Any]]:
    ties = [name for name, _ in relation.columns if name not in (ACCOUNT, *relation.order)]
    day = sql.Identifier(relation.day or "")
    filled = {
        "columns": identifiers(columns, "stored"),
        "order": identifiers([ACCOUNT, *relation.order, *ties], "stored"),
        "table": relation.source,
        "moment": sql.Literal(relation.as_of or "infinity"),
        "day": day,
        "within": _WITHIN.format(day=day) if relation.day else sql.SQL(""),
        "name": sql.Literal(relation.name),
        "given": _OF_GIVEN,
        "parts": _GIVEN,
    }
    if not relation.has_account_parts:
        return sql.SQL(_ALL).format(**filled), {}
    statement = sql.SQL(_SNAPSHOTS if relation.keeps_snapshots else _PARTS)
    return statement.format(**filled), bound(merged(relation, parts or ()))


def bound(selections: Sequence[Selection]) -> dict[str, list[Any]]:
    """Return what a statement about parts is given."""
    return {
        "accounts": [each.account for each in selections],
        "firsts": [each.window and each.window.start for each in selections],
        "ends": [each.window and each.window.end for each in selections],
    }


def merged(relation: Relation, parts: Iterable[Selection]) -> list[Selection]:
    """Return parts that select the same rows, none of them twice.

    Raises:
        RequestError: A window is asked of a relation without days, an account of one without accounts, or both the
            newest snapshot and days.
    """
    if not relation.has_account_parts:
        raise RequestError(f"{relation.name} has no rows by account; read the table {relation.table} as a whole")
    selections: list[Selection] = []
    for account, group in groupby(sorted(parts, key=lambda part: part.account), key=lambda part: part.account):
        windows = [part.window for part in group]
        if relation.day is None and any(windows):
            raise RequestError(f"{relation.table} is of an account as a whole", step="Leave the window out.")
        whole = [None] if None in windows else []
        if whole and relation.keeps_snapshots and any(windows):
            raise RequestError(f"{relation.table}: ask either for the newest snapshot of {account} or for days")
        chosen = whole or joined([window for window in windows if window is not None])
        selections += [Selection(account, window) for window in chosen]
    return selections
