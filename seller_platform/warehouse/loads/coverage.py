"""What is stored of each dataset and account: days, rows, verdict and age."""

from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby

from sqlalchemy import Select, func, select

from seller_platform.contract import LOCAL_DAY, Dataset, Slicing, dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform.warehouse.loads.receipts import latest_receipts
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import table_for


@dataclass(frozen=True)
class Coverage:
    """What is stored of a dataset and an account.

    Attributes:
        account: The account key; for the accounts themselves the connection.
        first_day: The first local day that was ever read.
        last_day: The last.
        missing_days: Days between the two that no load has covered; always 0 where snapshots are kept.
        rows: Rows stored; of a snapshot those of the newest day.
        verdict: The worst of the latest verdicts on its windows.
        read_at: When any of it was last read.
    """

    dataset: str
    account: str
    first_day: date
    last_day: date
    missing_days: int
    rows: int
    verdict: CountVerdict
    read_at: datetime


def coverage(database: Database) -> tuple[Coverage, ...]:
    """Return what is stored, by dataset and account."""
    receipts = latest_receipts(database)
    with database.begin() as connection:
        rows = {
            name: dict(connection.execute(_counts(dataset_named(name))).tuples().all())
            for name in dict.fromkeys(receipt.dataset for receipt in receipts)
        }
    groups = groupby(receipts, key=lambda receipt: (receipt.dataset, receipt.account))
    return tuple(_covered(list(group), rows[name].get(account, 0)) for (name, account), group in groups)


def _covered(receipts: list[Receipt], rows: int) -> Coverage:
    first = min(receipt.window.start for receipt in receipts)
    last = max(receipt.window.last_day for receipt in receipts)
    days = {day for receipt in receipts for day in receipt.window.each_day()}
    is_dated = dataset_named(receipts[0].dataset).is_dated
    return Coverage(
        dataset=receipts[0].dataset,
        account=receipts[0].account,
        first_day=first,
        last_day=last,
        missing_days=(last - first).days + 1 - len(days) if is_dated else 0,
        rows=rows,
        verdict=CountVerdict.worst({receipt.verdict for receipt in receipts}),
        read_at=max(receipt.finished_at for receipt in receipts),
    )


def _counts(dataset: Dataset) -> Select[tuple[str, int]]:
    table = table_for(dataset)
    if dataset.slicing is Slicing.CONNECTION:
        return select(table.c[dataset.slice_column], func.count()).group_by(table.c[dataset.slice_column])
    counts = select(table.c.account, func.count()).group_by(table.c.account)
    if dataset.is_dated:
        return counts
    newest = select(table.c.account, func.max(table.c[LOCAL_DAY]).label("day")).group_by(table.c.account).subquery()
    return counts.join(newest, (newest.c.account == table.c.account) & (newest.c.day == table.c[LOCAL_DAY]))
