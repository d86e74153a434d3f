"""The stored slices that the upstream can still be asked for, to compare them by value."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from sqlalchemy import text

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.warehouse.loads.receipts import Slice, joined
from seller_platform.warehouse.postgres.database import Database

_STORED = text("""
    SELECT dataset, account, month, days_read, newest_day, coalesce(time_zone, 'UTC') AS time_zone,
           coalesce(read_after_days > lookback_days, false) AS is_settled,
           coalesce(read_after_days > 0, false) AS is_over
    FROM platform.slices
    JOIN unnest(CAST(:datasets AS text[]), CAST(:lookbacks AS integer[])) AS list (dataset, lookback_days)
         USING (dataset)
    WHERE account = ANY (:accounts) AND load_id IS NOT NULL AND (month IS NULL OR month = ANY (:months))
    ORDER BY account, dataset, month
""")


def comparable_slices(
    database: Database,
    datasets: Collection[Dataset],
    accounts: Collection[str],
    months: Sequence[Window],
    now: datetime,
) -> list[tuple[Slice, bool]]:
    """Return the stored slices of these accounts that the upstream can still be asked for, and whether each is settled.

    Of a settled one, no row was expected to change after it was read. Only days that had ended when they were read are
    compared: the others are not expected to be equal. Of a list without days, the upstream has no former snapshots.
    """
    bound = {
        "datasets": [each.name for each in datasets],
        "lookbacks": [each.lookback_days for each in datasets],
        "accounts": list(accounts),
        "months": [each.start for each in months],
    }
    rows = database.execute(_STORED, bound).all()
    slices: list[tuple[Slice, bool]] = []
    for row in rows:
        dataset, zone, windows = dataset_named(row.dataset), ZoneInfo(row.time_zone), list[Window]()
        if row.month is None:
            today = now.astimezone(zone).date()
            windows += [Window.day(today)] if row.newest_day == today else []
        elif dataset.is_divisible or row.is_over:
            windows += ended_days(Window.month_of(row.month), row.days_read, zone)
        slices += ((Slice(dataset, row.account, each), row.is_settled) for each in windows)
    return slices


def ended_days(month: Window, days_read: Sequence[datetime | None], zone: ZoneInfo) -> Iterator[Window]:
    """Yield the runs of days of a month that had ended when they were read, oldest first."""
    read = ((day, moment) for day, moment in zip(month.each_day(), days_read, strict=False) if moment is not None)
    yield from joined([Window.day(day) for day, moment in read if moment.astimezone(zone).date() > day])
