"""Accounts and rows stored without an upstream; rows in a dataset's table, or as a load."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import time_machine

from seller_platform.contract import Account, Column, Dataset, Kind, Window
from seller_platform.contract.datasets.user import ACCOUNTS as LISTED
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.loads.copy_format import Row, RowWriter, as_csv, copy_statement
from seller_platform.warehouse.loads.holds import Judge
from seller_platform.warehouse.loads.receipts import Receipt, Slice
from seller_platform.warehouse.loads.slices import open_load
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.postgres.sessions import conninfo
from seller_platform_tests.support.receipts import end_in_the_past

LOADED_AT = datetime(2026, 3, 3, tzinfo=UTC)
"""When the loads of `store_slice` begin."""

FIRST_DAY, LAST_DAY = date(2026, 2, 20), date(2026, 3, 9)
ACCOUNTS = {
    account.key: account
    for account in (
        Account(1, "Shop US", "US", "USD", "America/Los_Angeles", "US", "S1"),
        Account(2, "Shop DE", "DE", "EUR", "Europe/Berlin", "DE", "S1"),
        Account(3, "Twin", "FR", "EUR", "Europe/Paris", "FR", "S4"),
        Account(4, "Twin", "IT", "EUR", "Europe/Rome", "IT", "S4"),
        Account(5, "Bob's", "GB", "GBP", "Europe/London", "GB", "S2"),
    )
}


def connect_accounts(database: Database, accounts: Iterable[tuple[str, Account]]) -> None:
    """Store accounts, by key, as those of a connection."""
    save_connection(database, KnownConnection("default", "http://api", "http://api", "client"))
    save_accounts(database, "default", list(accounts))


def copy_rows(
    connection: psycopg.Connection,
    dataset: Dataset,
    rows: Iterable[Row],
    *,
    account: str,
    tags: Sequence[str | None] = (),
    load_id: int = 0,
) -> int:
    """Append rows to a dataset's table inside the caller's transaction, and return how many.

    Load 0 marks rows that were not stored by a load, as in the sandbox.
    """
    writer, count, remaining = RowWriter(tags), 0, iter(rows)
    with connection.cursor() as cursor, cursor.copy(copy_statement(dataset)) as copy:
        while batch := list(islice(remaining, 2_000)):
            lines = writer.lines(batch)
            block = writer.block(lines, writer.hashes(lines), account=account, load_id=load_id, page=0)
            copy.write(as_csv(block))
            count += len(batch)
    return count


def add_rows(
    database: Database, dataset: Dataset, rows: Iterable[Row], *, account: str, tags: Sequence[str | None] = ()
) -> None:
    """Append rows to a dataset's table in a transaction of their own; tags of a dataset without any are ignored."""
    with database.begin() as connection:
        copy_rows(driver_of(connection), dataset, rows, account=account, tags=tags if dataset.tags else ())


def store_slice(
    database: Database,
    dataset: Dataset,
    window: Window,
    rows: Sequence[Row],
    account: str = "us-1",
    *,
    parts: Sequence[str | None] = ("platform",),
    extras: Mapping[int, str] | None = None,
    judge: Judge | None = None,
    verdict: CountVerdict = CountVerdict.MATCH,
    at: datetime | None = None,
) -> Receipt:
    """Load a slice whose rows are tagged in turn with the parts, if the dataset has tags.

    Args:
        at: When the load begins and ends; by default it begins at `LOADED_AT` and ends now.
    """
    travel = nullcontext() if at is None else time_machine.travel(at, tick=False)
    with travel, open_load(database, Slice(dataset, account, window)) as load:
        values = parts if dataset.tags else (None,)
        for number, part in enumerate(values):
            own = rows[number :: len(values)]
            load.spool.write(own, tags=(part,) if dataset.tags else (), extras=extras or {}, page=1)
        receipt = load.store(LoadFacts(1, 1, 0, len(rows), verdict), started_at=at or LOADED_AT, judge=judge)
    if at is not None:
        end_in_the_past(database, receipt.id)
    return receipt


@contextmanager
def locked_daily_sales(url: str) -> Iterator[psycopg.Connection]:
    """Let all readers of daily sales wait until the transaction ends."""
    with psycopg.connect(conninfo(url)) as connection:
        connection.execute("LOCK TABLE seller.daily_product_sales IN ACCESS EXCLUSIVE MODE")
        yield connection


def execute(database: Database, statement: str, *values: object) -> None:
    with database.begin() as connection:
        driver_of(connection).execute(statement.encode(), values)


def stored(database: Database, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Return the rows that a statement selects."""
    with database.begin() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(statement, values or None)]


def count_rows(database: Database, table: str, condition: str = "true") -> int:
    [(count,)] = stored(database, f"SELECT count(*) FROM {table} WHERE {condition}")
    return int(count)


def insert_rows(database: Database, dataset: Dataset, account: str, rows: Sequence[Row]) -> None:
    """Store rows, tagged in turn with the values of the dataset's filter, if any."""
    values = dataset.split_by.values if dataset.split_by and dataset.split_by.tag else (None,)
    for number, value in enumerate(values):
        add_rows(database, dataset, rows[number :: len(values)], account=account, tags=(value,))


def rows_of(dataset: Dataset, account: str) -> list[Row]:
    """Return two full pages of rows of the smallest size, and seven more.

    Rows of snapshots are all of the last day.
    """
    smallest = min(dataset.page_sizes, default=dataset.fixed_page_size or 0)
    days = (LAST_DAY - FIRST_DAY).days + 1
    rows = []
    for number in range(2 * smallest + 7):
        day = FIRST_DAY + timedelta(days=number % days) if dataset.is_dated else LAST_DAY
        rows.append((*(_value(dataset, column, number, account, day) for column in dataset.columns), day))
    return rows


def _value(dataset: Dataset, column: Column, number: int, account: str, day: date) -> object:
    if dataset.split_by is not None and column.name == dataset.split_by.field:
        return dataset.split_by.values[number % len(dataset.split_by.values)]
    zone = ZoneInfo(ACCOUNTS[account].timezone)
    values: dict[Kind, Any] = {
        Kind.TEXT: f'{account} "{column.name}"\t{number % 17}\n€ 商品 {chr(0x1F600)} \\',
        Kind.INTEGER: number,
        Kind.MONEY: Decimal(number * 7 - 1000) / 100,
        Kind.NUMBER: Decimal(number) / 8,
        Kind.BOOLEAN: number % 2 == 0,
        Kind.DATE: day,
        Kind.JSON: "[]",
        Kind.TIMESTAMP: datetime(day.year, day.month, day.day, number % 24, 30, tzinfo=zone).isoformat(),
    }
    return None if column.nullable and number % 11 == 5 else values[column.kind]


def list_accounts(database: Database, accounts: Mapping[str, Account]) -> None:
    """Store rows of the `accounts` dataset."""
    for key, listed in accounts.items():
        add_rows(database, LISTED, [(*listed.row, "default")], account=key)


def connect(database: Database, account: str) -> None:
    """Store an account as one that a connection of the warehouse can read."""
    listed = ACCOUNTS[account]
    connect_accounts(database, [(account, listed)])
