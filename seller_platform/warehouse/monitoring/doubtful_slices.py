"""What is wrong with the slices of a dataset, for its checks; all others are counted."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from psycopg.rows import class_row, tuple_row

from seller_platform.contract import Dataset
from seller_platform.warehouse.postgres.database import Database, driver_of

_COUNT = """
SELECT count(*), coalesce(sum(rows), 0)::bigint FROM platform.slices
WHERE dataset = %(dataset)s AND (%(accounts)s::text[] IS NULL OR account = ANY (%(accounts)s::text[]))
"""
_DOUBTS = """
SELECT doubt.account, coalesce(title, '') AS title, doubt.month, kind, doubt.error,
       coalesce(recounted_rows, slice.rows, 0) AS stored, announced, coalesce(since, read_at) AS since, doubt.message,
       coalesce(next_step, 'Follow the reason, then materialize the partition.') AS next_step, severity
FROM (
    SELECT dataset, account, month, kind, severity, error, since, load_id, message, next_step
    FROM platform.troubled_slices
    UNION ALL
    SELECT dataset, account, month, kind, severity, error, since, load_id, message, next_step
    FROM platform.noted_slices
) AS doubt
LEFT JOIN platform.slices AS slice ON slice.dataset = doubt.dataset AND slice.account = doubt.account
                                  AND slice.month IS NOT DISTINCT FROM doubt.month
LEFT JOIN platform.loads AS load ON load.id = doubt.load_id
LEFT JOIN platform.accounts ON accounts.key = doubt.account
WHERE doubt.dataset = %(dataset)s
  AND (%(accounts)s::text[] IS NULL OR doubt.account = ANY (%(accounts)s::text[]))
ORDER BY doubt.month DESC, doubt.account, doubt.load_id DESC
"""
_CHANGED = """
SELECT DISTINCT dataset FROM platform.slices
WHERE transaction_id >= pg_snapshot_xmin(%(before)s::pg_snapshot)
  AND NOT pg_visible_in_snapshot(transaction_id, %(before)s::pg_snapshot)
"""
_NOW = """
SELECT pg_current_snapshot()::text, pg_snapshot_xmax(%(before)s::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
"""


@dataclass(frozen=True)
class DoubtfulSlice:
    """What is wrong with a slice for one reason, as `platform.problems` has it.

    Attributes:
        account: The key of the account; of the list of accounts the connection.
        title: The account's title, if it has one.
        month: Its first day; None of a list without days.
        error: The class of the error of a failed slice.
        stored: How many rows are stored.
        announced: The total of the load that shows it, if it has one.
    """

    account: str
    title: str
    month: date | None
    kind: str
    error: str | None
    stored: int
    announced: int | None
    since: datetime | None
    message: str
    next_step: str
    severity: str


@dataclass(frozen=True)
class CheckedSlices:
    """The slices of a dataset that were loaded or tried: how many, with how many rows, and what is wrong."""

    count: int
    rows: int
    doubts: Sequence[DoubtfulSlice]


def checked_slices(database: Database, dataset: Dataset, accounts: Collection[str] | None) -> CheckedSlices:
    """Return the slices of a dataset, and what is wrong with them, newest months first.

    Args:
        accounts: The keys of the accounts, or of the list of accounts the connections; None for all.
    """
    bound = {"dataset": dataset.name, "accounts": None if accounts is None else list(accounts)}
    with database.begin() as connection:
        driver = driver_of(connection)
        count, stored = driver.cursor(row_factory=tuple_row).execute(_COUNT, bound).fetchone() or (0, 0)
        doubts = driver.cursor(row_factory=class_row(DoubtfulSlice)).execute(_DOUBTS, bound).fetchall()
    return CheckedSlices(count, stored, doubts)


def changed_datasets(database: Database, before: str) -> tuple[frozenset[str] | None, str]:
    """Return the names of datasets with slices that changed since a snapshot, and the snapshot of now.

    Args:
        before: What was returned as the snapshot; empty or of another server, the first is None: any may have changed.
    """
    with database.begin() as connection:
        cursor = driver_of(connection).cursor(row_factory=tuple_row)
        snapshot, is_of_server = cursor.execute(_NOW, {"before": before or None}).fetchone() or ("", False)
        if not is_of_server:
            return None, snapshot
        return frozenset(name for (name,) in cursor.execute(_CHANGED, {"before": before})), snapshot
