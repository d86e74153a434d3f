"""Fills a database with the sandbox, in one transaction."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import psycopg
from psycopg import sql
from sqlalchemy import Table, delete, select, text

from seller_platform.contract import DATASETS, Account, Dataset, Source, Window, dataset_named
from seller_platform.counts import count_of
from seller_platform.errors import RequestError
from seller_platform.sandbox.marketplaces import CONNECTION, account_at, rates
from seller_platform.service.sums.keeping import forget_sums, write_sums
from seller_platform.service.tables import EXCHANGE_RATES, PRODUCTS
from seller_platform.warehouse.loads.copy_format import Row, RowWriter, as_csv, copy_statement
from seller_platform.warehouse.postgres.advisory_locks import lock
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.tables import LOADS, SLICES, history_of, table_for

if TYPE_CHECKING:
    from seller_platform.sandbox.account_history import AccountHistory

ACCOUNTS, MONTHS = 3, 24
ORDERS_PER_MONTH = 300
SEED = 1

_MOST_MONTHS = 600
_RATE_DAYS_BEFORE = 7
_ACCOUNTS = table_for(dataset_named("accounts"))
# What the service computes is stored nowhere, and reports are written by its worker.
_LOADED = tuple(
    dataset
    for dataset in DATASETS
    if dataset.source in (Source.LIST, Source.PRODUCT_LOOKUP) and not dataset.is_computed
)
_OF_ACCOUNTS = (*map(table_for, _LOADED), PRODUCTS)
_FULL_BYTES = 4 << 20

Progress = Callable[[int, int], None]
"""Takes how many months of accounts are done, and how many there are."""


@dataclass(frozen=True)
class SandboxReport:
    """What a load of the sandbox put into the database.

    Attributes:
        period: The days of the sales; an account whose day ends earlier or later has a day less or more.
        rows: The rows of each table, by schema and name.
    """

    accounts: tuple[Account, ...]
    period: Window
    rows: dict[str, int]


def load_sandbox(
    database: Database,
    *,
    accounts: int = ACCOUNTS,
    months: int = MONTHS,
    orders_per_month: int = ORDERS_PER_MONTH,
    seed: int = SEED,
    today: date | datetime,
    progress: Progress = lambda *_: None,
) -> SandboxReport:
    """Replace the sandbox in a migrated database, in one transaction.

    Earlier rows of the sandbox are deleted first: the accounts of its connection, all their rows in the tables it
    fills (also costs written since, former rows and receipts), and all exchange rates. Rows of other accounts stay.
    The same arguments give the same rows. On a later day of the same month, the past differs only by the
    changes that `late_changes` declares.

    Args:
        months: Calendar months, the last of which is yesterday's and ends with yesterday.
        orders_per_month: Demand in orders of the largest account in an average month.
        today: The day of the snapshots, in every account's zone; sales and ledger end on the day before. A moment with
            a zone stands for the day that it is in the zone of each account.

    Raises:
        RequestError: A number is too small, or the months reach beyond the calendar.
    """
    # Here, because numpy costs every command a tenth of a second.
    from seller_platform.sandbox.account_history import AccountHistory

    for name, number in (("accounts", accounts), ("months", months), ("orders_per_month", orders_per_month)):
        if number < 1:
            raise RequestError(f"{name} is {number}; the sandbox needs at least 1. Ask for 1 or more")
    chosen = tuple(account_at(number, seed) for number in range(accounts))
    days = {sandbox.key: day_of(today, sandbox.account.timezone) for sandbox in chosen}
    first = period_until(months, min(days.values())).start
    periods = {key: Window(first, day) for key, day in days.items()}
    histories = (
        AccountHistory(sandbox, periods[sandbox.key], orders_per_month=orders_per_month, seed=seed)
        for sandbox in chosen
    )
    with database.begin() as connection:
        lock(connection, 0x5A4DB0)
        earlier = connection.execute(select(_ACCOUNTS.c.account).where(_ACCOUNTS.c.connection == CONNECTION)).scalars()
        keys = {*earlier, *(sandbox.key for sandbox in chosen)}
        forget_sums(connection, sorted(keys))
        for table in (*_OF_ACCOUNTS, *map(history_of, _LOADED), LOADS, SLICES, _ACCOUNTS):
            connection.execute(delete(table).where(table.c.account.in_(keys)))
        for table in (LOADS, SLICES):
            connection.execute(delete(table).where(table.c.account == CONNECTION))
        connection.execute(delete(EXCHANGE_RATES))
        rows = _fill(driver_of(connection), histories, periods.values(), progress)
        for table in (_ACCOUNTS, *_OF_ACCOUNTS, EXCHANGE_RATES):
            connection.execute(text(f"ANALYZE {table.fullname}"))
        write_sums(connection, [sandbox.key for sandbox in chosen])
    return SandboxReport(tuple(sandbox.account for sandbox in chosen), Window(first, max(days.values())), rows)


def day_of(today: date | datetime, zone: str) -> date:
    """Return the day that a moment is in a zone; of a day itself."""
    return today.astimezone(ZoneInfo(zone)).date() if isinstance(today, datetime) else today


def period_until(months: int, today: date) -> Window:
    """Return the days of the sales: whole months, the last of them until yesterday.

    Raises:
        RequestError: The months reach beyond the calendar.
    """
    if months > _MOST_MONTHS or not MINYEAR + _MOST_MONTHS // 12 < today.year < MAXYEAR - 1:
        raise RequestError(
            f"{count_of(months, 'month')} up to {today} cannot be generated; ask for {_MOST_MONTHS} months or fewer, "
            "and for a day of this age"
        )
    first = (today - timedelta(days=1)).replace(day=1)
    for _ in range(months - 1):
        first = (first - timedelta(days=1)).replace(day=1)
    return Window(first, today)


def _fill(
    driver: psycopg.Connection, histories: Iterable["AccountHistory"], periods: Collection[Window], progress: Progress
) -> dict[str, int]:
    buffer, done, products = CopyBuffer(driver), 0, 0
    months = sum(len(list(period.months())) for period in periods)
    for history in histories:
        for _ in history.write(buffer.add):
            done += 1
            progress(done, months)
        products += copy_rows(driver, PRODUCTS, history.product_rows())
    buffer.flush()
    first = min(period.start for period in periods) - timedelta(days=_RATE_DAYS_BEFORE)
    last = max(period.end for period in periods)
    counts = {f"seller.{name}": count for name, count in buffer.counts.items()}
    counts[PRODUCTS.fullname] = products
    counts[EXCHANGE_RATES.fullname] = copy_rows(driver, EXCHANGE_RATES, rates(first, last))
    return counts


def copy_rows(connection: psycopg.Connection, table: Table, rows: Iterable[tuple[object, ...]]) -> int:
    """Append rows to a table of the service and return how many."""
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table.schema or "", table.name),
        sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns),
    )
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
        return cursor.rowcount


class CopyBuffer:
    """Writes and counts rows of any datasets inside the caller's transaction; `flush` writes the rest."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.counts: Counter[str] = Counter()
        self._connection = connection
        self._writers: dict[tuple[str, tuple[str, ...]], RowWriter] = {}
        self._blocks: dict[str, tuple[Dataset, list[bytes]]] = {}
        self._bytes = 0

    def add(self, dataset: Dataset, rows: Sequence[Row], account: str, tags: tuple[str, ...]) -> None:
        """Append rows of one account."""
        key = dataset.name, tags
        if key not in self._writers:
            self._writers[key] = RowWriter(tags)
        writer = self._writers[key]
        lines = writer.lines(rows)
        block = writer.block(lines, writer.hashes(lines), account=account, load_id=0, page=0)  # they have no load
        self._blocks.setdefault(dataset.name, (dataset, []))[1].append(block)
        self.counts[dataset.name] += len(rows)
        self._bytes += len(block)
        if self._bytes > _FULL_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write every buffered row."""
        for dataset, blocks in self._blocks.values():
            with self._connection.cursor() as cursor, cursor.copy(copy_statement(dataset)) as copy:
                copy.write(as_csv(b"".join(blocks)))
        self._blocks, self._bytes = {}, 0
