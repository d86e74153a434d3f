"""Slices: compared with what was read, in one transaction, with a receipt.

A slice is first read from the upstream into a `Spool`. Only a slice that was read whole touches the database:
transactions stay short, a failed reading costs the database nothing, and rows that are stored already are not written
again.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Self

import psycopg
from psycopg import sql
from sqlalchemy import Connection, func, insert, select, text

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Slicing, Window, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.loads import NO_PAGES, CountVerdict, LoadFacts, PageFacts
from seller_platform.counts import count_of
from seller_platform.errors import ContractViolationError, ImplausibleReadingError, ReadingHeldError
from seller_platform.failpoints import reach
from seller_platform.warehouse.loads.copy_format import RowDigest, copy_statement
from seller_platform.warehouse.loads.difference import Difference, PendingRows, ctid_of, difference, stored_rows
from seller_platform.warehouse.loads.known_pages import keep_pages, recall_pages
from seller_platform.warehouse.loads.plausibility import Doubt, Judge
from seller_platform.warehouse.loads.profiles import (
    NO_ROWS,
    Profile,
    Sums,
    changed_days,
    combined,
    profile_query,
    restatement,
)
from seller_platform.warehouse.loads.spool import Spool
from seller_platform.warehouse.postgres.advisory_locks import hold, releasing
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.tables import IS_READING, LOADS, SELLER, loads_held_of, loads_of
from seller_platform.warehouse.sums.keeping import apply_costs, begin_sums, keep_sums

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
    sums: Sums | None = None

    @property
    def seconds(self) -> float:
        return (self.finished_at - self.started_at).total_seconds()

    @property
    def is_revert(self) -> bool:
        """Whether the load made the slice what it was before, without reading it."""
        return "reverts_load" in (self.notes or {})

    @classmethod
    def of(cls, row: Mapping[Any, Any]) -> Self:
        """Return the receipt of a row of `platform.loads`."""
        values: dict[str, Any] = dict(row)
        values["window"] = Window(values.pop("window_start"), values.pop("window_end"))
        values["verdict"] = CountVerdict(values["verdict"])
        del values["changed_days"]  # of interest to the view `platform.settledness` alone
        del values["summed"]  # of interest to `sums.keeping` alone
        sums = values["sums"]
        values["sums"] = None if sums is None else {name: Decimal(amount) for name, amount in sums.items()}
        return cls(**values)


@dataclass(frozen=True)
class SliceChange:
    """The sums of a slice before and after a load; None where they are not known.

    Attributes:
        notes: Further notes for the receipt.
        days: What changed, by local day, as `changed_days` returns it; None for a first load.
        moved: Whether any row came or went.
    """

    before: Sums | None
    after: Sums | None
    notes: Mapping[str, Any] = field(default_factory=dict)
    days: Mapping[str, Any] | None = None
    moved: bool = False

    @property
    def restatement(self) -> dict[str, object]:
        """What changed, by name of the sum."""
        return restatement(self.before or {}, self.after or {})


@dataclass(frozen=True)
class _Doubts:
    """What the judgement of a reading needs beside its rows."""

    judge: Judge
    announced_before: bool
    announces: bool
    started_at: datetime


class _DoubtedError(Exception):
    """Ends the transaction of a reading that is implausible."""

    def __init__(self, doubt: Doubt) -> None:
        self.doubt = doubt
        super().__init__(doubt.reason)


class Load:
    """The replacement of one slice: rows are read into its `spool`, and `store` writes what differs."""

    def __init__(
        self, connection: Connection, slice_: Slice, load_id: int, known: Mapping[bytes, PageFacts] = NO_PAGES
    ) -> None:
        self.slice = slice_
        self.spool = Spool(str(slice_), slice_.dataset, slice_.account, load_id, known)
        self._connection = connection

    def store(
        self, facts: LoadFacts, *, started_at: datetime, run_id: str | None = None, judge: Judge | None = None
    ) -> Receipt:
        """Make the stored slice equal to the spool and write the receipt, in one transaction.

        Rows that are stored already are not touched. Rows that were not read move to schema `history`.

        Args:
            judge: Judges the reading before it is published; None publishes it in any case. If a second reading is
                implausible, too, the stored rows stay, and the verdict of the receipt is `held`.

        Raises:
            ImplausibleReadingError: The first reading is implausible. Nothing was stored.
            ContractViolationError: PostgreSQL refused a value. Nothing was stored.
            WarehouseUnavailableError: The server went away. The slice is as it was, or as it should be.
        """
        try:
            return self._publish(facts, judge, started_at=started_at, run_id=run_id)
        except _DoubtedError as error:
            if judge is None or not judge.is_second:
                raise ImplausibleReadingError(str(self.slice), error.doubt.reason) from None
            return self._hold(facts, error.doubt, started_at=started_at, run_id=run_id)

    def _publish(self, facts: LoadFacts, judge: Judge | None, *, started_at: datetime, run_id: str | None) -> Receipt:
        with self._connection.begin():
            previous = _latest_receipt(self._connection, self.slice)
            is_same_window = previous is not None and previous.window == self.slice.window
            known = previous.sums if previous is not None and is_same_window else None
            changed = (
                previous is None
                or not is_same_window
                or previous.digest != self.spool.digest
                or self._count() != previous.rows  # another program changed the table
            )
            change = SliceChange(known, known)
            if changed:
                doubts = self._doubts(judge, facts, started_at) if judge else None
                change = self._replace(known, doubts, is_first=previous is None)
                changed = previous is None or change.moved
            receipt = self._receipted(
                replace(facts, notes={**facts.notes, **change.notes}),
                change,
                rows=self.spool.count,
                digest=self.spool.digest,
                changed=changed,
                restatement=None if previous is None else change.restatement,
                times=(started_at, run_id),
            )
            if self.spool.pages.keys() != self.spool.known.keys():
                keep_pages(
                    self._connection,
                    self.slice.dataset,
                    self.slice.account,
                    self.slice.window,
                    receipt.id,
                    self.spool.pages,
                )
        reach("slice.committed")
        return receipt

    def _doubts(self, judge: Judge, facts: LoadFacts, started_at: datetime) -> _Doubts:
        """Return what the judgement needs; the newest load that changed rows says whether totals are announced."""
        dataset = self.slice.dataset
        of_days = loads_of(dataset, self.slice.account, self.slice.window if dataset.is_dated else None)
        newest = select(LOADS.c.announced).where(of_days, IS_READING, LOADS.c.changed).order_by(LOADS.c.id.desc())
        announced_before = self._connection.execute(newest.limit(1)).scalar_one_or_none() is not None
        return _Doubts(judge, announced_before, facts.announced is not None, started_at)

    def _hold(self, facts: LoadFacts, doubt: Doubt, *, started_at: datetime, run_id: str | None) -> Receipt:
        """Write the receipt of a reading that is not published."""
        with self._connection.begin():
            return self._receipted(
                replace(facts, verdict=CountVerdict.HELD, notes={**facts.notes, "held": doubt.note}),
                SliceChange(None, None),
                rows=doubt.rows_stored,
                digest=self.spool.digest,
                changed=False,
                restatement=None,
                times=(started_at, run_id),
            )

    def revert(self, undone: Receipt, *, started_at: datetime) -> Receipt:
        """Make the stored slice what it was before a load, and write a receipt of its own.

        Args:
            undone: The load; later loads of its window are undone with it.
        """
        dataset, inside = self.slice.dataset, self._inside()
        with self._connection.begin(), driver_of(self._connection).cursor() as cursor:
            pending = PendingRows(cursor, dataset, self.spool.load_id)
            came = pending.bring_back(inside, before=undone.id)
            later = stored_rows(cursor, dataset, sql.SQL("{} AND load_id >= {}").format(inside, undone.id))
            change = self._exchange(pending, self._profile(cursor).sums, later.addresses, some_are_new=came > 0)
            stored, digest = stored_rows(cursor, dataset, inside), RowDigest()
            digest.add(stored.hashes or b"")
            return self._receipted(
                LoadFacts(0, 0, 0, None, CountVerdict.UNVERIFIABLE, {"reverts_load": undone.id}),
                change,
                rows=stored.count,
                # Without all hashes the digest is not known; no reading has an empty one.
                digest=b"" if stored.hashes is None else digest.value,
                changed=True,
                restatement=change.restatement,
                times=(started_at, None),
            )

    def _receipted(
        self,
        facts: LoadFacts,
        change: SliceChange,
        *,
        rows: int,
        digest: bytes,
        changed: bool,
        restatement: Mapping[str, object] | None,
        times: tuple[datetime, str | None],
    ) -> Receipt:
        """Write the receipt and return it, after the sums that follow from changed rows."""
        account, window = self.slice.account, self.slice.window
        summed = changed and keep_sums(
            self._connection, self.slice.dataset, account, window, load_id=self.spool.load_id
        )
        report = {} if self.slice.report_id is None else {_REPORT_ID: self.slice.report_id}
        started_at, run_id = times
        row = self._connection.execute(
            insert(LOADS).returning(LOADS),
            {
                "id": self.spool.load_id,
                "dataset": self.slice.dataset.name,
                "account": account,
                "window_start": window.start,
                "window_end": window.end,
                "requests": facts.requests,
                "pages": facts.pages,
                "body_bytes": facts.body_bytes,
                "announced": facts.announced,
                "rows": rows,
                "digest": digest,
                "verdict": facts.verdict.value,
                "changed": changed,
                "restatement": restatement,
                "sums": None if change.after is None else {name: str(each) for name, each in change.after.items()},
                "changed_days": change.days,
                "summed": summed,
                "notes": {**report, **facts.notes} or None,
                "run_id": run_id,
                "started_at": started_at,
                "finished_at": utc_now(),
            },
        ).mappings()
        receipt = Receipt.of(row.one())
        if changed and self.slice.dataset == COST_PERIODS:
            apply_costs(self._connection, account)
        reach("slice.receipted")
        return receipt

    def _replace(self, known: Sums | None, doubts: "_Doubts | None", *, is_first: bool) -> SliceChange:
        """Write what differs.

        Args:
            known: The sums of the stored rows, if a receipt has them.
            is_first: No day of the slice was loaded before, so its sums are not compared.

        Raises:
            _DoubtedError: The reading is implausible.
        """
        with driver_of(self._connection).cursor() as cursor:
            stored = stored_rows(cursor, self.slice.dataset, self._inside())
            if not stored.count:
                notes = self._notes_of_doubt(cursor, doubts) if self.slice.dataset.keeps_snapshots else {}
                self._copy(cursor, copy_statement(self.slice.dataset), None, self.spool.count)
                after = None if is_first else self._profile(cursor).sums
                return SliceChange({}, after, notes, moved=self.spool.count > 0)
            found = difference(self.spool.hashes, stored)
            lacks_total = doubts is not None and doubts.announced_before and not doubts.announces
            lacks_amounts = any(column.name not in self.spool.with_amounts for column in self.slice.dataset.money)
            is_suspect = lacks_total or lacks_amounts or self._loses_rows(cursor, found)
            notes = self._notes_of_doubt(cursor, doubts) if is_suspect else {}
            pending = PendingRows(cursor, self.slice.dataset, self.spool.load_id)
            new = sum(found.is_new)
            self._copy(cursor, copy_statement(self.slice.dataset, pending.table), found.is_new, new)
            before = self._profile(cursor).sums if known is None else known
            change = self._exchange(pending, before, found.gone, some_are_new=new > 0)
            return replace(change, notes=notes)

    def _loses_rows(self, cursor: psycopg.Cursor[Any], found: Difference) -> bool:
        """Whether some day has fewer rows than are stored. Rows that only changed are gone and new on the same day."""
        column = self.slice.dataset.slice_column
        statement = sql.SQL("SELECT {day}::text, count(*) FROM {table} WHERE ctid = ANY (%s::text[]::tid[]) GROUP BY 1")
        of_gone = statement.format(day=sql.Identifier(column), table=sql.Identifier(SELLER, self.slice.dataset.name))
        gone = cursor.execute(of_gone, [[ctid_of(address) for address in found.gone]]).fetchall() if found.gone else []
        new = self.spool.days_of(found.is_new) if gone else {}
        return any(rows > new.get(day, 0) for day, rows in gone)

    def _notes_of_doubt(self, cursor: psycopg.Cursor[Any], doubts: "_Doubts | None") -> dict[str, Any]:
        """Judge the reading; return the note with which a doubted one is published.

        Raises:
            _DoubtedError: The reading is implausible.
        """
        if doubts is None:
            return {}
        dataset, judge = self.slice.dataset, doubts.judge
        stored = self._profile(cursor)
        if not stored.rows and dataset.keeps_snapshots:
            stored = self._newest_snapshot(cursor)
        doubt = judge.doubt(
            dataset, stored, self.spool, announced_before=doubts.announced_before, announces=doubts.announces
        )
        if doubt is None:
            return {}
        held = held_readings(self._connection, dataset, self.slice.account, self.slice.window)
        notes = judge.believes(doubt, held, doubts.started_at)
        if not notes:
            raise _DoubtedError(doubt)
        return notes

    def _newest_snapshot(self, cursor: psycopg.Cursor[Any]) -> Profile:
        """Return the profile of the newest snapshot before the slice's day that had rows, or was accepted without."""
        newest = sql.SQL(
            "account = {account} AND {day} = (SELECT max(window_start) FROM platform.loads WHERE dataset = {dataset} "
            "AND account = {account} AND verdict <> 'held' AND (rows > 0 OR notes -> 'accepted' IS NOT NULL) "
            "AND window_start < {before})"
        ).format(
            account=self.slice.account,
            day=sql.Identifier(self.slice.dataset.slice_column),
            dataset=self.slice.dataset.name,
            before=self.slice.window.start,
        )
        return self._profile(cursor, newest)

    def _exchange(
        self, pending: PendingRows, before: Sums, gone: Sequence[bytes], *, some_are_new: bool
    ) -> SliceChange:
        """Move the rows that are gone to history, and publish the new ones."""
        ctids = [ctid_of(address) for address in gone]
        if ctids and some_are_new:
            ctids = pending.drop_equal(ctids)
        left = pending.move_to_history(ctids) if ctids else NO_ROWS
        reach("slice.deleted")
        came = pending.publish() if some_are_new else NO_ROWS
        reach("slice.published")
        days = changed_days(gone=left, new=came) if self.slice.dataset.is_dated else None
        after = combined(before, gone=left.sums, new=came.sums)
        return SliceChange(before, after, days=days, moved=bool(left.rows or came.rows))

    def _copy(
        self, cursor: psycopg.Cursor[Any], statement: sql.Composed, chosen: Sequence[bool] | None, count: int
    ) -> None:
        """Write rows of the spool: those that are chosen, or all of them."""
        if not count:
            return
        try:
            with cursor.copy(statement) as copy:
                for chunk in self.spool.chunks(chosen):
                    copy.write(chunk)
        except psycopg.DataError as error:
            raise ContractViolationError(str(self.slice), self._refusal(error, chosen)) from None
        if cursor.rowcount != count:
            raise ContractViolationError(
                str(self.slice), f"{count_of(count, 'row', 'was')} read, {cursor.rowcount} arrived"
            )
        reach("slice.copied")

    def _refusal(self, error: psycopg.DataError, chosen: Sequence[bool] | None) -> str:
        """Say where PostgreSQL refused a value, without repeating the value."""
        position = re.search(r"line (\d+)(?:, column (\w+))?", error.diag.context or "")
        line, column = position.groups() if position else (None, None)
        row = self.spool.row_at(int(line), chosen) if line else "?"
        return f"row {row}{f', column {column}' if column else ''}: not a value PostgreSQL takes ({error.sqlstate})"

    def _profile(self, cursor: psycopg.Cursor[Any], condition: sql.Composable | None = None) -> Profile:
        """Return the profile of the stored rows of the slice, or of those that meet a condition."""
        dataset = self.slice.dataset
        query = profile_query(dataset, sql.Identifier(SELLER, dataset.name), condition or self._inside())
        return Profile.of(dataset, cursor.execute(query).fetchall())

    def _count(self) -> int:
        """Return how many rows of the slice are stored."""
        table = sql.Identifier(SELLER, self.slice.dataset.name)
        counted = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(table, self._inside())
        row = driver_of(self._connection).execute(counted).fetchone()
        return 0 if row is None else int(row[0])

    def _inside(self) -> sql.Composed:
        """Return the condition for the rows of the slice."""
        column, window = sql.Identifier(self.slice.dataset.slice_column), self.slice.window
        if self.slice.dataset.slicing is Slicing.CONNECTION:
            return sql.SQL("{} = {}").format(column, self.slice.account)
        inside = sql.SQL("account = {} AND {column} >= {} AND {column} < {}").format(
            self.slice.account, window.start, window.end, column=column
        )
        report_id = self.slice.report_id
        return inside if report_id is None else sql.SQL("{} AND report_id = {}").format(inside, report_id)


