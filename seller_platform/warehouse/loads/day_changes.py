"""How a reading differs from the stored rows, by day: what the judgement of readings is based on."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Self

import psycopg
from psycopg import sql

from seller_platform.contract import Dataset, Kind
from seller_platform.contract.currencies import minor_digits
from seller_platform.warehouse.schema.currencies import digits_of
from seller_platform.warehouse.schema.tables import SELLER

WHOLE_LIST = ""
"""Takes the place of the day where the rows of a list are compared as a whole."""

MOST_ALIKE = 4
"""The columns of a day are compared if more than one of so many of its rows differs."""

SCALE = 5
"""They are compared, too, if the amounts of the rows that differ are so many times larger or smaller."""

_NONE = Decimal(0)

# A row is the same row where its key is, and an equal one where its amounts and whole numbers are equal, too. A status
# or a name may change at any time, and so may amounts that the upstream computes, but for the first one. The rows are
# looked up once, because that takes most of the time.
_MOVED = sql.SQL("""
WITH moved AS MATERIALIZED (
    SELECT {day} AS on_day, -1 AS direction, {columns} FROM {stored} WHERE {gone}
    UNION ALL
    SELECT {day}, 1, {columns} FROM {pending}
),
equal_rows AS (SELECT on_day, {identity}, sum(direction) AS more FROM moved GROUP BY on_day, {compared}),
same_rows AS (
    SELECT on_day, sum(more) AS more, sum(greatest(-more, 0)) AS went, sum(greatest(more, 0)) AS came
    FROM equal_rows GROUP BY on_day, {identity}
),
days AS (
    SELECT on_day, sum(greatest(-more, 0))::bigint AS lost, greatest(sum(went), sum(came))::bigint AS others
    FROM same_rows GROUP BY on_day
)
SELECT on_day, direction, lost, others, count(*){figures}
FROM moved JOIN days USING (on_day) GROUP BY on_day, direction, lost, others
""")
_GONE = sql.SQL("{inside} AND ctid = ANY (%s::text[]::tid[])")
_STORED = sql.SQL("SELECT {day} AS on_day, count(*){figures} FROM {stored} WHERE {inside} GROUP BY 1")


@dataclass(frozen=True)
class Figures:
    """What rows of a day add up to.

    Attributes:
        filled: Rows with a value, by column; of an amount, with one other than zero; of a text, with one not empty.
        gross: The sum of the amounts without their signs, by column.
        net: The sum of the amounts, by column.
    """

    rows: int = 0
    filled: Mapping[str, int] = field(default_factory=dict)
    gross: Mapping[str, Decimal] = field(default_factory=dict)
    net: Mapping[str, Decimal] = field(default_factory=dict)

    @classmethod
    def of(cls, dataset: Dataset, values: Sequence[Any]) -> Self:
        """Return the figures of a row of a query."""
        rows, *others = values
        names, amounts = [column.name for column in dataset.columns], [column.name for column in dataset.money]
        filled, sums = others[: len(names)], others[len(names) :]
        return cls(
            rows,
            dict(zip(names, filled, strict=True)),
            dict(zip(amounts, sums[: len(amounts)], strict=True)),
            dict(zip(amounts, sums[len(amounts) :], strict=True)),
        )

    def after(self, gone: "Figures", new: "Figures") -> "Figures":
        """Return the figures after rows went and came."""

        def moved(kind: str) -> dict[str, Any]:
            whole, went, came = (getattr(each, kind) for each in (self, gone, new))
            return {name: each - went.get(name, 0) + came.get(name, 0) for name, each in whole.items()}

        return Figures(self.rows - gone.rows + new.rows, moved("filled"), moved("gross"), moved("net"))


@dataclass(frozen=True)
class DayChange:
    """How a reading of a day differs from its stored rows.

    Attributes:
        before: Their number before.
        after: Their number after.
        lost: Rows whose key is not read again.
        others: Rows whose key, amounts or whole numbers are not read again or were not stored, whichever are more.
        amount: How much the sum of the first amount changes.
        compared: The figures of the day before and after; None where too little differs.
    """

    before: int
    after: int
    lost: int = 0
    others: int = 0
    amount: Decimal = _NONE
    compared: tuple[Figures, Figures] | None = None

    @property
    def missing(self) -> int:
        return max(0, self.before - self.after)


def day_changes(
    cursor: psycopg.Cursor[Any],
    dataset: Dataset,
    pending: sql.Composable,
    *,
    inside: sql.Composable,
    gone: Sequence[str] | None,
    read: Mapping[str, int] | None,
    currency: str | None = None,
) -> dict[str, DayChange]:
    """Return the change of each day that has rows, or had them. Its cost grows with the rows that differ.

    Args:
        pending: The table of the rows that were read and are not stored.
        inside: The condition for the stored rows that the reading is compared with.
        gone: The addresses of those that were not read again; None for all of them.
        read: The rows of the reading by day; None where the list is compared as a whole.
        currency: The account's currency, in whose minor unit amounts are equal that name no other.
    """
    day = sql.SQL("''" if read is None else "{}::text").format(sql.Identifier(dataset.slice_column))
    names = dataset.key or dataset.order or [column.name for column in dataset.columns if column.kind is not Kind.JSON]
    identity = [name for name in names if dataset.column(name).kind is not Kind.MONEY]
    money = dataset.money[:1] if dataset.is_computed else dataset.money
    figures: list[sql.Composable] = [
        sql.Identifier(column.name) for column in dataset.columns if column.kind is Kind.INTEGER
    ]
    for column in money:
        digits: sql.Composable = sql.Literal(minor_digits(currency))
        if column.currency:
            figures.append(code := sql.Identifier(column.currency))
            digits = digits_of(code)
        figures.append(sql.SQL("round({}, {})").format(sql.Identifier(column.name), digits))
    stored = sql.Identifier(SELLER, dataset.name)
    parts = {"day": day, "stored": stored, "inside": inside, "figures": _figures(dataset)}
    moved = _MOVED.format(
        gone=inside if gone is None else _GONE.format(inside=inside),
        pending=pending,
        columns=_listed(dict.fromkeys([*(column.name for column in dataset.columns), *identity])),
        identity=_listed(identity),
        compared=sql.SQL(", ").join([*map(sql.Identifier, identity), *figures]),
        **parts,
    )
    differing: dict[str, tuple[int, int]] = {}
    went: dict[str, Figures] = {}
    came: dict[str, Figures] = {}
    addresses = None if gone is None else [list(gone)]
    for each, direction, lost, others, *values in cursor.execute(moved, addresses).fetchall():
        differing[each] = (lost, others)
        (came if direction > 0 else went)[each] = Figures.of(dataset, values)
    of_days = inside
    rows: dict[str, int] = {}
    dear: Collection[str] = {WHOLE_LIST}
    if read is not None:
        rows = {each: read.get(each, 0) - _of(came, each).rows + _of(went, each).rows for each in {*read, *went}}
        dear = _dear_days(rows, went, came)
        of_days = sql.SQL("{} AND {} = ANY ({}::text[])").format(inside, day, sql.Literal(sorted(dear)))
    before = {}
    if dear:
        for each, *values in cursor.execute(_STORED.format(**{**parts, "inside": of_days})).fetchall():
            before[each] = Figures.of(dataset, values)
    if read is None:
        rows = {WHOLE_LIST: _of(before, WHOLE_LIST).rows}
    changes = {}
    for each, count in rows.items():
        gone_rows, new_rows = _of(went, each), _of(came, each)
        lost, others = differing.get(each, (0, 0))
        whole = _of(before, each)
        first = dataset.money[0].name if dataset.money else ""
        changes[each] = DayChange(
            count,
            count - gone_rows.rows + new_rows.rows,
            lost,
            others,
            new_rows.net.get(first, _NONE) - gone_rows.net.get(first, _NONE),
            (whole, whole.after(gone_rows, new_rows)) if each in dear else None,
        )
    return changes


def _dear_days(rows: Mapping[str, int], went: Mapping[str, Figures], came: Mapping[str, Figures]) -> Collection[str]:
    """Return the days whose columns are compared: all of them if much of the reading differs, or amounts only go."""
    differ = {each: max(_of(went, each).rows, _of(came, each).rows) for each in rows}
    had, has = (any(any(each.gross.values()) for each in figures.values()) for figures in (went, came))
    if MOST_ALIKE * sum(differ.values()) > sum(rows.values()) or (had and not has):
        return {each for each, count in rows.items() if count}

    def is_scaled(each: str) -> bool:
        gone, new = _of(went, each), _of(came, each)
        gross = [(gone.gross.get(name, _NONE), new.gross.get(name, _NONE)) for name in {*gone.gross, *new.gross}]
        return any(max(pair) > SCALE * min(pair) for pair in gross)

    return {
        each
        for each, count in rows.items()
        if differ[each] and count and (MOST_ALIKE * differ[each] > count or is_scaled(each))
    }


def _figures(dataset: Dataset) -> sql.Composed:
    """Return the columns of a query that `Figures.of` reads, after the number of rows."""
    amounts = [column.name for column in dataset.money]
    filled = {Kind.MONEY: "count(*) FILTER (WHERE {} <> 0)", Kind.TEXT: "count(nullif({}, ''))"}
    forms = [(filled.get(column.kind, "count({})"), column.name) for column in dataset.columns]
    forms += [(form, name) for form in ("coalesce(sum(abs({})), 0)", "coalesce(sum({}), 0)") for name in amounts]
    return sql.SQL("").join(sql.SQL(", " + form).format(sql.Identifier(name)) for form, name in forms)


def _of(figures: Mapping[str, Figures], day: str) -> Figures:
    return figures.get(day, _NO_FIGURES)


_NO_FIGURES = Figures()


def _listed(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
