"""What the receipts say: which days are covered, which may have changed since, and how loads of a run went."""

from collections.abc import Sequence
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy import func, select

from seller_platform.contract import Dataset, Window
from seller_platform.warehouse.database import Database
from seller_platform.warehouse.slices import Receipt
from seller_platform.warehouse.tables import LOADS


def receipts_of_run(database: Database, run_id: str) -> tuple[Receipt, ...]:
    """Return the receipts of a Dagster run, in the order in which its loads ended."""
    statement = select(LOADS).where(LOADS.c.run_id == run_id).order_by(LOADS.c.finished_at, LOADS.c.id)
    with database.begin() as connection:
        return tuple(Receipt.of(row) for row in connection.execute(statement).mappings())


def count_loads(database: Database, run_ids: Sequence[str]) -> int:
    """Return how many loads those runs have stored so far."""
    statement = select(func.count()).select_from(LOADS).where(LOADS.c.run_id.in_(run_ids))
    with database.begin() as connection:
        return connection.execute(statement).scalar_one()


def latest_receipts(database: Database) -> tuple[Receipt, ...]:
    """Return the last receipt of every dataset, account and window."""
    statement = (
        select(LOADS)
        .distinct(LOADS.c.dataset, LOADS.c.account, LOADS.c.window_start, LOADS.c.window_end)
        .order_by(
            LOADS.c.dataset, LOADS.c.account, LOADS.c.window_start, LOADS.c.window_end, LOADS.c.finished_at.desc()
        )
    )
    with database.begin() as connection:
        return tuple(Receipt.of(row) for row in connection.execute(statement).mappings())


def days_read(database: Database, dataset: Dataset, account: str, window: Window, zone: ZoneInfo) -> dict[date, date]:
    """Return, for each covered day of the window, the local day on which it was last read."""
    statement = select(LOADS.c.window_start, LOADS.c.window_end, func.max(LOADS.c.started_at)).where(
        LOADS.c.dataset == dataset.name,
        LOADS.c.account == account,
        LOADS.c.window_start < window.end,
        LOADS.c.window_end > window.start,
    )
    read: dict[date, date] = {}
    with database.begin() as connection:
        for start, end, started_at in connection.execute(statement.group_by(LOADS.c.window_start, LOADS.c.window_end)):
            for day in Window(start, end).since(window.start).until(window.end).each_day():
                read[day] = max(read.get(day, date.min), started_at.astimezone(zone).date())
    return read


def unsettled(dataset: Dataset, window: Window, read: dict[date, date]) -> Window | None:
    """Return the part of a window that may have changed since it was read; None if nothing may have.

    A day is settled once it was read after the dataset's lookback had passed over it. The part is the smallest
    window with every unsettled day in it.
    """
    lookback = timedelta(days=dataset.lookback_days)
    open_days = [day for day in window.each_day() if day not in read or read[day] <= day + lookback]
    return Window(open_days[0], open_days[-1] + timedelta(days=1)) if open_days else None
