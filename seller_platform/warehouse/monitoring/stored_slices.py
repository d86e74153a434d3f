"""How many slices are stored, and of which datasets they changed."""

from collections.abc import Collection

from psycopg.rows import tuple_row

from seller_platform.contract import Dataset
from seller_platform.warehouse.postgres.database import Database, driver_of

_COUNT = """
SELECT count(*), coalesce(sum(rows), 0)::bigint FROM platform.slices
WHERE dataset = %(dataset)s AND (%(accounts)s::text[] IS NULL OR account = ANY (%(accounts)s::text[]))
"""
_CHANGED = """
SELECT DISTINCT dataset FROM platform.slices
WHERE transaction_id >= pg_snapshot_xmin(%(before)s::pg_snapshot)
  AND NOT pg_visible_in_snapshot(transaction_id, %(before)s::pg_snapshot)
"""
_NOW = """
SELECT pg_current_snapshot()::text, pg_snapshot_xmax(%(before)s::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
"""


def stored_slices(database: Database, dataset: Dataset, accounts: Collection[str] | None) -> tuple[int, int]:
    """Return how many slices of a dataset were loaded or tried, and how many rows they have.

    Args:
        accounts: The keys of the accounts, or of the list of accounts the connections; None for all.
    """
    bound = {"dataset": dataset.name, "accounts": None if accounts is None else list(accounts)}
    with database.begin() as connection:
        return driver_of(connection).cursor(row_factory=tuple_row).execute(_COUNT, bound).fetchone() or (0, 0)


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
