"""Slices: compared with what was read, in one transaction, with a receipt.

A slice is first read from the upstream into a `Spool`. Only a slice that was read whole touches the database:
transactions stay short, a failed reading costs the database nothing, and rows that are stored already are not written
again.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec
import psycopg
from psycopg import sql
from sqlalchemy import Connection, delete, insert, select, text

from seller_platform.capabilities import contributed
from seller_platform.clocks import utc_now
from seller_platform.contract import Slicing
from seller_platform.contract.loads import DATED_ANEW, NO_PAGES, CountVerdict, LoadFacts, PageFacts
from seller_platform.counts import count_of
from seller_platform.errors import ContractViolationError, ImplausibleReadingError, RequestError
from seller_platform.failpoints import reach
from seller_platform.warehouse.loads.copy_format import LINE_VERSION, RowDigest, copy_statement
from seller_platform.warehouse.loads.difference import PendingRows, RowsApart, difference, stored_rows
from seller_platform.warehouse.loads.holds import Judge
from seller_platform.warehouse.loads.judgement import Reading, ReadingPart
from seller_platform.warehouse.loads.profiles import NO_ROWS, Sums, changed_days, combined, restatement, stored_profile
from seller_platform.warehouse.loads.receipts import REPORT_ID, Receipt, Slice, receipt_of, slice_of
from seller_platform.warehouse.loads.spool import Spool
from seller_platform.warehouse.postgres.advisory_locks import hold, releasing
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.tables import KNOWN_PAGES, LOADS, PUBLISHED_LOADS, SELLER, loads_of

_Pages = tuple[int, dict[bytes, PageFacts]]
_DECODER = msgspec.msgpack.Decoder(_Pages)

_ROWS_OF_LOADS = text("""
    SELECT rows FROM platform.slices
    WHERE dataset = :of_dataset AND account = :of_account AND load_id IS NOT NULL
      AND month = :first_day AND month + interval '1 month' = :before_day
