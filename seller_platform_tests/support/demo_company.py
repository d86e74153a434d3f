"""The demo's company, stored without an upstream: rows of the sandbox, receipts of their loads, and every mart.

The rows of which figures are made are those of the first page of their load.

Three accounts have the months from January to 14 April 2026. Two things are wrong: the German ledger was not read from
10 to 14 February, and the Australian orders of March do not add up to the total of their list.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import and_, update

from seller_platform.contract import REFRESHED, Dataset, Window
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, ORDERS, TRANSACTIONS
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.loads.history_start import extend_history
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import LOADS, SLICES, table_for
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts

NOW = datetime(2026, 4, 15, 10, tzinfo=UTC)
"""When every slice was read: on 15 April in the time zones of all accounts."""
US, DE, AU = "us-1001", "de-1002", "au-1003"

_TODAY = date(2026, 4, 15)
_MONTHS = tuple(Window.month_of(date(2026, month, 1)) for month in range(1, 5))
_UNREAD = Window(date(2026, 2, 10), date(2026, 2, 15))


def load_demo_company(database: Database) -> None:
    """Fill a migrated database."""
    # Imported here because tests that only name the accounts go without the sandbox.
    from seller_platform.sandbox.load import load_sandbox

    report = load_sandbox(database, months=len(_MONTHS), today=_TODAY)
    connect_accounts(database, [(account.key, account) for account in report.accounts])
    extend_history(database, _MONTHS[0].start)
    store_receipt(database, ACCOUNTS, "default", Window.day(_TODAY), at=NOW)
    for account in report.accounts:
        of_account = {"time_zone": account.timezone, "currency": account.currency_code}
        for dataset in (each for each in REFRESHED if not each.is_computed):
            for window in _windows(dataset, account.key):
                store_receipt(database, dataset, account.key, window, at=NOW, **of_account)
        for mart in MARTS:
            for month in _MONTHS if mart.is_monthly else (None,):
                build_partition(database, mart, account.key, month)
    # Nothing is built from what does not add up: it was read when the marts were built.
    of_wrong = (LOADS.c.dataset == ORDERS.name, LOADS.c.account == AU, LOADS.c.window_start == _MONTHS[2].start)
    with database.begin() as connection:
        wrong = update(LOADS).where(*of_wrong).values(verdict="mismatch", announced=7).returning(LOADS.c.id)
        load = connection.execute(wrong).scalar_one()
        connection.execute(update(SLICES).where(SLICES.c.load_id == load).values(mismatched_load_ids=[load]))
    for dataset in (DAILY_PRODUCT_SALES, ORDERS, TRANSACTIONS):
        rows, of_load = table_for(dataset), LOADS.c
        day = rows.c.local_day.between(of_load.window_start, of_load.window_end - 1)
        is_loaded = and_(of_load.dataset == dataset.name, of_load.account == rows.c.account, day)
        database.execute(update(rows).where(is_loaded).values(load_id=of_load.id, page=1))


def _windows(dataset: Dataset, account: str) -> Iterator[Window]:
    """Yield the days of each load of a dataset."""
    if not dataset.is_dated:
        yield Window.day(_TODAY)
        return
    for month in _MONTHS:
        read = month.until(_TODAY + timedelta(days=1))
        if (dataset, account) == (TRANSACTIONS, DE) and _UNREAD.start in month:
            yield from (Window(read.start, _UNREAD.start), Window(_UNREAD.end, read.end))
        else:
            yield read
