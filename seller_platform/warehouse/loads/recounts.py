"""Counts what is stored of the newest loads, so that checks need no other load."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from psycopg import sql
from psycopg.rows import dict_row

from seller_platform.contract import Dataset, Slicing, Source, Window
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.tables import SELLER

Part = tuple[str, Window | None]
"""An account with its month, or without one where the slices are no months; of accounts the connection."""


@dataclass(frozen=True)
class RowCounts:
    """The rows of a slice.

    Attributes:
        missing_keys: Rows without a value in a column of their key.
        duplicate_keys: Rows whose key another row before them has.
    """

    rows: int
    missing_keys: int
    duplicate_keys: int

    @classmethod
    def of(cls, receipt: Receipt) -> "RowCounts":
        """Return the rows as a load stored them."""
        notes = receipt.notes or {}
        missing = notes.get("null_keys", {"rows": 0})["rows"]
        return cls(receipt.rows, missing, notes.get("duplicate_keys", 0))


_COUNTED = """
WITH chosen (account, month) AS (SELECT * FROM unnest(%(accounts)s::text[], %(months)s::date[])),
newest AS (
    SELECT DISTINCT ON (account, {part}) loads.*
    FROM platform.loads
    WHERE dataset = %(dataset)s AND verdict <> 'held'
      AND (%(all)s OR (account, {month}) IN (SELECT account, coalesce(month, {month}) FROM chosen))
    ORDER BY account, {part}, id DESC
)
SELECT newest.*, counted.*
FROM newest
CROSS JOIN LATERAL (
    SELECT count(*) AS stored_rows, {missing} AS missing_keys, {duplicates} AS duplicates
    FROM {table} AS stored
    WHERE {inside}
) AS counted
ORDER BY newest.account, newest.window_start, newest.id
"""
_DAYS = """
stored.account = newest.account AND stored.{day} >= newest.window_start AND stored.{day} < newest.window_end
"""
_MONTH = sql.SQL("date_trunc('month', loads.window_start)::date")
_REPORT = sql.SQL("loads.notes ->> 'report_id'")


def recounted(
    database: Database, dataset: Dataset, parts: Sequence[Part] | None = None
) -> Iterator[tuple[Receipt, RowCounts]]:
    """Yield the newest published load of each part, with the rows that are stored now of its days.

    Of a report, each one that was loaded is a part of its account. One statement counts all parts.

    Args:
        parts: The parts; None for all.
    """
    key = [sql.SQL("stored.{}").format(sql.Identifier(name)) for name in dataset.key]
    tagged = [*key, *(sql.SQL("stored.{}").format(sql.Identifier(column.name)) for column in dataset.tags)]
    zero = sql.SQL("0::bigint")
    day = sql.Identifier(dataset.slice_column)
    if dataset.slicing is Slicing.CONNECTION:
        inside: sql.Composable = sql.SQL("stored.{} = newest.account").format(day)
    else:
        inside = sql.SQL(_DAYS).format(day=day)
    part: sql.Composable = _MONTH if dataset.is_dated else sql.SQL("dataset")
    if dataset.source is Source.REPORT:
        part, inside = _REPORT, inside + sql.SQL(" AND stored.report_id = newest.notes ->> 'report_id'")
    lacks = sql.SQL(" OR ").join(each + sql.SQL(" IS NULL") for each in key)
    distinct = sql.SQL("count(*) - count(DISTINCT row({}))").format(sql.SQL(", ").join(tagged))
    statement = sql.SQL(_COUNTED).format(
        part=part,
        month=_MONTH if dataset.is_dated else sql.SQL("'epoch'::date"),
        missing=sql.SQL("count(*) FILTER (WHERE {})").format(lacks) if key else zero,
        duplicates=distinct if key else zero,
        table=sql.Identifier(SELLER, dataset.name),
        inside=inside,
    )
    bound = {
        "dataset": dataset.name,
        "all": parts is None,
        "accounts": [account for account, _ in parts or ()],
        "months": [month and month.start for _, month in parts or ()],
    }
    with database.begin() as connection, driver_of(connection).cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(statement, bound):
            stored = RowCounts(row.pop("stored_rows"), row.pop("missing_keys"), row.pop("duplicates"))
            yield Receipt.of(row), stored
