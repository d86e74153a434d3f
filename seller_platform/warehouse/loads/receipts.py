"""Slices, the receipts of their loads, and queries over receipts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Self

import msgspec
from psycopg import sql
from sqlalchemy import exists, func, select, text

from seller_platform.contract import Dataset, Slicing, Window, dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import RequestError
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.holds import Doubt
from seller_platform.warehouse.loads.profiles import Sums
from seller_platform.warehouse.postgres.advisory_locks import try_lock
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import LOADS, SLICES, table_for

REPORT_ID = "report_id"
"""The note of a receipt with the report that was loaded, of which an account has several on a day."""


@dataclass(frozen=True)
class Slice:
    """A dataset's rows of one account in one window.

    Attributes:
        account: The account key; for `seller.accounts` the name of the connection.
        window: Local days; for a snapshot its one day.
        report_id: For `seller.report_rows` the report, of which an account has several on a day.
        time_zone: The account's time zone, under which it is read; None for lists of accounts.
        currency: The account's currency, likewise.
    """

    dataset: Dataset
    account: str
    window: Window
    report_id: str | None = None
    time_zone: str | None = None
    currency: str | None = None

    @classmethod
    def of(cls, account: KnownAccount, dataset: Dataset, window: Window, report_id: str | None = None) -> Self:
        """Return a slice that is read under the account's present time zone and currency."""
        present = account.account
        return cls(dataset, account.key, window, report_id, present.timezone or None, present.currency_code)

    @property
    def owned(self) -> sql.Composed:
        """The condition for the rows of the account; of `seller.accounts` for those of the connection."""
        is_list = self.dataset.slicing is Slicing.CONNECTION
        column = sql.Identifier(self.dataset.slice_column if is_list else "account")
        return sql.SQL("{} = {}").format(column, self.account)

    @property
    def inside(self) -> sql.Composed:
        """The condition for the rows of the slice."""
        if self.dataset.slicing is Slicing.CONNECTION:
            return self.owned
        inside = sql.SQL("{} AND {column} >= {} AND {column} < {}").format(
            self.owned, self.window.start, self.window.end, column=sql.Identifier(self.dataset.slice_column)
        )
        return inside if self.report_id is None else sql.SQL("{} AND report_id = {}").format(inside, self.report_id)

    @property
    def bound(self) -> dict[str, object]:
        """What statements about loads of the same days are given; all days of a list without days."""
        first, end = (self.window.start, self.window.end) if self.dataset.is_dated else (date.min, date.max)
        return {"of_dataset": self.dataset.name, "of_account": self.account, "first_day": first, "before_day": end}

    def __str__(self) -> str:
        report = "" if self.report_id is None else f", report {self.report_id}"
        return f"{self.dataset.name} of {self.account}, {self.window}{report}"


