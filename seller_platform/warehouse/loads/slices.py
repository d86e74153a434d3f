"""Slices: compared with what was read, in one transaction, with a receipt.

A slice is first read from the upstream into a `Spool`. Only a slice that was read whole touches the database:
transactions stay short, a failed reading costs the database nothing, and rows that are stored already are not written
again.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import groupby
from typing import Annotated, Any, Self

import msgspec
import psycopg
from psycopg import sql
from sqlalchemy import Connection, insert, select, text

from seller_platform.contract import Dataset, Slicing, Window, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.loads import DATED_ANEW, NO_PAGES, CountVerdict, LoadFacts, PageFacts
from seller_platform.counts import count_of
from seller_platform.errors import ContractViolationError, ImplausibleReadingError, ReadingHeldError
from seller_platform.failpoints import reach
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.copy_format import RowDigest, copy_statement
from seller_platform.warehouse.loads.day_changes import WHOLE_LIST, DayChange, day_changes, has_moments
from seller_platform.warehouse.loads.difference import PendingRows, RowsApart, ctid_of, difference, stored_rows
from seller_platform.warehouse.loads.holds import Claim, Doubt, Judge
from seller_platform.warehouse.loads.known_pages import keep_pages, recall_pages
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
from seller_platform.warehouse.schema.tables import LOADS, PUBLISHED_LOADS, SELLER, loads_of
from seller_platform.warehouse.sums.keeping import apply_costs, begin_sums, keep_sums

_REPORT_ID = "report_id"

# Whether rows were read under another time zone, and not all of them again since. What is null is not compared.
_HAS_MOVED = text("""
    SELECT max(id) FILTER (WHERE is_other) > coalesce(max(id) FILTER (
        WHERE NOT is_other AND window_start <= :first_day AND window_end >= :before_day
    ), 0)
    FROM (
        SELECT id, window_start, window_end, coalesce(time_zone <> :time_zone, false) AS is_other
        FROM platform.published_loads
        WHERE dataset = :of_dataset AND account = :of_account
          AND window_start < :before_day AND window_end > :first_day
    ) AS load
