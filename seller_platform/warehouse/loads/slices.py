"""Slices: replaced whole, in one transaction, with a receipt.

A slice is first read from the upstream into a `Spool`. Only a slice that was read whole touches the database:
transactions stay short, a failed reading costs the database nothing, and rows that are stored already are not written
again.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Self

import psycopg
from sqlalchemy import ColumnElement, Connection, RowMapping, and_, delete, func, insert, literal, select, text

from seller_platform.contract import Dataset, Slicing, Window
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import ContractViolationError, SpoolError
from seller_platform.failpoints import reach
from seller_platform.warehouse.loads.copy_format import Row, RowDigest, RowWriter, copy_statement
from seller_platform.warehouse.postgres.advisory_locks import hold, releasing
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.tables import LOADS, loads_of, table_for

_SPOOL_BYTES_IN_MEMORY = 8 << 20
_COPY_CHUNK_BYTES = 1 << 20
_REPORT_ID = "report_id"


@dataclass(frozen=True)
class Slice:
    """A dataset's rows of one account in one window.

    Attributes:
        account: The account key; for `seller.accounts` the name of the connection.
        window: Local days; for a snapshot its one day.
        report_id: For `seller.report_rows` the report, of which an account has several on a day.
    """

    dataset: Dataset
    account: str
    window: Window
    report_id: str | None = None

    def __str__(self) -> str:
        report = "" if self.report_id is None else f", report {self.report_id}"
        return f"{self.dataset.name} of {self.account}, {self.window}{report}"


@dataclass(frozen=True)
class Receipt:
    """One load, as `platform.loads` keeps it."""

    id: int
    dataset: str
    account: str
    window: Window
    requests: int
    pages: int
    body_bytes: int
    announced: int | None
    rows: int
    digest: bytes
    verdict: CountVerdict
    changed: bool
    restatement: Mapping[str, Any] | None
    notes: Mapping[str, Any] | None
    run_id: str | None
    started_at: datetime
    finished_at: datetime

    @property
    def seconds(self) -> float:
        return (self.finished_at - self.started_at).total_seconds()

    @classmethod
    def of(cls, row: RowMapping) -> Self:
        """Return the receipt of a row of `platform.loads`."""
        values: dict[str, Any] = dict(row)
        values["window"] = Window(values.pop("window_start"), values.pop("window_end"))
        values["verdict"] = CountVerdict(values["verdict"])
        return cls(**values)


class Spool:
    """The rows of a slice during reading: in memory, above 8 MiB in a file.

    A reader writes to it; `restart` deletes the rows of a failed attempt.
    """

    def __init__(self, slice_: Slice, load_id: int) -> None:
        self.slice, self.load_id = slice_, load_id
        self._writers: dict[tuple[str | None, ...], RowWriter] = {}
        self._digest = RowDigest()
        self._file = tempfile.SpooledTemporaryFile(_SPOOL_BYTES_IN_MEMORY)  # noqa: SIM115  # closed by `close`

    @property
    def count(self) -> int:
        return self._digest.count

    @property
    def digest(self) -> bytes:
        """An order-independent digest of the rows so far."""
        return self._digest.value

    def restart(self) -> None:
        """Delete every row."""
        self._digest = RowDigest()
        with self._spool_errors():
            self._file.seek(0)
            self._file.truncate()

    def write(
        self,
        rows: Sequence[Row],
        *,
        tags: Sequence[str | None] = (),
        extras: Mapping[int, str] = MappingProxyType({}),
        page: int,
        account: str | None = None,
    ) -> None:
        """Append the rows of one page. `account` is given where it is not the slice's own."""
        key = tuple(tags)
        if key not in self._writers:
            self._writers[key] = RowWriter(self.slice.dataset, key)
        writer = self._writers[key]
        lines = writer.lines(rows, extras)
        self._digest.add(lines)
        block = writer.block(lines, account=account or self.slice.account, load_id=self.load_id, page=page)
        with self._spool_errors():
            self._file.write(block)

    def chunks(self) -> Iterator[bytes]:
        """Yield everything that was written, from the start."""
        with self._spool_errors():
            self._file.seek(0)
        while chunk := self._file.read(_COPY_CHUNK_BYTES):
            yield chunk

    def close(self) -> None:
        """Close the file and free the memory."""
        with suppress(OSError):  # on a full disk it tries once more to write rows that are not needed any more
            self._file.close()

    @contextmanager
    def _spool_errors(self) -> Iterator[None]:
        """Turn an OSError into a SpoolError. A write may fail as late as in the step after it."""
        try:
            yield
        except OSError as error:
            folder = tempfile.tempdir or "the folder for temporary files"
            raise SpoolError(str(self.slice), folder, error.strerror or str(error)) from error


