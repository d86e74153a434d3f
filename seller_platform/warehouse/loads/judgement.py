"""Judges a reading before it is published: runs of its days are published, or held because of a doubt."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import msgspec
import psycopg
from psycopg import sql
from sqlalchemy import Connection, Result, TextClause, text

from seller_platform.contract import Window
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.warehouse.loads.day_changes import WHOLE_LIST, day_changes, has_moments
from seller_platform.warehouse.loads.difference import PendingRows
from seller_platform.warehouse.loads.holds import Claim, Doubt, Judge
from seller_platform.warehouse.loads.profiles import stored_profile
from seller_platform.warehouse.loads.receipts import Receipt, Slice, doubt_of, slice_of

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
# The condition for the newest snapshot before a day with rows, or accepted without.
_NEWEST_SNAPSHOT = sql.SQL("""
    account = {account} AND {day} = (
        SELECT max(window_start) FROM platform.published_loads
        WHERE dataset = {dataset} AND account = {account} AND window_start < {before}
          AND (rows > 0 OR notes -> 'accepted' IS NOT NULL))
""")
_NEXT_LOAD = text("SELECT nextval(pg_get_serial_sequence('platform.loads', 'id'))")

_View: TypeAlias = tuple[Judge, sql.Composed, sql.Composed, Counter[str] | None]
"""A judge, the condition of stored rows, the rows of the reading, and how many it has by day."""


@dataclass(frozen=True)
class ReadingPart:
    """Days of a reading that are published, or held because of a doubt, with a receipt of their own."""

    slice: Slice
    load_id: int
    facts: LoadFacts
    started_at: datetime
    run_id: str | None = None
    doubt: Doubt | None = None
    is_whole: bool = True


@dataclass(frozen=True)
class Reading:
    """A slice that was read, in the transaction that stores it.

    Attributes:
        pending: Its rows that are not stored.
        gone: The stored rows that were not read again.
        stored: How many rows are stored.
        days: Its rows by day.
    """

    connection: Connection
    cursor: psycopg.Cursor[Any]
    slice: Slice
    pending: PendingRows
    gone: Sequence[str]
    stored: int
    days: Counter[str]

    def judged(self, whole: ReadingPart, judge: Judge) -> list[ReadingPart]:
        """Return the parts of the reading: all of it if no day is in doubt, else runs of days."""
        dataset, lacks_total = self.slice.dataset, whole.facts.announced is None
        lacks_total = lacks_total and self._ask(_ANNOUNCED).scalar_one_or_none() is not None
        if dataset.is_dated and not self.gone and not judge.settled and not lacks_total:
            return [whole]  # rows were added to days that change
        gone = None if self._begins_snapshot else self.gone
        for by, inside, rows, read in self._views(judge):
            judge, currency = by, self.slice.currency
            of_reading = partial(day_changes, self.cursor, dataset, rows, inside=inside, read=read, currency=currency)
            judged = changes = of_reading(gone=gone)
            findings = judge.findings(dataset, changes, lacks_total=lacks_total)
            if findings and gone and (free := self.pending.free_to_go(gone)):
                judged = changes = of_reading(gone=[each for each in gone if each not in free])
                findings = judge.findings(dataset, changes, lacks_total=lacks_total)
            if findings:
                break
        if findings and whole.facts.verdict is not CountVerdict.MISMATCH:
            # Days of which all readings contradicted their own counts measure no others.
            days = {"first_day": self.slice.window.start, "last_day": self.slice.window.last_day}
            is_by_day = WHOLE_LIST not in changes
            contradicted = self._ask(_CONTRADICTED, **days, is_by_day=is_by_day).scalars().all()
            if contradicted:
                judged = {day: each for day, each in changes.items() if is_by_day and day not in contradicted}
                findings = judge.findings(dataset, judged, lacks_total=lacks_total)
        if not findings:
            return [whole]
        readings = held_readings(self.connection, self.slice)
        held, believed = judge.held(findings, judged, readings, whole.started_at)
        stored = stored_profile(self.cursor, dataset, inside).amounts if dataset.money else {}
        amount = next(((column.name, sum(stored.values(), Decimal(0))) for column in dataset.money), None)
        if believed:
            doubt = judge.doubt_about({day: findings[day] for day in believed}, changes, amount)
            accepted = {**next(iter(believed.values())), **msgspec.to_builtins(doubt)}
            whole = replace(whole, facts=replace(whole.facts, notes={**whole.facts.notes, "accepted": accepted}))
        if not held:
            return [whole]
        if not dataset.is_divisible or all(day in held for day, each in changes.items() if each.before or each.after):
            return [replace(whole, doubt=judge.doubt_about(held, changes, amount))]
        return self._parts(whole, partial(judge.doubt_about, held, changes, amount), held)

    @property
    def _begins_snapshot(self) -> bool:
        """Whether nothing is stored of its day: it is compared with the newest snapshot before."""
        return self.slice.dataset.keeps_snapshots and not self.stored

    def _views(self, judge: Judge) -> list[_View]:
        """Return what is judged, one after the other until something is in doubt.

        Under another time zone days are others, and rows cross their borders: what lies between settled days is judged
        as one, and then the whole reading, of which nothing has settled.
        """
        dataset, inside, rows = self.slice.dataset, self.slice.inside, sql.Composed([self.pending.table])
        if not dataset.is_dated:
            if self._begins_snapshot:
                facts = {"account": self.slice.account, "dataset": dataset.name, "before": self.slice.window.start}
                inside = _NEWEST_SNAPSHOT.format(day=sql.Identifier(dataset.slice_column), **facts)
            return [(judge, inside, rows, None)]
        if not self._ask(_HAS_MOVED, time_zone=self.slice.time_zone).scalar_one():
            return [(judge, inside, rows, self.days)]
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

    def _parts(self, whole: ReadingPart, doubt_about: Callable[..., Doubt], held: Collection[str]) -> list[ReadingPart]:
        """Return a part for each run of days that are held, and of days that are not. The requests are divided."""
        days, facts = self.slice.window.each_day(), whole.facts
        runs = [(is_held, list(run)) for is_held, run in groupby(days, key=lambda day: str(day) in held)]
        parts = []
        for number, (is_held, run) in enumerate(runs):
            doubt = doubt_about(days=[str(day) for day in run]) if is_held else None
            rows = sum(self.days[str(day)] for day in run)
            of_part = replace(
                facts,
                announced=None if facts.announced is None else rows,
                **{
                    name: (number + 1) * count // len(runs) - number * count // len(runs)
                    for name in ("requests", "pages", "body_bytes")
                    for count in [getattr(facts, name)]
                },
            )
            slice_ = replace(self.slice, window=Window(run[0], run[-1] + timedelta(days=1)))
            load_id = self.connection.execute(_NEXT_LOAD).scalar_one() if number else whole.load_id
            parts.append(replace(whole, slice=slice_, load_id=load_id, facts=of_part, doubt=doubt, is_whole=False))
        return parts

    def _ask(self, statement: TextClause, **values: object) -> Result[Any]:
        """Ask the receipts of the same days."""
        return self.connection.execute(statement, {**self.slice.bound, **values})


def held_readings(connection: Connection, slice_: Slice) -> dict[str, list[tuple[datetime, Claim]]]:
    """Return when each day was held since a reading of it was last published, and what that said; newest first.

    Of a list without days the readings stand under the day "".
    """
    held: dict[str, list[tuple[datetime, Claim]]] = defaultdict(list)
    for day, moment, says in connection.execute(_HELD, slice_.bound):
        held[day].append((moment, msgspec.convert(says, Claim)))
    return held


def held_since(connection: Connection, receipt: Receipt) -> datetime:
    """Return since when any day of a held reading has been held."""
    readings = held_readings(connection, slice_of(receipt))
    moments = [moment for day in doubt_of(receipt).claim for moment, _ in readings.get(day, ())]
    return min(moments, default=receipt.started_at)
