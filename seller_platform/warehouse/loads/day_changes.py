"""How a reading differs from the stored rows, by day: what the judgement of readings is based on."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from seller_platform.contract import Dataset, Kind
from seller_platform.contract.currencies import minor_digits
from seller_platform.warehouse.postgres.database import identifiers
from seller_platform.warehouse.schema.currencies import digits_of
from seller_platform.warehouse.schema.tables import SELLER

WHOLE_LIST = ""
"""Takes the place of the day where the rows of a list are compared as a whole."""

_MOST_ALIKE = 4
"""The columns of a day are compared if more than one of so many of its rows differs."""

SUMS_ALIKE = Decimal("0.75")
"""They are compared, too, if a sum of the rows that differ changes by more than this share of the smaller one."""

_NUMBERS, _TIMES = (Kind.INTEGER, Kind.NUMBER, Kind.MONEY), (Kind.DATE, Kind.TIMESTAMP)

# A row is the same row where its key and its filter's value are, and an equal one where its amounts and whole numbers
# are equal, too. A status or a name may change at any time, and so may amounts that the upstream computes, but for the
# first one. The rows are looked up once, because that takes most of the time.
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
SELECT on_day, direction, lost, others, {figures}
FROM moved JOIN days USING (on_day) GROUP BY on_day, direction, lost, others
""")
_GONE = sql.SQL("{inside} AND ctid = ANY (%s::text[]::tid[])")
_STORED = sql.SQL("SELECT {day} AS on_day, {figures} FROM {stored} WHERE {inside} GROUP BY 1")

# In the next snapshot of a list any row may be another: what counts is how many change at once, and by how much.
_SCALED = sql.SQL("""
SELECT {counts}
FROM (SELECT {identity}, {numbers} FROM {stored} WHERE {gone} GROUP BY {identity}) AS was
JOIN (SELECT {identity}, {numbers} FROM {pending} GROUP BY {identity}) AS now USING ({identity})
""")
_IS_SCALED = sql.SQL("""
count(*) FILTER (WHERE was.{name} * now.{name} < 0
                 OR greatest(abs(was.{name}), abs(now.{name})) > 5 * nullif(least(abs(was.{name}), abs(now.{name})), 0)
                 OR was.{unit} <> now.{unit})
""")
_NUMBER = sql.SQL("sum({name}) AS {name}, min(''::text) AS {unit}")
_OF_ELEMENTS = sql.SQL("""
sum((SELECT sum(amount::text::numeric) FROM jsonb_path_query({name}, '$[*].amount.double()', '{{}}', true) AS amount))
    AS {name},
min(jsonb_path_query_array({name}, '$[*].currency')::text) AS {unit}
""")


Figures: TypeAlias = Counter[tuple[str, str]]
"""What rows of a day add up to: their number under `ROWS`, and by kind and column

- "filled": rows with a value; of a number, with one other than zero; of a text or a list, with one that is not empty.
- "gross": the sum of the amounts without their signs.
- "net": the sum of the amounts.
"""

ROWS = ("rows", "")


def sum_changes(before: Figures, after: Figures) -> Iterator[tuple[str, Decimal | int, Decimal | int]]:
    """Yield how much each sum of amounts changes, with or without their signs, and the smaller of the sums."""
    for name in sorted({name for kind, name in (*before, *after) if kind == "gross"}):
        changes = (abs(after[kind, name] - before[kind, name]) for kind in ("gross", "net"))
        yield name, max(changes), min(before["gross", name], after["gross", name])