class Receipt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A load, as `platform.loads` keeps it.

    Attributes:
        announced: The rows that the upstream announced.
        changed: Whether stored rows changed.
        restatement: What changed, by name: before and after; null without stored rows before.
        notes: What else was noticed.
        digest: Of the rows, as hexadecimal digits.
        sums: The amounts of the rows, by name.
        time_zone: That of the account when it was read.
        currency: Likewise.
    """

    id: int = msgspec.field(name="load_id")
    dataset: str
    account: str
    first_day: date
    last_day: date
    verdict: CountVerdict
    announced: int | None
    rows: int
    pages: int
    requests: int
    body_bytes: int
    changed: bool
    restatement: dict[str, dict[str, str]] | None
    notes: dict[str, Any] | None
    digest: Annotated[bytes, msgspec.Meta(extra_json_schema={"contentEncoding": "base16"})]
    started_at: Annotated[datetime, msgspec.Meta(tz=True)]
    finished_at: Annotated[datetime, msgspec.Meta(tz=True)]
    run_id: str | None
    sums: Sums | None
    time_zone: str | None
    currency: str | None

    @property
    def window(self) -> Window:
        return Window(self.first_day, self.last_day + timedelta(days=1))

    @property
    def seconds(self) -> float:
        """How long the load took, by the clocks of its process and of PostgreSQL."""
        return max(0.0, (self.finished_at - self.started_at).total_seconds())

    @classmethod
    def of(cls, row: Mapping[Any, Any]) -> Self:
        """Return the receipt of a row of `platform.loads`."""
        # The row may have more columns: some are of interest to PostgreSQL alone, and later versions add others.
        values = {name: row[name] for name in cls.__struct_encode_fields__ if name in row}
        values |= {"load_id": row["id"], "first_day": row["window_start"]}
        values["last_day"] = row["window_end"] - timedelta(days=1)
        return msgspec.convert(values, cls, builtin_types=(bytes, date, datetime))


def receipt_of(database: Database, load_id: int) -> Receipt:
    """Return the receipt of a load.

    Raises:
        RequestError: There is none.
    """
    row = database.execute(select(LOADS).where(LOADS.c.id == load_id)).mappings().one_or_none()
    if row is None:
        raise RequestError(
            f"there is no receipt of load {load_id}",
            code="UnknownLoadError",
            step="Take the number of a load from `seller-platform explain DATASET KEY` or "
            "`seller-platform diff DATASET ACCOUNT`.",
        )
    return Receipt.of(row)


def doubt_of(receipt: Receipt) -> Doubt:
    """Return why a reading was held."""
    return msgspec.convert((receipt.notes or {})["held"], Doubt)


def slice_of(receipt: Receipt) -> Slice:
    """Return the slice of a load."""
    report_id = (receipt.notes or {}).get(REPORT_ID)
    return Slice(dataset_named(receipt.dataset), receipt.account, receipt.window, report_id)


def joined(windows: Sequence[Window]) -> list[Window]:
    """Return the same days as windows that share none, oldest first."""
    runs: list[Window] = []
    for window in sorted(windows):
        if runs and window.start <= runs[-1].end:
            runs[-1] = Window(runs[-1].start, max(runs[-1].end, window.end))
        else:
            runs.append(window)
    return runs


def newest_receipts(database: Database, dataset: Dataset) -> dict[str, Receipt]:
    """Return the receipt of the last load of each account; of `accounts`, of each connection."""
    stored = select(LOADS).join(SLICES, SLICES.c.load_id == LOADS.c.id).where(SLICES.c.dataset == dataset.name)
    newest = stored.distinct(LOADS.c.account).order_by(LOADS.c.account, LOADS.c.id.desc())
    return {row["account"]: Receipt.of(row) for row in database.execute(newest).mappings()}


def last_tries(database: Database, dataset: Dataset) -> dict[str, tuple[datetime, str | None]]:
    """Return when each slice of a list without months was last tried, by account, and the class of its error."""
    tried_at = func.greatest(SLICES.c.read_at, SLICES.c.failed_at)
    tried = select(SLICES.c.account, tried_at, SLICES.c.error).where(SLICES.c.dataset == dataset.name)
    return {account: (at, error) for account, at, error in database.execute(tried.where(tried_at.is_not(None)))}


_UNREPORTED = text("""
    SELECT load.* FROM platform.slices AS slice JOIN platform.loads AS load ON load.id = slice.load_id
    WHERE slice.load_id IS NOT NULL AND slice.reported_load_id IS DISTINCT FROM slice.load_id
      AND slice.dataset = ANY (:datasets) AND slice.load_id > :after
      AND (CAST(:accounts AS text[]) IS NULL OR slice.account = ANY (CAST(:accounts AS text[])))
    ORDER BY slice.load_id LIMIT :limit
