"""Receipts without rows, for tests that store rows without a load, and the last receipts."""

from sqlalchemy import select, text

from seller_platform.contract import Dataset, Window
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.marts import Mart
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import PUBLISHED_LOADS

_LOAD = text("""
    INSERT INTO platform.loads (dataset, account, window_start, window_end, requests, pages, body_bytes, rows, digest,
                                verdict, changed, started_at, finished_at)
    VALUES (:name, :account, :first, :after, 1, 1, 0, 0, '', 'match', :changed, now(), now())
""")
_BUILD = text("""
    INSERT INTO platform.mart_builds (mart, account, window_start, window_end, rows, digest, parameters, loads,
                                      started_at, finished_at)
    VALUES (:name, :account, :first, :after, 0, '', '{}', '{}', now(), now())
""")


def end_in_the_past(database: Database, load: int) -> None:
    """Let a load that was made while the process travelled in time have ended when it began."""
    with database.begin() as connection:
        connection.execute(text("UPDATE platform.loads SET finished_at = started_at WHERE id = :id"), {"id": load})


def mark_loaded(
    database: Database, source: Dataset | Mart, account: str, *windows: Window | None, changed: bool = True
) -> None:
    """Store a receipt of each month of each window; of a mart without months, one without a window."""
    statement = _BUILD if isinstance(source, Mart) else _LOAD
    months = [month for window in windows if window is not None for month in window.months()]
    with database.begin() as connection:
        for window in windows if isinstance(source, Mart) else months:
            connection.execute(
                statement,
                {
                    "name": source.name,
                    "changed": changed,
                    "account": account,
                    "first": window and window.start,
                    "after": window and window.end,
                },
            )


def latest_receipts(database: Database) -> tuple[Receipt, ...]:
    """Return the last receipt of a published reading of every dataset, account and window."""
    load = PUBLISHED_LOADS.c
    slice_ = (load.dataset, load.account, load.window_start, load.window_end)
    statement = select(PUBLISHED_LOADS).distinct(*slice_).order_by(*slice_, load.id.desc())
    with database.begin() as connection:
        return tuple(Receipt.of(row) for row in connection.execute(statement).mappings())
