"""Accounts and rows stored without an upstream; rows in a dataset's table, or as a load."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from itertools import islice

import psycopg
import time_machine

from seller_platform.contract import Account, Dataset, Window
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.service.sums.keeping import lock_name
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.loads.copy_format import Row, RowWriter, as_csv, copy_statement
from seller_platform.warehouse.loads.holds import Judge
from seller_platform.warehouse.loads.receipts import Receipt, Slice
from seller_platform.warehouse.loads.slices import open_load
from seller_platform.warehouse.postgres.advisory_locks import TRY_LOCK
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.postgres.sessions import conninfo
from seller_platform_tests.support.receipts import end_in_the_past

LOADED_AT = datetime(2026, 3, 3, tzinfo=UTC)
"""When the loads of `store_slice` begin."""


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


@contextmanager
def locked_sums(url: str, account: str = "us-1") -> Iterator[None]:
    """Hold the lock of an account's sums, as a program does that adds them."""
    with psycopg.connect(url) as connection:
        assert connection.execute(TRY_LOCK, {"name": lock_name(account)}).fetchone() == (True,)
        yield