""")
_REPORTED = text("UPDATE platform.slices SET reported_load_id = load_id WHERE load_id = ANY (:loads)")
_REPORTS = "reports of loads"
# A sensor may take 60 s.
_REPORTS_WAIT_SECONDS = 20.0


@contextmanager
def unreported_loads(
    database: Database,
    datasets: Collection[Dataset],
    accounts: Collection[str] | None,
    *,
    limit: int,
    after: int = 0,
    wait_seconds: float = _REPORTS_WAIT_SECONDS,
) -> Iterator[Sequence[Receipt]]:
    """Lend the newest loads of slices that Dagster does not know, after a number, to report them in the block.

    Other processes wait until the block ends, so that each load is reported once. None are lent to a process that waits
    for too long: those that another process lends are reported by it, or by the next tick of the sensor.
    """
    of_accounts = None if accounts is None else list(accounts)
    bound = {"datasets": [each.name for each in datasets], "accounts": of_accounts, "limit": limit, "after": after}
    with database.begin() as connection:
        is_any = connection.execute(_UNREPORTED, {**bound, "limit": 1}).one_or_none() is not None
        if not is_any or not try_lock(connection, _REPORTS, seconds=wait_seconds):
            yield ()
            return
        yield [Receipt.of(row) for row in connection.execute(_UNREPORTED, bound).mappings()]


def keep_reported(database: Database, loads: Sequence[int]) -> None:
    """Store that Dagster knows these loads."""
    if loads:
        database.execute(_REPORTED, {"loads": list(loads)})


def was_loaded(database: Database, dataset: Dataset, account: str, month: Window | None = None) -> bool:
    """Return whether the dataset was ever loaded for an account, be it empty.

    With a month, whether any of its days was.
    """
    loaded = [SLICES.c.dataset == dataset.name, SLICES.c.account == account, SLICES.c.load_id.is_not(None)]
    if month is not None:
        loaded.append(SLICES.c.month == month.start)
    return bool(database.execute(select(exists().where(*loaded))).scalar_one())


def newest_load(database: Database) -> datetime | None:
    """Return when the newest load ended; None if there is none."""
    return database.execute(select(LOADS.c.finished_at).order_by(LOADS.c.id.desc()).limit(1)).scalar_one_or_none()


def offered_pairs(database: Database, datasets: Collection[Dataset]) -> frozenset[tuple[str, str]]:
    """Return the names of datasets with the accounts whose upstream offers them: it has answered for any account."""
    offered = text("SELECT dataset, account FROM platform.offered_slices WHERE dataset = ANY (:datasets)")
    rows = database.execute(offered, {"datasets": [each.name for each in datasets]})
    return frozenset((dataset, account) for dataset, account in rows)


def newest_day_in_another_currency(
    database: Database, dataset: Dataset, account: KnownAccount, before: date
) -> date | None:
    """Return the newest day with an amount that was read under another currency than the account's."""
    rows, read = table_for(dataset).c, SLICES.c
    statement = (
        select(func.max(rows[dataset.slice_column]))
        .join(SLICES, read.account == rows.account)
        .where(rows.account == account.key, rows[dataset.slice_column] < before, rows[dataset.money[0].name] != 0)
        .where(read.dataset == dataset.name, read.month == func.date_trunc("month", rows[dataset.slice_column]))
        .where(read.currency != account.account.currency_code)
    )
    day: date | None = database.execute(statement).scalar_one()
    return day


def why_it_waits(database: Database, account: KnownAccount) -> tuple[int, str] | None:
    """Return the held list of accounts that puts the account's time zone or currency in doubt, and its reason."""
    bound = {"connection": account.connection, "of_account": account.key}
    return database.execute(_WAITS, bound).tuples().one_or_none()


_WAITS = text("""
    SELECT held.id, held.notes #>> '{held,reason}'
    FROM platform.slices AS slice JOIN platform.loads AS held ON held.id = held_load_ids[cardinality(held_load_ids)]
    WHERE slice.dataset = 'accounts' AND slice.account = :connection
      AND jsonb_exists(held.notes -> 'waiting', :of_account)
""")


def open_holds(database: Database) -> tuple[Receipt, ...]:
    """Return the receipts of readings that are held: no later loads published their days, or held them again."""
    held = select(LOADS).join(SLICES, LOADS.c.id == SLICES.c.held_load_ids.any_()).where(text("held_load_ids <> '{}'"))
    in_order = held.order_by(LOADS.c.dataset, LOADS.c.account, LOADS.c.window_start)
    return tuple(Receipt.of(row) for row in database.execute(in_order).mappings())