class Load:
    """The replacement of one slice: rows are read into its `spool`, and `store` writes them."""

    def __init__(self, connection: Connection, slice_: Slice, load_id: int) -> None:
        self.slice = slice_
        self.spool = Spool(slice_, load_id)
        self._connection = connection
        self._table = table_for(slice_.dataset)

    def store(self, facts: LoadFacts, *, started_at: datetime, run_id: str | None = None) -> Receipt:
        """Make the stored slice equal to the spool and write the receipt, in one transaction.

        Rows that are stored already are not written again.

        Raises:
            ContractViolationError: PostgreSQL refused a value. Nothing was stored.
            WarehouseUnavailableError: The server went away. The slice is as it was, or as it should be.
        """
        report = {} if self.slice.report_id is None else {_REPORT_ID: self.slice.report_id}
        with self._connection.begin():
            previous = _latest_receipt(self._connection, self.slice)
            changed = previous is None or (previous.window, previous.digest) != (self.slice.window, self.spool.digest)
            before = self._amounts() if changed and previous is not None else None
            if changed:
                self._replace()
            restatement = None if previous is None else _restatement(before, self._amounts() if before else None)
            row = self._connection.execute(
                insert(LOADS).returning(LOADS),
                {
                    "id": self.spool.load_id,
                    "dataset": self.slice.dataset.name,
                    "account": self.slice.account,
                    "window_start": self.slice.window.start,
                    "window_end": self.slice.window.end,
                    "requests": facts.requests,
                    "pages": facts.pages,
                    "body_bytes": facts.body_bytes,
                    "announced": facts.announced,
                    "rows": self.spool.count,
                    "digest": self.spool.digest,
                    "verdict": facts.verdict.value,
                    "changed": changed,
                    "restatement": restatement,
                    "notes": {**report, **facts.notes} or None,
                    "run_id": run_id,
                    "started_at": started_at,
                    "finished_at": datetime.now(UTC),
                },
            ).mappings()
            receipt = Receipt.of(row.one())
            reach("slice.receipted")
        reach("slice.committed")
        return receipt

    def _replace(self) -> None:
        self._connection.execute(delete(self._table).where(self._inside()))
        reach("slice.deleted")
        try:
            with driver_of(self._connection).cursor() as cursor:
                with cursor.copy(copy_statement(self.slice.dataset)) as copy:
                    for chunk in self.spool.chunks():
                        copy.write(chunk)
                copied = cursor.rowcount
            reach("slice.copied")
        except psycopg.DataError as error:
            raise ContractViolationError(str(self.slice), _refusal(error)) from None
        if copied != self.spool.count:
            raise ContractViolationError(str(self.slice), f"{self.spool.count} rows were read, {copied} arrived")

    def _inside(self) -> ColumnElement[bool]:
        columns, window = self._table.c, self.slice.window
        column = columns[self.slice.dataset.slice_column]
        if self.slice.dataset.slicing is Slicing.CONNECTION:
            return column == self.slice.account
        inside = and_(columns.account == self.slice.account, column >= window.start, column < window.end)
        return inside if self.slice.report_id is None else and_(inside, columns[_REPORT_ID] == self.slice.report_id)

    def _amounts(self) -> dict[tuple[str, str], Decimal]:
        """Return the rows stored now, and the sum of each money column by currency."""
        counted = self._connection.execute(select(func.count()).where(self._inside()).select_from(self._table))
        amounts = {("rows", ""): Decimal(counted.scalar_one())}
        for column in self.slice.dataset.money:
            currency = self._table.c[column.currency] if column.currency else literal("")
            sums = select(currency, func.sum(self._table.c[column.name])).where(self._inside()).group_by(currency)
            for code, amount in self._connection.execute(sums):
                amounts[(column.name, code or "")] = amount or Decimal(0)
        return amounts


@contextmanager
def open_load(database: Database, slice_: Slice) -> Iterator[Load]:
    """Wait for the lock of a slice and hold it until the block ends.

    Only one load of a slice runs at a time, on any machine. The lock ends with its connection, so a loader that is
    killed leaves none behind.

    Raises:
        WarehouseUnavailableError: The server cannot be reached.
    """
    with database.connect() as connection, releasing(connection):
        for window in slice_.window.months():
            hold(connection, f"{slice_.dataset.name}|{slice_.account}|{Window.month_of(window.start).start:%Y-%m}")
        load_id = connection.execute(text("SELECT nextval(pg_get_serial_sequence('platform.loads', 'id'))"))
        load = Load(connection, slice_, load_id.scalar_one())
        connection.commit()
        try:
            yield load
        finally:
            load.spool.close()


def _latest_receipt(connection: Connection, slice_: Slice) -> Receipt | None:
    """Return the last load that wrote or confirmed any day of the window.

    Receipts are numbered under the slice's lock: unlike times, numbers are in order even where a clock was set back.
    """
    statement = select(LOADS).where(loads_of(slice_.dataset, slice_.account, slice_.window))
    if slice_.report_id is not None:
        statement = statement.where(LOADS.c.notes[_REPORT_ID].astext == slice_.report_id)
    row = connection.execute(statement.order_by(LOADS.c.id.desc()).limit(1)).mappings().one_or_none()
    return None if row is None else Receipt.of(row)


def _restatement(
    before: Mapping[tuple[str, str], Decimal] | None, after: Mapping[tuple[str, str], Decimal] | None
) -> dict[str, object]:
    """Return what differs, as `{"rows": {...}, "order_total USD": {"before": "1.00", "after": "2.00"}}`."""
    before, after = before or {}, after or {}
    return {
        " ".join(filter(None, key)): {"before": str(before.get(key, 0)), "after": str(after.get(key, 0))}
        for key in sorted({*before, *after})
        if before.get(key, Decimal(0)) != after.get(key, Decimal(0))
    }


def _refusal(error: psycopg.DataError) -> str:
    """Say where PostgreSQL refused a value, without repeating the value."""
    position = re.search(r"line (\d+)(?:, column (\w+))?", error.diag.context or "")
    line, column = position.groups() if position else ("?", None)
    return f"row {line}{f', column {column}' if column else ''}: not a value PostgreSQL takes ({error.sqlstate})"
