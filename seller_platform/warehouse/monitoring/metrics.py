"""Measures for monitoring, read from the receipts alone, however many rows there are."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select

from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import ACCOUNTS, HELD, IS_PUBLISHED, LOADS


@dataclass(frozen=True)
class LoadMeasures:
    """What the receipts say of a dataset and an account.

    Attributes:
        loads: Receipts.
        seconds: Time spent in all loads.
        read_at: When the last load ended.
        verdicts: How many windows have which verdict now, by each window's newest published receipt; `held` counts the
            readings that are held.
    """

    dataset: str
    account: str
    loads: int
    requests: int
    body_bytes: int
    seconds: float
    read_at: datetime
    verdicts: dict[str, int]


def load_measures(database: Database) -> tuple[LoadMeasures, ...]:
    """Return the measures of every dataset and account that was ever loaded."""
    pair = (LOADS.c.dataset, LOADS.c.account)
    sums = (
        select(
            *pair,
            func.count(),
            func.sum(LOADS.c.requests),
            func.sum(LOADS.c.body_bytes),
            func.extract("epoch", func.sum(func.greatest(LOADS.c.finished_at - LOADS.c.started_at, timedelta()))),
            func.max(LOADS.c.finished_at).filter(IS_PUBLISHED),
        )
        .group_by(*pair)
        .order_by(*pair)
    )
    windows = (LOADS.c.window_start, LOADS.c.window_end)
    newest = (
        select(*pair, LOADS.c.verdict)
        .where(IS_PUBLISHED)
        .distinct(*pair, *windows)
        .order_by(*pair, *windows, LOADS.c.id.desc())
        .subquery()
    )
    counted = select(*newest.c, func.count()).group_by(*newest.c)
    held = open_holds(database)
    verdicts: dict[tuple[str, str], dict[str, int]] = {}
    with database.begin() as connection:
        for dataset, account, verdict, count in connection.execute(counted):
            verdicts.setdefault((dataset, account), {})[verdict] = count
        for receipt in held:
            of_pair = verdicts.setdefault((receipt.dataset, receipt.account), {})
            of_pair[HELD] = of_pair.get(HELD, 0) + 1
        return tuple(
            LoadMeasures(name, key, loads, requests, size, float(seconds), read_at, verdicts[name, key])
            for name, key, loads, requests, size, seconds, read_at in connection.execute(sums)
        )


def account_counts(database: Database) -> dict[str, int]:
    """Return how many accounts are listed and how many are retired."""
    is_retired = ACCOUNTS.c.retired_at.is_not(None)
    with database.begin() as connection:
        counted = dict(connection.execute(select(is_retired, func.count()).group_by(is_retired)).tuples().all())
    return {"listed": counted.get(False, 0), "retired": counted.get(True, 0)}
