"""Whether a load is large enough for loading processes, by its days and the receipts of earlier loads."""

import os
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import date, datetime

from seller_platform.contract import Dataset, Window
from seller_platform.ingest.loads.processes import FEWEST_ROWS, loading_processes
from seller_platform.settings import Settings
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.receipts import AccountDay, days_due, rows_a_day
from seller_platform.warehouse.postgres.database import Database

_ROWS_A_DAY = 100
"""How many rows are expected of a day of a dataset that was never loaded, unless its rows are sums."""


def processes_for(rows: float, settings: Settings, database_url: str) -> AbstractContextManager[object]:
    """Return the block within which loading processes run, if so many rows are worth it on this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if rows < FEWEST_ROWS or cores == 1:
        return nullcontext()
    return loading_processes(settings, database_url)


def expected_rows(
    database: Database,
    datasets: Sequence[Dataset],
    keys: Collection[str],
    *,
    now: datetime,
    since: date,
    months: Sequence[Window] | None,
) -> float:
    """Return about how many rows a load will read from dated lists.

    Args:
        keys: The keys of the accounts; those that are not stored do not count.
        since: The first day of history.
        months: The months that are read as a whole; None for the days that may have changed.
    """
    chosen = [each for each in accounts(database) if each.key in keys]
    dated = [dataset for dataset in datasets if dataset.is_divisible]
    if months is None:
        days = [AccountDay.at(now, each.key, each.zone_or_utc) for each in chosen]
        due = days_due(database, dated, days, since=since)
        counted = [(name, sum(window.days for window in windows)) for (name, _), windows in due.items()]
    else:
        counted = [(dataset.name, len(chosen) * sum(month.days for month in months)) for dataset in dated]
    known = rows_a_day(database, dated)
    return sum(known.get(name, _ROWS_A_DAY) * days for name, days in counted)