@dataclass(frozen=True)
class DayChange:
    """How a reading of a day differs from its stored rows.

    Attributes:
        lost: Rows whose key is not read again.
        others: Rows whose key, amounts or whole numbers are not read again or were not stored, whichever are more.
        amount: How much the sum of the first amount changes.
        compared: The figures of the day before and after; None where too little differs.
        scaled: Of a list without days: the rows whose number is five times larger or smaller, by column.
    """

    before: int
    after: int
    lost: int = 0
    others: int = 0
    amount: Decimal = Decimal(0)
    compared: tuple[Figures, Figures] | None = None
    scaled: Mapping[str, int] = field(default_factory=dict)

    @property
    def added(self) -> int:
        """How many rows come whose key was not stored."""
        return self.after - self.before + self.lost


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

    Where dated rows are compared as a whole, because their time zone is another one, days and times are not compared,
    and neither are amounts that add up a day.

    Args:
        pending: The table of the rows that were read and are not stored.
        inside: The condition for the stored rows that the reading is compared with.
        gone: The addresses of those that were not read again; None for all of them.
        read: The rows of the reading by day; None where the list is compared as a whole.
        currency: The account's currency, in whose minor unit amounts are equal that name no other.
    """
    is_whole, figures_of = read is None, _figures(dataset)
    day = sql.SQL("''" if is_whole else "{}::text").format(sql.Identifier(dataset.slice_column))
    identity = _identity(dataset, without_times=is_whole and dataset.is_dated)
    figures: list[sql.Composable] = []
    if not is_whole or not dataset.is_dated or has_moments(dataset):
        figures = [sql.Identifier(column.name) for column in dataset.columns if column.kind is Kind.INTEGER]
        for column in dataset.money[:1] if dataset.is_computed else dataset.money:
            digits: sql.Composable = sql.Literal(minor_digits(currency))
            if column.currency:
                figures.append(code := sql.Identifier(column.currency))
                digits = digits_of(code)
            figures.append(sql.SQL("round({}, {})").format(sql.Identifier(column.name), digits))
    parts = {
        "day": day,
        "stored": sql.Identifier(SELLER, dataset.name),
        "inside": inside,
        "pending": pending,
        "gone": inside if gone is None else _GONE.format(inside=inside),
        "identity": identifiers(identity),
        "figures": sql.SQL(", ").join(figures_of.values()),
    }
    moved = _MOVED.format(
        columns=identifiers(dict.fromkeys([*(column.name for column in dataset.columns), *identity])),
        compared=sql.SQL(", ").join([*map(sql.Identifier, identity), *figures]),
        **parts,
    )
    differing: dict[str, tuple[int, int]] = {}
    went: dict[str, Figures] = defaultdict(Counter)
    came: dict[str, Figures] = defaultdict(Counter)
    addresses = None if gone is None else [list(gone)]
    for each, direction, lost, others, *values in cursor.execute(moved, addresses).fetchall():
        differing[each] = (lost, others)
        (came if direction > 0 else went)[each] = Counter(dict(zip(figures_of, values, strict=True)))
    of_days = inside
    rows: dict[str, int] = {}
    dear: Collection[str] = {WHOLE_LIST}
    if read is not None:
        rows = {each: read.get(each, 0) - came[each][ROWS] + went[each][ROWS] for each in {*read, *went}}
        dear = _dear_days(rows, went, came)
        of_days = sql.SQL("{} AND {} = ANY ({}::text[])").format(inside, day, sql.Literal(sorted(dear)))
    before: dict[str, Figures] = defaultdict(Counter)
    if dear:
        for each, *values in cursor.execute(_STORED.format(**{**parts, "inside": of_days})).fetchall():
            before[each] = Counter(dict(zip(figures_of, values, strict=True)))
    if is_whole:
        rows = {WHOLE_LIST: before[WHOLE_LIST][ROWS]}
    scaled = {} if dataset.is_dated else _scaled(cursor, dataset, addresses, parts)
    changes = {}
    for each, count in rows.items():
        gone_rows, new_rows = went[each], came[each]
        lost, others = differing.get(each, (0, 0))
        whole, after = before[each], before[each].copy()
        after.update(new_rows)
        after.subtract(gone_rows)
        first = dataset.money[0].name if dataset.money else ""
        count_after, amount = count - gone_rows[ROWS] + new_rows[ROWS], new_rows["net", first] - gone_rows["net", first]
        compared = (whole, after) if each in dear else None
        changes[each] = DayChange(count, count_after, lost, others, Decimal(amount), compared, scaled)
    return changes


def has_moments(dataset: Dataset) -> bool:
    """Whether each row happened at a moment, and does not add up a day."""
    return dataset.day is not None and dataset.column(dataset.day).kind is Kind.TIMESTAMP


def _identity(dataset: Dataset, *, without_times: bool) -> list[str]:
    """Return the columns by which a row is the same row."""
    names = dataset.key or dataset.order or [column.name for column in dataset.columns if column.kind is not Kind.JSON]
    leaves_out = (Kind.MONEY, *_TIMES) if without_times else (Kind.MONEY,)
    identity = [name for name in names if dataset.column(name).kind not in leaves_out]
    value = dataset.split_by.column if dataset.split_by else None
    return list(dict.fromkeys([*identity, *([value] if value else [])])) or ["account"]


def _scaled(
    cursor: psycopg.Cursor[Any], dataset: Dataset, addresses: Sequence[object] | None, parts: Mapping[str, Any]
) -> dict[str, int]:
    """Return how many rows have a number that is five times larger or smaller, or of another currency, by column."""
    forms = dict.fromkeys(_NUMBERS, _NUMBER) | {Kind.JSON: _OF_ELEMENTS}
    columns = [each for each in dataset.columns if each.kind in forms and each.name not in dataset.key]
    if not columns:
        return {}

    def each(form: Mapping[Kind, sql.SQL]) -> sql.Composed:
        return sql.SQL(", ").join(
            form[column.kind].format(name=sql.Identifier(column.name), unit=sql.Identifier(f"{column.name} unit"))
            for column in columns
        )

    statement = _SCALED.format(counts=each(dict.fromkeys(forms, _IS_SCALED)), numbers=each(forms), **parts)
    (counts,) = cursor.execute(statement, addresses).fetchall()
    return dict(zip([column.name for column in columns], counts, strict=True))


def _dear_days(rows: Mapping[str, int], went: Mapping[str, Figures], came: Mapping[str, Figures]) -> Collection[str]:
    """Return the days whose columns are compared: all of them if much of the reading differs, or amounts only go."""
    differ = {each: max(went[each][ROWS], came[each][ROWS]) for each in rows}
    of_both = ([item for each in figures.values() for item in each.items()] for figures in (went, came))
    had, has = (any(amount for (kind, _), amount in items if kind == "gross") for items in of_both)
    if _MOST_ALIKE * sum(differ.values()) > sum(rows.values()) or (had and not has):
        return {each for each, count in rows.items() if count}
    return {
        each
        for each, count in rows.items()
        if differ[each]
        and count
        and (
            _MOST_ALIKE * differ[each] > count
            or any(change > SUMS_ALIKE * least for _, change, least in sum_changes(went[each], came[each]))
        )
    }


def _figures(dataset: Dataset) -> dict[tuple[str, str], sql.Composable]:
    """Return the columns of a query of figures."""
    filled = dict.fromkeys(_NUMBERS, "count(*) FILTER (WHERE {} <> 0)")
    filled |= {Kind.TEXT: "count(nullif({}, ''))", Kind.JSON: "count(nullif({}, '[]'))"}
    forms = {("filled", column.name): filled.get(column.kind, "count({})") for column in dataset.columns}
    for kind, form in (("gross", "coalesce(sum(abs({})), 0)"), ("net", "coalesce(sum({}), 0)")):
        forms |= {(kind, column.name): form for column in dataset.money}
    named = {key: sql.SQL(form).format(sql.Identifier(key[1])) for key, form in forms.items()}
    return {ROWS: sql.SQL("count(*)"), **named}
