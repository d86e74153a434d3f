"""Slices of which a check may fail, by the rows of `platform.slices`; all others are counted."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from psycopg.rows import dict_row, tuple_row

from seller_platform.contract import Dataset
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database, driver_of

# The condition is that of the index `ix_slices_troubled`.
_COUNT = """
SELECT count(*), coalesce(sum(rows), 0)::bigint FROM platform.slices
WHERE dataset = %(dataset)s AND (%(accounts)s::text[] IS NULL OR account = ANY (%(accounts)s::text[]))
"""
_DOUBTFUL = """
SELECT account, coalesce(title, '') AS title, month, rows, recounted_rows, error, message, failed_since,
       failed_run_id, read_at, mismatched_load_ids, noted_load_ids, held_load_ids
FROM platform.slices LEFT JOIN platform.accounts ON accounts.key = slices.account
WHERE dataset = %(dataset)s AND (%(accounts)s::text[] IS NULL OR account = ANY (%(accounts)s::text[]))
  AND (error IS NOT NULL OR held_load_ids <> '{}' OR mismatched_load_ids <> '{}' OR noted_load_ids <> '{}'
       OR recounted_rows IS NOT NULL)
ORDER BY month DESC, account
"""
_LOADS = "SELECT * FROM platform.loads WHERE id = ANY (%(ids)s)"
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
    """A slice that is held, failed or noted, or whose rows do not add up.

    Attributes:
        account: The key of the account; of the list of accounts the connection.
        title: The account's title, if it has one.
        month: Its first day; None of a list without days.
        rows: How many rows its loads stored.
        recounted_rows: How many rows were counted since, if not as many.
        error: The class of the error when it was last tried; None if it was loaded.
        mismatches: The loads that do not add up to their total.
        noted: The loads with notes.
        holds: The readings that are held.
    """

    account: str
    title: str
    month: date | None
    rows: int
    recounted_rows: int | None
    error: str | None
    message: str | None
    failed_since: datetime | None
    failed_run_id: str | None
    read_at: datetime | None
    mismatches: Sequence[Receipt]
    noted: Sequence[Receipt]
    holds: Sequence[Receipt]


@dataclass(frozen=True)
class CheckedSlices:
    """The slices of a dataset that were loaded or tried: how many, with how many rows, and those in doubt."""

    count: int
    rows: int
    doubtful: Sequence[DoubtfulSlice]


def checked_slices(database: Database, dataset: Dataset, accounts: Collection[str] | None) -> CheckedSlices:
    """Return the slices of a dataset, newest months first.

    Args:
        accounts: The keys of the accounts, or of the list of accounts the connections; None for all.
    """
    bound = {"dataset": dataset.name, "accounts": None if accounts is None else list(accounts)}
    with database.begin() as connection:
        driver = driver_of(connection)
        count, stored = driver.cursor(row_factory=tuple_row).execute(_COUNT, bound).fetchone() or (0, 0)
        slices = driver.cursor(row_factory=dict_row).execute(_DOUBTFUL, bound).fetchall()
        columns = ("mismatched_load_ids", "noted_load_ids", "held_load_ids")
        ids = [load for each in slices for column in columns for load in each[column]]
        rows = driver.cursor(row_factory=dict_row).execute(_LOADS, {"ids": ids})
        receipts = {row["id"]: Receipt.of(row) for row in rows}
    doubtful = []
    for each in slices:
        mismatches, noted, holds = ([receipts[load] for load in each.pop(column)] for column in columns)
        doubtful.append(DoubtfulSlice(**each, mismatches=mismatches, noted=noted, holds=holds))
    return CheckedSlices(count, stored, doubtful)


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