""")


@dataclass(frozen=True)
class SliceChange:
    """The sums of a slice before and after a load; None where they are not known.

    Attributes:
        days: What changed, by local day, as `changed_days` returns it; None for a first load.
    """

    before: Sums | None
    after: Sums | None
    days: Mapping[str, Any] | None = None
    moved: bool = False
    came: int = 0
    went: int = 0


class Load:
    """The replacement of one slice: rows are read into its `spool`, and `store` writes what differs.

    If it is `by_value` on behalf of somebody, stored rows are compared by value, not by their hashes.
    """

    def __init__(
        self,
        connection: Connection,
        slice_: Slice,
        load_id: int,
        known: Mapping[bytes, PageFacts] = NO_PAGES,
        *,
        by_value: str | None = None,
    ) -> None:
        self.slice, self._by_value = slice_, by_value
        self.spool = Spool(str(slice_), slice_.account, load_id, known)
        self._connection = connection

    def hold(self, name: str) -> None:
        """Wait for the lock of a name, and hold it until the load ends."""
        hold(self._connection, name)
        self._connection.commit()

    def store(
        self, facts: LoadFacts, *, started_at: datetime, run_id: str | None = None, judge: Judge | None = None
    ) -> Receipt:
        """Make the stored slice equal to the spool and write the receipt, in one transaction.

        Rows that are stored already are not touched. Rows that were not read move to schema `history`. Days of a second
        reading that contradict the stored rows are held: their rows stay, and a receipt of their own has the verdict
        `held`. All other days are published.

        Args:
            judge: Judges the reading before it is published; None publishes it in any case.

        Returns:
            The receipt; if days are held, that of the last of them, which `platform.problems` names, too.

        Raises:
            ImplausibleReadingError: The first reading is implausible. Nothing was stored.
            ContractViolationError: PostgreSQL refused a value. Nothing was stored.
            WarehouseUnavailableError: The server went away. The slice is as it was, or as it should be.
        """
        whole = ReadingPart(self.slice, self.spool.load_id, facts, started_at, run_id)
        with self._connection.begin(), driver_of(self._connection).cursor() as cursor:
            previous = _latest_receipt(self._connection, self.slice)
            last = (previous.window, previous.digest) if previous is not None and self._by_value is None else None
            # The rows of the spool are those of the last load, and stored as that left them.
            if previous and last == (self.slice.window, self.spool.digest) and self._count() == previous.rows:
                receipts = [self._receipted(whole, SliceChange(previous.sums, previous.sums), previous)]
            else:
                receipts = self._exchanged(cursor, whole, judge, previous)
            held = [each for each in receipts if each.verdict is CountVerdict.HELD]
            if self.spool.pages.keys() != self.spool.known.keys():
                _keep_pages(self._connection, self.slice, self.spool.load_id, {} if held else self.spool.pages)
        reach("slice.committed")
        return (held or receipts)[-1]

    def compare(self) -> RowsApart:
        """Return how the spool and the stored slice differ by value. Nothing is stored."""
        dataset = self.slice.dataset
        with self._connection.begin() as transaction, driver_of(self._connection).cursor() as cursor:
            stored = stored_rows(cursor, dataset, self.slice.inside, by_value=True)
            pending = PendingRows(cursor, dataset, self.slice.owned)
            self._copy(cursor, copy_statement(dataset, pending.table), None, self.spool.count)
            apart = pending.apart(pending.drop_equal(stored.addresses))
            transaction.rollback()
        return apart

    def _is_listed_as_loaded(self, cursor: psycopg.Cursor[Any]) -> bool:
        """Whether the list is what loads have stored: only another program can have changed the rows.

        It is if each stored row is listed by its hash, and each listed one is stored; those of no load are left out.
        Rows that are missing or too many do not matter where the loads stored as many of a whole month as are listed.
        """
        stored = stored_rows(cursor, self.slice.dataset, self.slice.inside)
        is_new, gone = difference(self.spool.hashes, stored)
        are_listed, are_stored = len(gone) == len(stored.unhashed), not any(is_new)
        if are_listed and are_stored:
            return bool(stored.hashed)
        rows = self._connection.execute(_ROWS_OF_LOADS, self.slice.bound)
        return (are_listed or are_stored) and rows.scalar_one_or_none() == self.spool.count

    def _exchanged(
        self, cursor: psycopg.Cursor[Any], whole: ReadingPart, judge: Judge | None, previous: Receipt | None
    ) -> list[Receipt]:
        """Write what differs, hold the days in doubt, and return the receipts."""
        dataset, inside = self.slice.dataset, self.slice.inside
        stored = stored_rows(cursor, dataset, inside, by_value=self._by_value is not None)
        if not stored.count and (judge is None or not dataset.keeps_snapshots):
            self._copy(cursor, copy_statement(dataset), None, self.spool.count)
            after = None if previous is None else stored_profile(cursor, dataset, inside).sums
            change = SliceChange({}, after, moved=bool(self.spool.count), came=self.spool.count)
            is_repair = previous is not None and self._is_listed_as_loaded(cursor)
            return [self._receipted(self._repaired(whole, change) if is_repair else whole, change, previous)]
        # The sums of the last load are not those of the stored rows where another program changed them.
        is_altered = self._by_value is not None or (previous is not None and stored.count != previous.rows)
        is_new, gone = difference(self.spool.hashes, stored)
        pending, new = PendingRows(cursor, dataset, self.slice.owned), sum(is_new)
        self._copy(cursor, copy_statement(dataset, pending.table), is_new, new)
        if gone and new:
            gone = pending.drop_equal(gone)
        if judge is not None and new > len(gone) and (days := pending.dated_anew(self.slice.window.start)):
            whole = replace(whole, facts=replace(facts := whole.facts, notes={**facts.notes, DATED_ANEW: days}))
        parts, is_repair = [whole], is_altered and self._is_listed_as_loaded(cursor)
        if judge is not None and not is_repair:  # what loads have stored before is not in doubt
            reading = Reading(self._connection, cursor, self.slice, pending, gone, stored.count, self.spool.days)
            parts = reading.judged(whole, judge)
            if not judge.is_second:
                for doubt in (part.doubt for part in parts if part.doubt is not None):
                    raise ImplausibleReadingError(str(self.slice), doubt.reason)
        receipts = []
        for part in parts:
            if part.doubt is not None:
                receipts.append(self._receipted(part, SliceChange(None, None), previous))
                continue
            before = None if previous is None or previous.window != part.slice.window or is_altered else previous.sums
            of_part = None if part.is_whole else part.slice.inside
            before = stored_profile(cursor, dataset, of_part or inside).sums if before is None else before
            change = self._exchange(pending, before, gone, part.load_id, of_part)
            receipts.append(self._receipted(self._repaired(part, change) if is_repair else part, change, previous))
        return receipts

    def _repaired(self, part: ReadingPart, change: SliceChange) -> ReadingPart:
        """Return days whose rows another program had changed, with a note of who repaired them."""
        if not change.moved:
            return part
        repair = {"by": self._by_value or "a refresh", "came": change.came, "went": change.went}
        return replace(part, facts=replace(part.facts, notes={**part.facts.notes, "repaired": repair}))

    def revert(self, undone: Receipt, *, started_at: datetime) -> Receipt:
        """Make the stored slice what it was before a load and the later ones, and write a receipt of its own."""
        dataset, inside = self.slice.dataset, self.slice.inside
        with self._connection.begin(), driver_of(self._connection).cursor() as cursor:
            pending = PendingRows(cursor, dataset, self.slice.owned)
            pending.bring_back(inside, before=undone.id)
            later = stored_rows(cursor, dataset, sql.SQL("{} AND load_id >= {}").format(inside, undone.id))
            gone = pending.drop_equal(later.addresses)
            before = stored_profile(cursor, dataset, inside).sums
            change = self._exchange(pending, before, gone, self.spool.load_id, None)
            facts = LoadFacts(0, 0, 0, None, CountVerdict.UNVERIFIABLE, {"reverts_load": undone.id})
            part = ReadingPart(self.slice, self.spool.load_id, facts, started_at, is_whole=False)
            return self._receipted(part, replace(change, moved=True), undone)

    def _receipted(self, part: ReadingPart, change: SliceChange, previous: Receipt | None) -> Receipt:
        """Write the receipt and return it; capabilities follow changed rows. The first load has none before it."""
        account, window, facts, doubt = self.slice.account, part.slice.window, part.facts, part.doubt
        rows, digest, changed = self.spool.count, self.spool.digest, previous is None or change.moved
        if doubt is not None:
            facts = replace(facts, verdict=CountVerdict.HELD, notes={**facts.notes, "held": msgspec.to_builtins(doubt)})
            rows, previous, changed = doubt.rows_stored, None, False
        elif not part.is_whole:
            with driver_of(self._connection).cursor() as cursor:
                stored = stored_rows(cursor, self.slice.dataset, part.slice.inside)
            of_part = RowDigest()
            of_part.add(stored.hashes or b"")
            # Without all hashes it is empty, as of no reading.
            rows, digest = stored.count, b"" if stored.hashes is None else of_part.value
        report = {} if self.slice.report_id is None else {REPORT_ID: self.slice.report_id}
        row = self._connection.execute(
            insert(LOADS).values(finished_at=_END.bindparams(**part.slice.bound)).returning(LOADS),
            {
                **vars(facts),
                "id": part.load_id,
                "dataset": self.slice.dataset.name,
                "account": account,
                "window_start": window.start,
                "window_end": window.end,
                "rows": rows,
                "digest": digest,
                "changed": changed,
                "restatement": None if previous is None else restatement(change.before or {}, change.after or {}),
                "sums": None if change.after is None else {name: str(each) for name, each in change.after.items()},
                "changed_days": change.days,
                "notes": {**report, **facts.notes} or None,
                "run_id": part.run_id,
                "time_zone": self.slice.time_zone,
                "currency": self.slice.currency,
                "started_at": part.started_at,
            },
        ).mappings()
        receipt = Receipt.of(row.one())
        if changed:
            for follow in contributed("on_publish"):
                follow(self._connection, part.slice, receipt, change)
        reach("slice.receipted")
        return receipt

    def _exchange(
        self, pending: PendingRows, before: Sums, gone: Sequence[str], load_id: int, inside: sql.Composable | None
    ) -> SliceChange:
        """Move the rows that are gone to history, and publish the new ones; with a condition, only those inside it."""
        left = pending.move_to_history(gone, load_id, inside) if gone else NO_ROWS
        reach("slice.deleted")
        came = pending.publish(load_id, inside)
        reach("slice.published")
        days = changed_days(gone=left, new=came) if self.slice.dataset.is_dated else None
        after = combined(before, gone=left.sums, new=came.sums)
        return SliceChange(before, after, days, bool(left.rows or came.rows), came=came.rows, went=left.rows)

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
            position = re.search(r"line (\d+)(?:, column (\w+))?", error.diag.context or "")
            line, column = position.groups() if position else (None, None)
            # The value is not repeated.
            row, named = self.spool.row_at(int(line), chosen) if line else "?", f", column {column}" if column else ""
            problem = f"row {row}{named}: not a value PostgreSQL takes ({error.sqlstate})"
            raise ContractViolationError(str(self.slice), problem) from None
        if cursor.rowcount != count:
            problem = f"{count_of(count, 'row', 'was')} read, {cursor.rowcount} arrived"
            raise ContractViolationError(str(self.slice), problem)
        reach("slice.copied")

    def _count(self) -> int:
        """Return how many rows of the slice are stored."""
        table = sql.Identifier(SELLER, self.slice.dataset.name)
        counted = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(table, self.slice.inside)
        ((count,),) = driver_of(self._connection).execute(counted).fetchall()
        return int(count)


@contextmanager
def open_load(database: Database, slice_: Slice, *, by_value: str | None = None) -> Iterator[Load]:
    """Wait for the lock of a slice and hold it until the block ends.

    Only one load of a slice runs at a time, on any machine, and only one of the snapshots of an account, for each is
    judged by the one before it. The lock ends with its connection, so a loader that is killed leaves none behind.

    Args:
        by_value: On whose behalf rows are compared by value. Nothing that former loads kept is believed then, neither
            pages nor hashes of rows. Nor is it while a reading of the slice is held: by their hashes, rows that were
            changed by hand would be those of the list.
    """
    with database.connect() as connection, releasing(connection):
        name = f"{slice_.dataset.name}|{slice_.account}"
        for window in slice_.window.months():
            hold(connection, f"{name}|{window.start:%Y-%m}" if slice_.dataset.is_dated else name)
        load_id, is_held = connection.execute(_OPEN_LOAD, slice_.bound).one()
        by_value = by_value or ("a refresh" if is_held else None)
        known = NO_PAGES if by_value else _recall_pages(connection, slice_)
        load = Load(connection, slice_, load_id, known, by_value=by_value)
        for begin in contributed("on_open"):
            begin(connection, slice_)
        connection.commit()
        try:
            yield load
        finally:
            load.spool.close()


def revert(database: Database, load_id: int) -> Receipt:
    """Make the window of a load what it was before it, as a load of its own.

    Later loads of the window are undone with it. Rows that go move to schema `history` as with any load.

    Raises:
        RequestError: The load has no receipt, or cannot be reverted: its reading was held, nothing was loaded before
            it, or it is a list of accounts, which other tables follow.
    """
    undone, started_at = receipt_of(database, load_id), utc_now()
    slice_ = slice_of(undone)
    named = f"load {load_id} ({slice_})"
    if undone.verdict is CountVerdict.HELD:
        raise RequestError(f"{named} was held, so it changed nothing; see `seller-platform held`")
    if slice_.dataset.slicing is Slicing.CONNECTION:
        step = "run `seller-platform connect --keep-grant` to read it again"
        raise RequestError(f"{named} is a list of accounts; {step}")
    of_days = loads_of(slice_.dataset, undone.account, undone.window)
    before = select(PUBLISHED_LOADS.c.id).where(of_days, PUBLISHED_LOADS.c.id < load_id)
    if not database.execute(select(before.exists())).scalar_one():
        raise RequestError(f"{named} is the first of its days: nothing was stored before it")
    with open_load(database, slice_) as load:
        return load.revert(undone, started_at=started_at)


_OPEN_LOAD = text("""
    SELECT nextval(pg_get_serial_sequence('platform.loads', 'id')), EXISTS (
        SELECT FROM platform.slices
        WHERE dataset = :of_dataset AND account = :of_account AND held_load_ids <> '{}'
          AND coalesce(month + interval '1 month' > :first_day AND month < :before_day, true)
    )
