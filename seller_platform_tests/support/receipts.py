"""Receipts without rows, for tests that store rows without a load."""

from sqlalchemy import text

from seller_platform.contract import Dataset, Window
from seller_platform.warehouse.marts import Mart
from seller_platform.warehouse.postgres.database import Database

_LOAD = text("""
    INSERT INTO platform.loads (dataset, account, window_start, window_end, requests, pages, body_bytes, rows, digest,
                                verdict, changed, started_at, finished_at)
    VALUES (:name, :account, :first, :after, 1, 1, 0, 0, '', 'match', true, now(), now())
""")
_BUILD = text("""
    INSERT INTO platform.mart_builds (mart, account, window_start, window_end, rows, digest, parameters, loads,
                                      started_at, finished_at)
    VALUES (:name, :account, :first, :after, 0, '', '{}', '{}', now(), now())
""")


def mark_loaded(database: Database, source: Dataset | Mart, account: str, *windows: Window | None) -> None:
    """Store a receipt of each window; of a mart without months, one without a window."""
    statement = _BUILD if isinstance(source, Mart) else _LOAD
    with database.begin() as connection:
        for window in windows:
            connection.execute(
                statement,
                {
                    "name": source.name,
                    "account": account,
                    "first": window and window.start,
                    "after": window and window.end,
                },
            )
