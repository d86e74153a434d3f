"""Receipts without rows, for tests that store rows without a load, and the last receipts."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, func, insert, select, text

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import LOADS, PUBLISHED_LOADS

_BUILD = text("""
    INSERT INTO platform.mart_builds (mart, account, window_start, window_end, rows, digest, parameters, loads,
                                      started_at, finished_at)
    VALUES (:name, :account, :first, :after, 0, '', '{}', '{}', now(), now())
""")


def store_receipt(
    database: Database | Connection,
    dataset: Dataset,
    account: str,
    window: Window,
    *,
    at: datetime | None = None,
    **columns: object,
) -> int:
    """Store a receipt and return its number: by default of a load that ended now, and published that no row is left.

    Args:
        columns: Values of other columns of `platform.loads`.
    """
    values = {
        **{"dataset": dataset.name, "account": account, "window_start": window.start, "window_end": window.end},
        **{"requests": 1, "pages": 1, "body_bytes": 0, "rows": 0, "digest": b"", "verdict": "match", "changed": True},
        **{"started_at": at or func.now(), "finished_at": at or func.now()},
    }
    return int(database.execute(insert(LOADS).values(values | columns).returning(LOADS.c.id)).scalar_one())


def store_receipts(database: Database, names: Sequence[str], account: str, window: Window, at: datetime) -> None:
    """Store receipts of each month of a window, of loads of datasets that found no row and took no request."""
    for name in names:
        for month in window.months():
            none = {"requests": 0, "pages": 0, "announced": 0}
            store_receipt(database, dataset_named(name), account, month, at=at, **none)


def end_in_the_past(database: Database, load: int) -> None:
    """Let a load that was made while the process travelled in time have ended when it began."""
    database.execute(text("UPDATE platform.loads SET finished_at = started_at WHERE id = :id"), {"id": load})


def mark_loaded(
    database: Database, source: Dataset | Mart, account: str, *windows: Window | None, changed: bool = True
) -> None:
    """Store a receipt of each month of each window; of a mart without months, one without a window."""
    if isinstance(source, Dataset):
        for month in (month for window in windows if window is not None for month in window.months()):
            store_receipt(database, source, account, month, changed=changed)
        return
    with database.begin() as connection:
        for window in windows:
            days = {"first": window and window.start, "after": window and window.end}
            connection.execute(_BUILD, {"name": source.name, "account": account, **days})


def latest_receipts(database: Database) -> tuple[Receipt, ...]:
    """Return the last receipt of a published reading of every dataset, account and window."""
    load = PUBLISHED_LOADS.c
    slice_ = (load.dataset, load.account, load.window_start, load.window_end)
    statement = select(PUBLISHED_LOADS).distinct(*slice_).order_by(*slice_, load.id.desc())
    return tuple(Receipt.of(row) for row in database.execute(statement).mappings())


def receipts_of_run(database: Database, run_id: str) -> tuple[Receipt, ...]:
    """Return the receipts of a Dagster run, in the order in which its loads began."""
    statement = select(LOADS).where(LOADS.c.run_id == run_id).order_by(LOADS.c.id)
    return tuple(Receipt.of(row) for row in database.execute(statement).mappings())
