"""When each account was last read up to its present day, by dataset."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from seller_platform.contract import Dataset
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.receipts import CLOCKS_DIFFER
from seller_platform.warehouse.postgres.database import Database

READ_WITHIN = timedelta(hours=26)
"""The refresh reads every account once a day; two hours are for its runs."""


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


# Windows end at borders of months, so that those with the present day begin within the last 31 days. Older receipts are
# looked at only where there is no such load.
_LAST_READINGS = text("""
    SELECT wanted.dataset, listed.account, coalesce(recent.read_at, older.read_at) AS read_at, seen.first_seen_at,
           recent.read_at IS NOT NULL OR older.is_loaded AS is_loaded
    FROM unnest(CAST(:accounts AS text[]), CAST(:zones AS text[])) AS listed (account, zone)
    JOIN platform.accounts AS seen ON seen.key = listed.account
    CROSS JOIN unnest(CAST(:datasets AS text[]), CAST(:are_computed AS boolean[])) AS wanted (dataset, is_computed)
    LEFT JOIN LATERAL (
        SELECT max(started_at) AS read_at
        FROM platform.loads
        WHERE loads.dataset = wanted.dataset AND loads.account = listed.account AND verdict <> 'held'
          AND window_start > CAST(CAST(:now AS timestamptz) AS date) - 40
          AND notes -> 'reverts_load' IS NULL AND started_at < CAST(:now AS timestamptz) + :clocks_differ
          AND window_end > CAST(started_at AT TIME ZONE listed.zone AS date)
    ) AS recent ON true
    LEFT JOIN LATERAL (
        SELECT max(started_at) FILTER (WHERE window_end > CAST(started_at AT TIME ZONE listed.zone AS date)) AS read_at,
               count(*) > 0 AS is_loaded
        FROM platform.loads
        WHERE recent.read_at IS NULL AND loads.dataset = wanted.dataset AND loads.account = listed.account
          AND verdict <> 'held' AND notes -> 'reverts_load' IS NULL
          AND started_at < CAST(:now AS timestamptz) + :clocks_differ
    ) AS older ON true
    WHERE recent.read_at IS NOT NULL OR older.read_at IS NOT NULL OR NOT wanted.is_computed
    ORDER BY 1, 2
""")


def last_readings(database: Database, datasets: Sequence[Dataset], *, now: datetime) -> tuple[LastReading, ...]:
    """Return the last reading of every dataset and listed account, by one statement.

    Left out are retired accounts, accounts that cannot be read, and computed datasets that were never read for an
    account: an upstream need not offer those.
    """
    usable = [account for account in accounts(database) if account.account.problem is None]
    bound = {
        "datasets": [dataset.name for dataset in datasets],
        "are_computed": [dataset.is_computed for dataset in datasets],
        "accounts": [account.key for account in usable],
        "zones": [account.zone_or_utc.key for account in usable],
        "now": now,
        "clocks_differ": CLOCKS_DIFFER,
    }
    with database.begin() as connection:
        return tuple(LastReading(*row) for row in connection.execute(_LAST_READINGS, bound))