""")
_HELD = text("""
    SELECT claim.day, held.started_at, claim.says
    FROM platform.loads AS held, jsonb_each(notes #> '{held,claim}') AS claim (day, says)
    WHERE dataset = :of_dataset AND account = :of_account AND verdict = 'held'
      AND window_start < :before_day AND window_end > :first_day
      AND NOT EXISTS (
          SELECT FROM platform.published_loads AS later
          WHERE later.dataset = :of_dataset AND later.account = :of_account AND later.id > held.id
            AND later.window_start < :before_day AND later.window_end > :first_day
            AND (day = '' OR daterange(later.window_start, later.window_end) @> CAST(nullif(day, '') AS date))
      )
    ORDER BY held.id DESC
""")
_CONTRADICTED = text("""
    SELECT CAST(CAST(day AS date) AS text)
    FROM generate_series(CAST(:first_day AS date), CAST(:last_day AS date), interval '1 day') AS day
    WHERE (SELECT bool_and(verdict = 'mismatch') FROM platform.readings
           WHERE dataset = :of_dataset AND account = :of_account
             AND (NOT :is_by_day OR window_start <= day AND window_end > day))
""")
_ANNOUNCED = text("""
    SELECT announced FROM platform.readings
    WHERE dataset = :of_dataset AND account = :of_account AND changed
      AND window_start < :before_day AND window_end > :first_day
    ORDER BY id DESC LIMIT 1
""")


_ROWS_OF_LOADS = text("""
    SELECT rows FROM platform.slices
    WHERE dataset = :of_dataset AND account = :of_account AND load_id IS NOT NULL
      AND month = :first_day AND month + interval '1 month' = :before_day
""")


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
    restatement: Mapping[str, Mapping[str, str]] | None
    notes: Mapping[str, Any] | None
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


@dataclass(frozen=True)
class SliceChange:
    """The sums of a slice before and after a load; None where they are not known.

    Attributes:
        days: What changed, by local day, as `changed_days` returns it; None for a first load.
        moved: Whether any row came or went.
        came: How many rows came.
        went: How many rows went.
    """

    before: Sums | None
    after: Sums | None
    days: Mapping[str, Any] | None = None
    moved: bool = False
    came: int = 0
    went: int = 0


@dataclass(frozen=True)
class _Part:
    """Days of a reading that are published, or held because of a doubt, with a receipt of their own."""

    window: Window
    load_id: int
    facts: LoadFacts
    started_at: datetime
    run_id: str | None = None
    doubt: Doubt | None = None
    is_whole: bool = True


class Load:
    """The replacement of one slice: rows are read into its `spool`, and `store` writes what differs.

    Args:
        by_value: On whose behalf stored rows are compared by value, not by the hashes that were stored with them.
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
        self.spool = Spool(str(slice_), slice_.dataset, slice_.account, load_id, known)
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
        whole = _Part(self.slice.window, self.spool.load_id, facts, started_at, run_id)
        with self._connection.begin(), driver_of(self._connection).cursor() as cursor:
            previous = _latest_receipt(self._connection, self.slice)
            last = (previous.window, previous.digest) if previous is not None and self._by_value is None else None
            # The rows of the spool are those of the last load, and stored as that left them.
            if previous and last == (self.slice.window, self.spool.digest) and self._count() == previous.rows:
                change = SliceChange(previous.sums, previous.sums)
                receipts = [self._receipted(whole, change, previous)]
            else:
                receipts = self._exchanged(cursor, whole, judge, previous)
            held = [each for each in receipts if each.verdict is CountVerdict.HELD]
            if self.spool.pages.keys() != self.spool.known.keys():
                pages = {} if held else self.spool.pages
                kept = (self.slice.dataset, self.slice.account, self.slice.window, self.spool.load_id, pages)
                keep_pages(self._connection, *kept)
        reach("slice.committed")
        return (held or receipts)[-1]

    def compare(self) -> RowsApart:
        """Return how the spool and the stored slice differ by value. Nothing is stored."""
        dataset = self.slice.dataset
        with self._connection.begin() as transaction, driver_of(self._connection).cursor() as cursor:
            stored = stored_rows(cursor, dataset, self._inside(self.slice.window), by_value=True)
            pending = PendingRows(cursor, dataset, self._owned)
            self._copy(cursor, copy_statement(dataset, pending.table), None, self.spool.count)
            apart = pending.apart(pending.drop_equal([ctid_of(address) for address in stored.addresses]))
            transaction.rollback()
        return apart

    def _is_listed_as_loaded(self, cursor: psycopg.Cursor[Any]) -> bool:
        """Whether the list is what loads have stored: only another program can have changed the rows.

        It is if each stored row is listed by its hash, and each listed one is stored; those of no load are left out.
        Rows that are missing or too many do not matter where the loads stored as many of a whole month as are listed.
        """
        stored = stored_rows(cursor, self.slice.dataset, self._inside(self.slice.window))
        is_new, gone = difference(self.spool.hashes, stored)
        are_listed, are_stored = len(gone) == len(stored.unhashed), not any(is_new)
        if are_listed and are_stored:
            return bool(stored.hashed)
        rows = self._connection.execute(
            _ROWS_OF_LOADS, _days_of(self.slice.dataset, self.slice.account, self.slice.window)
        )
        return (are_listed or are_stored) and rows.scalar_one_or_none() == self.spool.count

    def _exchanged(
        self, cursor: psycopg.Cursor[Any], whole: _Part, judge: Judge | None, previous: Receipt | None
    ) -> list[Receipt]:
        """Write what differs, hold the days in doubt, and return the receipts.

        Raises:
            ImplausibleReadingError: Days of a first reading are in doubt.
        """
        dataset, inside = self.slice.dataset, self._inside(self.slice.window)
        stored = stored_rows(cursor, dataset, inside, by_value=self._by_value is not None)
        if not stored.count and (judge is None or not dataset.keeps_snapshots):
            self._copy(cursor, copy_statement(dataset), None, self.spool.count)
            after = None if previous is None else self._profile(cursor, inside).sums
            change = SliceChange({}, after, moved=bool(self.spool.count), came=self.spool.count)
            is_repair = previous is not None and self._is_listed_as_loaded(cursor)
            return [self._receipted(self._repaired(whole, change) if is_repair else whole, change, previous)]
        # The sums of the last load are not those of the stored rows where another program changed them.
        is_altered = self._by_value is not None or (previous is not None and stored.count != previous.rows)
        is_new, addresses = difference(self.spool.hashes, stored)
        pending, new = PendingRows(cursor, dataset, self._owned), sum(is_new)
        self._copy(cursor, copy_statement(dataset, pending.table), is_new, new)
        gone = [ctid_of(address) for address in addresses]
        if gone and new:
            gone = pending.drop_equal(gone)
        if judge is not None and new > len(gone) and (days := pending.dated_anew(self.slice.window.start)):
            whole = replace(whole, facts=replace(facts := whole.facts, notes={**facts.notes, DATED_ANEW: days}))
        parts, is_repair = [whole], is_altered and self._is_listed_as_loaded(cursor)
        if judge is not None and not is_repair:  # what loads have stored before is not in doubt
            parts = self._judged(cursor, whole, judge, pending, gone)
            if not judge.is_second:
                for doubt in (part.doubt for part in parts if part.doubt is not None):
                    raise ImplausibleReadingError(str(self.slice), doubt.reason)
        receipts = []
        for part in parts:
            if part.doubt is not None:
                receipts.append(self._receipted(part, SliceChange(None, None), previous))
                continue
            before = None if previous is None or previous.window != part.window or is_altered else previous.sums
            of_part = None if part.is_whole else self._inside(part.window)
            before = self._profile(cursor, of_part or inside).sums if before is None else before
            change = self._exchange(pending, before, gone, part.load_id, of_part)
            receipts.append(self._receipted(self._repaired(part, change) if is_repair else part, change, previous))
        return receipts

    def _repaired(self, part: _Part, change: SliceChange) -> _Part:
        """Return days whose rows another program had changed, with a note of who repaired them."""
        if not change.moved:
            return part
        repair = {"by": self._by_value or "a refresh", "came": change.came, "went": change.went}
        return replace(part, facts=replace(part.facts, notes={**part.facts.notes, "repaired": repair}))

    def _judged(
        self, cursor: psycopg.Cursor[Any], whole: _Part, judge: Judge, pending: PendingRows, gone: Sequence[str] | None
    ) -> list[_Part]:
        """Return the parts of the reading: all of it if no day is in doubt, else runs of days."""
        dataset, window = self.slice.dataset, self.slice.window
        of_days, lacks_total = _days_of(dataset, self.slice.account, window), whole.facts.announced is None
        lacks_total = lacks_total and self._connection.execute(_ANNOUNCED, of_days).scalar_one_or_none() is not None
        if dataset.is_dated and not gone and not judge.settled and not lacks_total:
            return [whole]  # rows were added to days that change
        inside, rows = self._inside(window), sql.Composed([pending.table])
        views = [(judge, inside, rows, None)] if not dataset.is_dated else self._views(judge, inside, rows)
        if dataset.keeps_snapshots and not self._count():
            views, gone = [(judge, self._newest_snapshot(), rows, None)], None
        for by, inside, rows, read in views:
            judge, currency = by, self.slice.currency
            of_reading = partial(day_changes, cursor, dataset, rows, inside=inside, read=read, currency=currency)
            judged = changes = of_reading(gone=gone)
            findings = judge.findings(dataset, changes, lacks_total=lacks_total)
            if findings and gone and (free := pending.free_to_go(gone)):
                judged = changes = of_reading(gone=[each for each in gone if each not in free])
                findings = judge.findings(dataset, changes, lacks_total=lacks_total)
            if findings:
                break
        if findings and whole.facts.verdict is not CountVerdict.MISMATCH:
            contradicted = self._contradicted(changes)
            judged = {day: each for day, each in changes.items() if day not in contradicted}
            findings = judge.findings(dataset, judged, lacks_total=lacks_total)
        if not findings:
            return [whole]
        readings = held_readings(self._connection, dataset, self.slice.account, window)
        held, believed = judge.held(findings, judged, readings, whole.started_at)
        stored = self._profile(cursor, inside).amounts if dataset.money else {}
        amount = next(((column.name, sum(stored.values(), Decimal(0))) for column in dataset.money), None)
        if believed:
            doubt = judge.doubt_about({day: findings[day] for day in believed}, changes, amount)
            accepted = {**next(iter(believed.values())), **doubt.note}
            whole = replace(whole, facts=replace(whole.facts, notes={**whole.facts.notes, "accepted": accepted}))
        if not held:
            return [whole]
        if not dataset.is_divisible or all(day in held for day, each in changes.items() if each.before or each.after):
            return [replace(whole, doubt=judge.doubt_about(held, changes, amount))]
        return self._parts(whole, partial(judge.doubt_about, held, changes, amount), held)

    def _views(
        self, judge: Judge, inside: sql.Composed, rows: sql.Composed
    ) -> list[tuple[Judge, sql.Composed, sql.Composed, Counter[str] | None]]:
        """Return what is judged of a dated list, one after the other until something is in doubt.

        Under another time zone days are others, and rows cross their borders: what lies between settled days is judged
        as one, and then the whole reading, of which nothing has settled.

        Returns:
            The judge, the condition of stored rows, the rows of the reading, and how many it has by day.
        """
        dataset, moved = self.slice.dataset, {"time_zone": self.slice.time_zone}
        of_days = _days_of(dataset, self.slice.account, self.slice.window)
        if not self._connection.execute(_HAS_MOVED, of_days | moved).scalar_one():
            return [(judge, inside, rows, self.spool.days)]
        if not judge.settled:
            return [(judge, inside, rows, None)]
        settled = replace(judge, settled={WHOLE_LIST})
        if not dataset.is_divisible:
            return [(settled, inside, rows, None)]
        column = dataset.day if dataset.day and has_moments(dataset) else dataset.slice_column
        within = sql.SQL("{column} > {}::date + 1 AND {column} < {}::date").format(
            min(judge.settled), max(judge.settled), column=sql.Identifier(column)
        )
        between = sql.SQL("(SELECT * FROM {} WHERE {}) AS pending").format(rows, within)
        inside_between = sql.SQL("{} AND {}").format(inside, within)
        return [(settled, inside_between, between, None), (replace(judge, settled=frozenset()), inside, rows, None)]

    def _parts(self, whole: _Part, doubt_about: Callable[..., Doubt], held: Collection[str]) -> list[_Part]:
        """Return a part for each run of days that are held, and of days that are not. The requests are divided."""
        days, facts = self.slice.window.each_day(), whole.facts
        runs = [(is_held, list(run)) for is_held, run in groupby(days, key=lambda day: str(day) in held)]
        parts = []
        for number, (is_held, run) in enumerate(runs):
            doubt = None
            if is_held:
                doubt = doubt_about(days=[str(day) for day in run])
            rows = sum(self.spool.days[str(day)] for day in run)
            of_part = replace(
                facts,
                announced=None if facts.announced is None else rows,
                **{
                    name: (number + 1) * count // len(runs) - number * count // len(runs)
                    for name in ("requests", "pages", "body_bytes")
                    for count in [getattr(facts, name)]
                },
            )
            window = Window(run[0], run[-1] + timedelta(days=1))
            load_id = self._connection.execute(_NEXT_LOAD).scalar_one() if number else whole.load_id
            parts.append(replace(whole, window=window, load_id=load_id, facts=of_part, doubt=doubt, is_whole=False))
        return parts

    def _contradicted(self, changes: Mapping[str, DayChange]) -> Collection[str]:
        """Return the days of which all readings contradicted their own counts: others are not measured by them."""
        window, is_by_day = self.slice.window, WHOLE_LIST not in changes
        bound = {"of_dataset": self.slice.dataset.name, "of_account": self.slice.account, "is_by_day": is_by_day}
        days = {"first_day": window.start, "last_day": window.last_day}
        contradicted = self._connection.execute(_CONTRADICTED, {**bound, **days}).scalars().all()
        return contradicted if is_by_day else [WHOLE_LIST] if contradicted else []

    def revert(self, undone: Receipt, *, started_at: datetime) -> Receipt:
        """Make the stored slice what it was before a load, and write a receipt of its own.

        Args:
            undone: The load; later loads of its window are undone with it.
        """
        dataset, inside = self.slice.dataset, self._inside(self.slice.window)
        with self._connection.begin(), driver_of(self._connection).cursor() as cursor:
            pending = PendingRows(cursor, dataset, self._owned)
            pending.bring_back(inside, before=undone.id)
            later = stored_rows(cursor, dataset, sql.SQL("{} AND load_id >= {}").format(inside, undone.id))
            gone = pending.drop_equal([ctid_of(address) for address in later.addresses])
            change = self._exchange(pending, self._profile(cursor, inside).sums, gone, self.spool.load_id, None)
            facts = LoadFacts(0, 0, 0, None, CountVerdict.UNVERIFIABLE, {"reverts_load": undone.id})
            part = _Part(self.slice.window, self.spool.load_id, facts, started_at, is_whole=False)
            return self._receipted(part, replace(change, moved=True), undone)

    def _digest(self, inside: sql.Composable) -> tuple[int, bytes]:
        """Return how many rows are stored, and their digest. Without all hashes it is empty, as of no reading."""
        with driver_of(self._connection).cursor() as cursor:
            stored, digest = stored_rows(cursor, self.slice.dataset, inside), RowDigest()
        digest.add(stored.hashes or b"")
        return stored.count, b"" if stored.hashes is None else digest.value

    def _receipted(self, part: _Part, change: SliceChange, previous: Receipt | None) -> Receipt:
        """Write the receipt and return it, after the sums that follow from changed rows.

        Args:
            previous: The last load of any of the days; None before the first one.
        """
        account, window, facts, doubt = self.slice.account, part.window, part.facts, part.doubt
        rows, digest, changed = self.spool.count, self.spool.digest, previous is None or change.moved
        if doubt is not None:
            facts = replace(facts, verdict=CountVerdict.HELD, notes={**facts.notes, "held": doubt.note})
            rows, previous, changed = doubt.rows_stored, None, False
        elif not part.is_whole:
            rows, digest = self._digest(self._inside(window))
        if changed:
            is_first = previous is None
            keep_sums(self._connection, self.slice.dataset, account, window, load_id=part.load_id, is_first=is_first)
        report = {} if self.slice.report_id is None else {_REPORT_ID: self.slice.report_id}
        of_days = _days_of(self.slice.dataset, account, window)
        row = self._connection.execute(
            insert(LOADS).values(finished_at=_END.bindparams(**of_days)).returning(LOADS),
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
        if changed and self.slice.dataset == COST_PERIODS:
            apply_costs(self._connection, account)
        reach("slice.receipted")
        return receipt

    def _newest_snapshot(self) -> sql.Composed:
        """Return the condition for the newest snapshot before the slice's day with rows, or accepted without."""
        return sql.SQL(
            "account = {account} AND {day} = (SELECT max(window_start) FROM platform.published_loads "
            "WHERE dataset = {dataset} AND account = {account} AND window_start < {before} "
            "AND (rows > 0 OR notes -> 'accepted' IS NOT NULL))"
        ).format(
            account=self.slice.account,
            day=sql.Identifier(self.slice.dataset.slice_column),
            dataset=self.slice.dataset.name,
            before=self.slice.window.start,
        )

    def _exchange(
        self, pending: PendingRows, before: Sums, gone: Sequence[str], load_id: int, inside: sql.Composable | None
    ) -> SliceChange:
        """Move the rows that are gone to history, and publish the new ones.

        Args:
            inside: The condition for the rows that are exchanged; None for all.
        """
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
            raise ContractViolationError(
                str(self.slice), f"{count_of(count, 'row', 'was')} read, {cursor.rowcount} arrived"
            )
        reach("slice.copied")

    def _profile(self, cursor: psycopg.Cursor[Any], inside: sql.Composable) -> Profile:
        """Return the profile of the stored rows that meet a condition."""
        dataset = self.slice.dataset
        query = profile_query(dataset, sql.Identifier(SELLER, dataset.name), inside)
        return Profile.of(dataset, cursor.execute(query).fetchall())

    def _count(self) -> int:
        """Return how many rows of the slice are stored."""
        table = sql.Identifier(SELLER, self.slice.dataset.name)
        counted = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(table, self._inside(self.slice.window))
        ((count,),) = driver_of(self._connection).execute(counted).fetchall()
        return int(count)

    @property
    def _owned(self) -> sql.Composed:
        """The condition for the rows of the account; of `seller.accounts` for those of the connection."""
        is_list = self.slice.dataset.slicing is Slicing.CONNECTION
        column = self.slice.dataset.slice_column if is_list else "account"
        return sql.SQL("{} = {}").format(sql.Identifier(column), self.slice.account)

    def _inside(self, window: Window) -> sql.Composed:
        """Return the condition for the rows of the slice on days of a window."""
        if self.slice.dataset.slicing is Slicing.CONNECTION:
            return self._owned
        inside = sql.SQL("{} AND {column} >= {} AND {column} < {}").format(
            self._owned, window.start, window.end, column=sql.Identifier(self.slice.dataset.slice_column)
        )
        report_id = self.slice.report_id
        return inside if report_id is None else sql.SQL("{} AND report_id = {}").format(inside, report_id)


def doubt_of(receipt: Receipt) -> Doubt:
    """Return why a reading was held."""
    return msgspec.convert((receipt.notes or {})["held"], Doubt)


def held_error(receipt: Receipt) -> ReadingHeldError:
    """Return the error that reports a held reading."""
    return ReadingHeldError(str(slice_of(receipt)), doubt_of(receipt).reason, receipt.id)


def slice_of(receipt: Receipt) -> Slice:
    """Return the slice of a load."""
    report_id = (receipt.notes or {}).get(_REPORT_ID)
    return Slice(dataset_named(receipt.dataset), receipt.account, receipt.window, report_id)


@contextmanager
def open_load(database: Database, slice_: Slice, *, by_value: str | None = None) -> Iterator[Load]:
    """Wait for the lock of a slice and hold it until the block ends.

    Only one load of a slice runs at a time, on any machine. The lock ends with its connection, so a loader that is
    killed leaves none behind.

    Args:
        by_value: On whose behalf rows are compared by value. Nothing that former loads kept is believed then, neither
            pages nor hashes of rows. Nor is it while a reading of the slice is held: by their hashes, rows that were
            changed by hand would be those of the list.

    Raises:
        WarehouseUnavailableError: The server cannot be reached.
    """
    with database.connect() as connection, releasing(connection):
        for window in slice_.window.months():
            hold(connection, f"{slice_.dataset.name}|{slice_.account}|{Window.month_of(window.start).start:%Y-%m}")
        of_days = _days_of(slice_.dataset, slice_.account, slice_.window)
        load_id, is_held = connection.execute(_OPEN_LOAD, of_days).one()
        by_value = by_value or ("a refresh" if is_held else None)
        known = NO_PAGES if by_value else recall_pages(connection, slice_.dataset, slice_.account, slice_.window)
        load = Load(connection, slice_, load_id, known, by_value=by_value)
        begin_sums(connection, slice_.dataset, slice_.account)
        connection.commit()
        try:
            yield load
        finally:
            load.spool.close()


def held_readings(
    connection: Connection, dataset: Dataset, account: str, window: Window
) -> dict[str, list[tuple[datetime, Claim]]]:
    """Return when each day was held since a reading of it was last published, and what that said; newest first.

    Of a list without days the readings stand under the day "".
    """
    held: dict[str, list[tuple[datetime, Claim]]] = defaultdict(list)
    for day, moment, says in connection.execute(_HELD, _days_of(dataset, account, window)):
        held[day].append((moment, msgspec.convert(says, Claim)))
    return held


def held_since(connection: Connection, receipt: Receipt) -> datetime:
    """Return since when any day of a held reading has been held."""
    dataset = dataset_named(receipt.dataset)
    readings = held_readings(connection, dataset, receipt.account, receipt.window)
    moments = [moment for day in doubt_of(receipt).claim for moment, _ in readings.get(day, ())]
    return min(moments, default=receipt.started_at)


_OPEN_LOAD = text("""
    SELECT nextval(pg_get_serial_sequence('platform.loads', 'id')), EXISTS (
        SELECT FROM platform.slices
        WHERE dataset = :of_dataset AND account = :of_account AND held_load_ids <> '{}'
          AND coalesce(month + interval '1 month' > :first_day AND month < :before_day, true)
    )
""")


_NEXT_LOAD = text("SELECT nextval(pg_get_serial_sequence('platform.loads', 'id'))")

# Of one slice, times are in the order of its loads, even if the server's clock was set back.
_END = text("""(
    SELECT greatest(clock.now, (
        SELECT max(finished_at) + interval '1 microsecond' FROM platform.loads
        WHERE finished_at >= clock.now AND dataset = :of_dataset AND account = :of_account
          AND window_start < :before_day AND window_end > :first_day
    ))
    FROM (SELECT clock_timestamp() AS now) AS clock
)""")


def _days_of(dataset: Dataset, account: str, window: Window) -> dict[str, object]:
    """Return what statements about loads of the same days are given; all days of a list without days."""
    first, end = (window.start, window.end) if dataset.is_dated else (date.min, date.max)
    return {"of_dataset": dataset.name, "of_account": account, "first_day": first, "before_day": end}


def _latest_receipt(connection: Connection, slice_: Slice) -> Receipt | None:
    """Return the last load that wrote or confirmed any day of the window.

    Receipts are numbered under the slice's lock: unlike times, numbers are in order even where a clock was set back.
    """
    load = PUBLISHED_LOADS.c
    statement = select(PUBLISHED_LOADS).where(loads_of(slice_.dataset, slice_.account, slice_.window))
    if slice_.report_id is not None:
        statement = statement.where(load.notes[_REPORT_ID].astext == slice_.report_id)
    row = connection.execute(statement.order_by(load.id.desc()).limit(1)).mappings().one_or_none()
    return None if row is None else Receipt.of(row)