""")


# Of one slice, times are in the order of its loads, even if the server's clock was set back.
_END = text("""(
    SELECT greatest(clock.now, (
        SELECT max(finished_at) + interval '1 microsecond' FROM platform.loads
        WHERE finished_at >= clock.now AND dataset = :of_dataset AND account = :of_account
          AND window_start < :before_day AND window_end > :first_day
    ))
    FROM (SELECT clock_timestamp() AS now) AS clock
)""")


def _latest_receipt(connection: Connection, slice_: Slice) -> Receipt | None:
    """Return the last load that wrote or confirmed any day of the window.

    Receipts are numbered under the slice's lock: unlike times, numbers are in order even where a clock was set back.
    """
    load = PUBLISHED_LOADS.c
    statement = select(PUBLISHED_LOADS).where(loads_of(slice_.dataset, slice_.account, slice_.window))
    if slice_.report_id is not None:
        statement = statement.where(load.notes[REPORT_ID].astext == slice_.report_id)
    row = connection.execute(statement.order_by(load.id.desc()).limit(1)).mappings().one_or_none()
    return None if row is None else Receipt.of(row)


def _recall_pages(connection: Connection, slice_: Slice) -> Mapping[bytes, PageFacts]:
    """Return what the last load of exactly this window knew of its pages, by key of the page."""
    statement = (
        select(KNOWN_PAGES.c.pages)
        .join(LOADS, LOADS.c.id == KNOWN_PAGES.c.load_id)
        .where(
            LOADS.c.dataset == slice_.dataset.name,
            LOADS.c.account == slice_.account,
            LOADS.c.window_start == slice_.window.start,
            LOADS.c.window_end == slice_.window.end,
        )
        .order_by(LOADS.c.id.desc())
        .limit(1)
    )
    stored = connection.execute(statement).scalar_one_or_none()
    if stored is None:
        return NO_PAGES
    version, pages = _DECODER.decode(stored)
    return pages if version == LINE_VERSION else NO_PAGES


def _keep_pages(connection: Connection, slice_: Slice, load_id: int, pages: Mapping[bytes, PageFacts]) -> None:
    """Store the pages of a load in the place of those of all loads that read the same days."""
    of_days = loads_of(slice_.dataset, slice_.account, slice_.window if slice_.dataset.is_dated else None)
    former = select(PUBLISHED_LOADS.c.id).where(of_days)
    connection.execute(delete(KNOWN_PAGES).where(KNOWN_PAGES.c.load_id.in_(former)))
    if pages:
        stored: _Pages = (LINE_VERSION, dict(pages))
        connection.execute(insert(KNOWN_PAGES), {"load_id": load_id, "pages": msgspec.msgpack.encode(stored)})
