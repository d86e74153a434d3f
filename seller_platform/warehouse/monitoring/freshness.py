"""When each account was last read up to its present day, by dataset."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from seller_platform.contract import Dataset
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import CLOCKS_DIFFER
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.problems import READ_WITHIN_HOURS

READ_WITHIN = timedelta(hours=READ_WITHIN_HOURS)
"""How long ago the last reading of an account may be."""


@dataclass(frozen=True)
class LastReading:
    """When a dataset of an account was last read.

    Attributes:
        read_at: The start of the last published reading that had the account's day in it; None if there is none.
        first_seen_at: When the account was discovered.
        is_loaded: Whether any day of it was ever read.
    """

    dataset: str
    account: str
    read_at: datetime | None
    first_seen_at: datetime
    is_loaded: bool

    def age_hours(self, now: datetime) -> float:
        """Return the hours since the reading, or else since the account was discovered."""
        return (now - (self.read_at or self.first_seen_at)).total_seconds() / 3600


_LAST_READINGS = text("""
    SELECT wanted.dataset, listed.account, stored.read_at, listed.first_seen_at, stored.is_loaded
    FROM (SELECT key AS account, first_seen_at FROM platform.accounts
          WHERE key = ANY(CAST(:accounts AS text[]))) AS listed
    CROSS JOIN unnest(CAST(:datasets AS text[]), CAST(:are_computed AS boolean[])) AS wanted (dataset, is_computed)
    CROSS JOIN LATERAL (
        SELECT max(current_at) FILTER (WHERE current_at < CAST(:now AS timestamptz) + :clocks_differ) AS read_at,
               count(*) > 0 AS is_loaded
        FROM platform.slices
        WHERE slices.dataset = wanted.dataset AND slices.account = listed.account
          AND read_at < CAST(:now AS timestamptz) + :clocks_differ
    ) AS stored
    WHERE is_loaded OR NOT wanted.is_computed
    ORDER BY 1, 2
""")


def last_readings(
    database: Database, datasets: Sequence[Dataset], listed: Iterable[KnownAccount], *, now: datetime
) -> tuple[LastReading, ...]:
    """Return the last reading of every dataset and listed account, by one statement.

    Left out are accounts that cannot be read, and computed datasets that were never read for an
    account: an upstream need not offer those.
    """
    bound = {
        "datasets": [dataset.name for dataset in datasets],
        "are_computed": [dataset.is_computed for dataset in datasets],
        "accounts": [account.key for account in listed if account.account.problem is None],
        "now": now,
        "clocks_differ": CLOCKS_DIFFER,
    }
    return tuple(LastReading(*row) for row in database.execute(_LAST_READINGS, bound))