def doubt_of(receipt: Receipt) -> Doubt:
    """Return why a reading was held."""
    return Doubt.of_note((receipt.notes or {})["held"])


def held_error(receipt: Receipt) -> ReadingHeldError:
    """Return the error that reports a held reading."""
    return ReadingHeldError(str(slice_of(receipt)), doubt_of(receipt).reason, receipt.id)


def slice_of(receipt: Receipt) -> Slice:
    """Return the slice of a load."""
    report_id = (receipt.notes or {}).get(_REPORT_ID)
    return Slice(dataset_named(receipt.dataset), receipt.account, receipt.window, report_id)


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
        known = recall_pages(connection, slice_.dataset, slice_.account, slice_.window)
        load = Load(connection, slice_, load_id.scalar_one(), known)
        begin_sums(connection, slice_.dataset, slice_.account)
        connection.commit()
        try:
            yield load
        finally:
            load.spool.close()


def held_readings(
    connection: Connection, dataset: Dataset, account: str, window: Window
) -> list[tuple[datetime, Doubt]]:
    """Return when a slice was held since a reading of it was last published, and why; newest first."""
    published = select(func.max(LOADS.c.id)).where(loads_of(dataset, account, window if dataset.is_dated else None))
    held = select(LOADS.c.started_at, LOADS.c.notes).where(
        loads_held_of(dataset, account),
        LOADS.c.id > func.coalesce(published.scalar_subquery(), 0),
    )
    if dataset.is_dated:
        held = held.where(LOADS.c.window_start < window.end, LOADS.c.window_end > window.start)
    return [
        (moment, Doubt.of_note(notes["held"])) for moment, notes in connection.execute(held.order_by(LOADS.c.id.desc()))
    ]


def _latest_receipt(connection: Connection, slice_: Slice) -> Receipt | None:
    """Return the last load that wrote or confirmed any day of the window.

    Receipts are numbered under the slice's lock: unlike times, numbers are in order even where a clock was set back.
    """
    statement = select(LOADS).where(loads_of(slice_.dataset, slice_.account, slice_.window))
    if slice_.report_id is not None:
        statement = statement.where(LOADS.c.notes[_REPORT_ID].astext == slice_.report_id)
    row = connection.execute(statement.order_by(LOADS.c.id.desc()).limit(1)).mappings().one_or_none()
    return None if row is None else Receipt.of(row)
