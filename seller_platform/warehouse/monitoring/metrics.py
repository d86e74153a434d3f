"""Measures for monitoring, read from receipts, however many rows there are."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, text

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import ACCOUNTS


@dataclass(frozen=True)
class LoadMeasures:
    """What receipts say of a dataset and an account.

    Attributes:
        loads: Receipts.
        seconds: Time spent in all loads.
        read_at: When the last published load ended; None if there is none.
    """

    dataset: str
    account: str
    loads: int
    requests: int
    body_bytes: int
    seconds: float
    read_at: datetime | None


_SUMS = text("""
    SELECT dataset, account, count(*) AS loads, sum(requests) AS requests, sum(body_bytes) AS body_bytes,
           CAST(extract(epoch FROM sum(greatest(finished_at - started_at, '0'))) AS float8) AS seconds,
           max(finished_at) FILTER (WHERE verdict <> 'held') AS read_at
    FROM platform.loads
    GROUP BY 1, 2
    ORDER BY 1, 2
""")


def load_measures(database: Database) -> tuple[LoadMeasures, ...]:
    """Return the measures of every dataset and account that was ever loaded."""
    return tuple(LoadMeasures(**row) for row in database.execute(_SUMS).mappings())


def account_counts(database: Database) -> dict[str, int]:
    """Return how many accounts are listed and how many are retired."""
    is_retired = ACCOUNTS.c.retired_at.is_not(None)
    counted = dict(database.execute(select(is_retired, func.count()).group_by(is_retired)).tuples().all())
    return {"listed": counted.get(False, 0), "retired": counted.get(True, 0)}
