"""Rows of an account that came, went or changed since a moment or with the newest load."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from operator import itemgetter
from typing import Annotated, Any

import msgspec
from sqlalchemy import ARRAY, BigInteger, ColumnElement, Connection, cast, func, select, text
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from seller_platform.contract import LOCAL_DAY, Dataset, Window
from seller_platform.counts import count_of
from seller_platform.errors import NotLoadedError
from seller_platform.warehouse.loads.profiles import ROWS, Sums
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import (
    GONE_LOAD_ID,
    PUBLISHED_LOADS,
    SLICES,
    history_of,
    loads_of,
    table_for,
)

Row = Mapping[str, Any]
Columns = ReadOnlyColumnCollection[str, Any]

_LOAD, _EARLIER = PUBLISHED_LOADS.c, PUBLISHED_LOADS.alias()


class ChangedRow(msgspec.Struct, frozen=True):
    """A row that has other values now, by column."""

    before: Row
    after: Row


class Changes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the stored rows of an account differ from those of a moment.

    Attributes:
        since: The moment. By default it is the end of the load before the newest change or, without a change, of the
            newest load that brought rows. Null where nothing was stored before.
        load_ids: The loads since then that changed rows.
        repairs: A sentence for each of those that repaired what another program had changed.
        came: Rows that were not stored then.
        went: Rows that are not stored now.
    """

    since: Annotated[datetime, msgspec.Meta(tz=True)] | None
    load_ids: list[int]
    repairs: list[str]
    came: list[Row]
    went: list[Row]
    changed: list[ChangedRow]


def changes_since(
    database: Database, dataset: Dataset, account: str, window: Window | None = None, *, since: datetime | None = None
) -> Changes:
    """Return what changed in an account's stored rows since a moment.

    Of datasets that keep snapshots, the newest snapshot is compared with the newest one of that moment. Rows that went
    and came again with the same values did not change.

    Args:
        window: The local days of a dated dataset to compare; None for all of them.
        since: The moment. Without it: the newest load that changed rows of days that had been read before, or of
            snapshots the one before the newest.

    Raises:
        NotLoadedError: The days were never loaded.
    """
    was_read = select(_EARLIER.c.id).where(
        _EARLIER.c.dataset == dataset.name,
        _EARLIER.c.account == account,
        _EARLIER.c.id < _LOAD.id,
        _EARLIER.c.window_start < _LOAD.window_end,
        _EARLIER.c.window_end > _LOAD.window_start,
    )
    changing = loads_of(dataset, account, window if dataset.is_dated else None) & _LOAD.changed
    statement = select(_LOAD.id, _LOAD.finished_at, was_read.exists(), _LOAD.notes).where(changing)
    with database.begin() as connection:
        # The loads and the rows are of one moment, even if another load is published between the statements.
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        found = connection.execute(statement.order_by(_LOAD.id)).all()
        if not found:
            raise NotLoadedError(dataset.table, f"{dataset.name} of {account}" + (f", {window}" if window else ""))
        ended = {number: moment for number, moment, *_ in found}
        if since is not None:
            loads = [number for number, moment in ended.items() if moment > since]
        else:
            loads = [number for number, _, is_again, _ in found if is_again or dataset.keeps_snapshots][-1:]
        before = since or max((at for number, at in ended.items() if not loads or number < loads[-1]), default=None)
        former, present = _rows(connection, dataset, account, window, loads)
    repairs = [each for number, at, _, notes in found if number in loads for each in repairs_of(number, at, notes)]
    came, went, changed = compared(dataset, former, present)
    return Changes(since=before, load_ids=loads, repairs=repairs, came=came, went=went, changed=changed)


def repairs_of(load_id: int, moment: datetime, notes: Row | None) -> Iterator[str]:
    """Yield a sentence if a load stored again what another program had changed: for whom, when, and how many rows."""
    if repair := (notes or {}).get("repaired"):
        rows = f"{count_of(repair['came'], 'row')} came, {count_of(repair['went'], 'row')} went"
        yield f"load {load_id} repaired for {repair['by']} at {moment:%F %T %Z} what another program changed: {rows}"


def sums_of(dataset: Dataset, rows: Iterable[Row]) -> Sums:
    """Return how many rows there are, and the sum of each amount by currency."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        sums[ROWS] += 1
        for column in dataset.money:
            code = row[column.currency] if column.currency else None
            sums[f"{column.name} {code}" if code else column.name] += row[column.name] or 0
    return dict(sums)


def _rows(
    connection: Connection, dataset: Dataset, account: str, window: Window | None, loads: Sequence[int]
) -> tuple[list[Row], list[Row]]:
    """Return the rows that may have gone and those that may have come with some loads."""
    stored, former = table_for(dataset), history_of(dataset)

    def fetched(columns: Columns, *conditions: ColumnElement[bool]) -> list[Row]:
        selected = select(*(columns[column.name] for column in (*dataset.columns, *dataset.tags)))
        of_account = selected.where(columns.account == account, *conditions)
        if window is not None and dataset.is_dated:
            of_account = of_account.where(columns[LOCAL_DAY] >= window.start, columns[LOCAL_DAY] < window.end)
        in_order = of_account.order_by(*(columns[name] for name in (*dataset.order, *dataset.key)))
        return [dict(row) for row in connection.execute(in_order).mappings()]

    if not dataset.keeps_snapshots:
        gone = fetched(former.c, former.c.load_id.not_in(loads), former.c[GONE_LOAD_ID].in_(loads))
        return gone, fetched(stored.c, stored.c.load_id.in_(loads))
    without = getattr(func.history, f"{dataset.name}_without")(cast(loads, ARRAY(BigInteger)))
    then = without.table_valued(*stored.c).c
    newest_then = select(func.max(then[LOCAL_DAY])).where(then.account == account).scalar_subquery()
    # The newest snapshot may have no rows.
    newest = select(SLICES.c.newest_day).where(SLICES.c.dataset == dataset.name, SLICES.c.account == account)
    return (
        fetched(then, then[LOCAL_DAY] == newest_then),
        fetched(stored.c, stored.c[LOCAL_DAY] == newest.scalar_subquery()),
    )


def compared(
    dataset: Dataset, former: Sequence[Row], present: Sequence[Row]
) -> tuple[list[Row], list[Row], list[ChangedRow]]:
    """Return the rows that came, those that went, and those that changed."""
    came = list(_without(present, former))
    went = list(_without(former, present))
    if not dataset.key:
        return came, went, []
    key = itemgetter(*dataset.key, *(tag.name for tag in dataset.tags))
    by_key: dict[Any, list[Row]] = defaultdict(list)
    for row in went:
        by_key[key(row)].append(row)
    changed, new = [], []
    for row in came:
        if versions := by_key[key(row)]:
            changed.append(ChangedRow(versions.pop(0), row))
        else:
            new.append(row)
    return new, [row for versions in by_key.values() for row in versions], changed


def _without(rows: Sequence[Row], others: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows that have no equal among the others; equal rows count as often as they occur."""
    left = Counter(map(_content, others))
    for row in rows:
        content = _content(row)
        if left[content]:
            left[content] -= 1
        else:
            yield row


def _content(row: Row) -> tuple[object, ...]:
    """Return the values of a row, hashable; JSON values are compared by their text."""
    return tuple(str(value) if isinstance(value, dict | list) else value for value in row.values())
