"""Reads the tables that the model judges, and empties them between runs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, LiteralString

import psycopg

from seller_platform.contract import Dataset, Kind, Window
from seller_platform.contract.datasets.reports import REPORT_ROWS
from seller_platform.service.sums.keeping import IS_CURRENT, lock_name, sum_statement, values_of
from seller_platform.warehouse.postgres.advisory_locks import TRY_LOCK
from seller_platform_tests.simulation.reports import Report
from seller_platform_tests.simulation.upstream import ACCOUNT, DATED, SNAPSHOT, Group
from seller_platform_tests.support.slices_of_receipts import fill_slices

Receipt = Mapping[str, Any]
"""A row of `platform.loads`, or of `platform.report_jobs`, by column."""
Stored = tuple[str, str, int]
"""A row: its day, its values as text, and its load."""
Rows = Counter[tuple[str, str]]
"""Rows without their load."""
Step = tuple[str, str, Counter[Stored], Counter[Stored]]
"""A dataset, a moment, and the rows that came and left then."""

JUDGED = (*DATED, SNAPSHOT, REPORT_ROWS)

_RECEIPTS = """
SELECT id, dataset, window_start::text, window_end::text, rows, verdict, changed, notes, run_id, started_at::text,
       time_zone, announced, finished_at::text, pages, sums, restatement, changed_days
FROM platform.loads ORDER BY id
"""
_JOBS = "SELECT id, state, report_id, requested_at::text, load_id FROM platform.report_jobs ORDER BY id"
_IS_CURRENT = f"SELECT count(*) FROM service.summaries AS summary WHERE dataset = %s AND {IS_CURRENT}"
_KEPT_SUMS = """
SELECT 'counts', concat_ws('|', local_day, part, is_merged, rows) FROM service.daily_counts WHERE dataset = %(dataset)s
UNION ALL SELECT 'products', concat_ws('|', month, sku, kind, currency, units, trim_scale(amount), day_bits)
FROM service.product_days WHERE kind = ANY (%(kinds)s)
UNION ALL SELECT 'product days', concat_ws('|', month, sku, kind, currency, of_day.day, trim_scale(of_day.amount))
FROM service.product_days, unnest(days, amounts_of_days) AS of_day (day, amount) WHERE kind = ANY (%(kinds)s)
UNION ALL SELECT 'days', sums::text FROM service.day_sums AS sums WHERE kind = ANY (%(kinds)s)
"""
_SLICES = """
SELECT dataset, account, month::text, load_id, changed_load_id, verdict, first_day::text, newest_day::text, rows,
       read_at::text, current_at::text, days_read::text, time_zone, currency, mismatched_load_ids::text,
       held_load_ids::text, noted_load_ids::text
FROM platform.slices WHERE load_id IS NOT NULL OR held_load_ids <> '{}'
"""
_EMPTY = (
    "platform.kept_settledness",
    "platform.known_pages",
    "platform.loads",
    "platform.slices",
    "platform.report_jobs",
    "platform.grants",
    "platform.accounts",
    "platform.connections",
    "platform.sent_requests",
    "platform.mart_builds",
    "platform.derived_partitions",
    "marts.simulated",
    "seller.accounts",
    "history.accounts",
    "service.summaries",
    "service.unsummed_loads",
    "service.daily_counts",
    "service.product_days",
    "service.product_months",
    "service.changed_months",
    "service.day_sums",
    *(f"{schema}.{dataset.name}" for dataset in JUDGED for schema in ("seller", "history")),
)
_CLEAN = "; ".join(
    [
        *(f"DELETE FROM {table}" for table in _EMPTY),
        "SELECT setval(pg_get_serial_sequence('platform.loads', 'id'), 1, false)",
        "SELECT setval(pg_get_serial_sequence('platform.report_jobs', 'id'), 1, false)",
    ]
)


@dataclass
class Tables:
    """The rows of all judged tables, and the receipts and report jobs by number.

    Attributes:
        former: The rows in schema `history`, by dataset.
        gone: How many of them each load moved there, by dataset.
    """

    rows: dict[str, Counter[Stored]] = field(default_factory=dict)
    former: dict[str, Counter[Stored]] = field(default_factory=dict)
    gone: dict[str, Counter[int]] = field(default_factory=dict)
    receipts: dict[int, Receipt] = field(default_factory=dict)
    jobs: dict[int, Receipt] = field(default_factory=dict)


def empty_tables(connection: psycopg.Connection[Any], *, anew: bool) -> None:
    """Delete all rows, and number receipts and jobs from 1 again.

    Args:
        anew: Free the space of deleted rows, too.
    """
    if anew:
        connection.execute(f"TRUNCATE {', '.join(_EMPTY)}")
    connection.execute(_CLEAN)


def read_tables(connection: psycopg.Connection[Any], datasets: Sequence[Dataset]) -> Tables:
    """Return the rows and receipts that are committed."""
    names = tuple(dataset.name for dataset in (*datasets, REPORT_ROWS))
    rows: dict[str, Counter[Any]] = {name: Counter() for name in names}
    former: dict[str, Counter[Any]] = {name: Counter() for name in names}
    gone: dict[str, Counter[int]] = {name: Counter() for name in names}
    for name, day, text, load, gone_with in connection.execute(_rows_statement(names)):
        (rows if gone_with is None else former)[name][day, text, load] += 1
        gone[name][gone_with] += 1
    return Tables(rows, former, gone, _by_number(connection, _RECEIPTS), _by_number(connection, _JOBS))


def _by_number(connection: psycopg.Connection[Any], statement: LiteralString) -> dict[int, Receipt]:
    cursor = connection.execute(statement)
    columns = [column.name for column in cursor.description or ()]
    return {row[0]: dict(zip(columns, row, strict=True)) for row in cursor}


@cache
def _rows_statement(names: tuple[str, ...]) -> str:
    parts = []
    for dataset in (each for each in JUDGED if each.name in names):
        text = _text(dataset)
        for schema, gone in (("seller", "NULL"), ("history", "gone_load_id")):
            table = f"{schema}.{dataset.name}"
            parts.append(f"SELECT '{dataset.name}', local_day::text, {text}, load_id, {gone} FROM {table}")
    return " UNION ALL ".join(parts)


def replaced(receipts: Mapping[int, Receipt]) -> set[int]:
    """Return the receipts after which there is another of the same window: of two held, or of two published ones."""
    newest: dict[Any, int] = {}
    for number in sorted(receipts):
        each = receipts[number]
        newest[each["dataset"], each["window_start"], each["window_end"], each["verdict"] == "held"] = number
    return set(receipts) - set(newest.values())


def accepted_days(receipts: Mapping[int, Receipt], name: str) -> list[str]:
    """Return the first days of the loads of a dataset whose loss of rows or amounts was accepted."""
    own = [each for each in receipts.values() if each["dataset"] == name]
    return [each["window_start"] for each in own if "accepted" in (each["notes"] or {})]


def rows_inside(rows: Counter[Stored], first: str, end: str) -> Rows:
    """Return the rows of the days from the first to before the end."""
    inside: Rows = Counter()
    for (day, text, _), count in rows.items():
        if first <= day < end:
            inside[day, text] += count
    return inside


def rows_of_day(rows: Counter[Stored], day: str) -> Rows:
    """Return the rows of a day."""
    return rows_inside(rows, day, f"{day}~")


def changed_inside(rows: Counter[Stored], first: str, end: str) -> Counter[Stored]:
    """Return the rows of the days from the first to before the end, with their loads."""
    return Counter({row: count for row, count in rows.items() if first <= row[0] < end})


def rows_of_group(rows: Rows, group: Group) -> Counter[str]:
    """Return the rows of a day, and of a sales channel where the group has one; without a day, all rows."""
    of_day, part = group
    texts: Counter[str] = Counter()
    for (day, text), count in rows.items():
        if of_day in {"", day} and (not part or text.endswith(f"|{part}")):
            texts[text] += count
    return texts


def groups_of(dataset: Dataset, channels: Sequence[str | None], first: str, end: str) -> list[Group]:
    """Return the groups of a window."""
    if not dataset.is_dated:
        return [("", "")]
    start, days = date.fromisoformat(first), (date.fromisoformat(end) - date.fromisoformat(first)).days
    parts = [channel or "" for channel in channels] if dataset.tags and dataset.split_by else [""]
    return [(str(start + timedelta(days=number)), part) for number in range(days) for part in parts]


def count_of_amounts(dataset: Dataset, rows: Rows) -> int:
    """Return how many rows have an amount other than zero."""
    money = [number for number, column in enumerate(dataset.columns) if column in dataset.money]
    return sum(any(text.split("|")[number] not in "~0" for number in money) for _, text in rows.elements())


def served_rows(dataset: Dataset, rows: Counter[Stored], window: Window) -> Counter[str]:
    """Return the rows that the service lists of some days, or of the newest snapshot, without their sales channel."""
    first, last = str(window.start), str(window.last_day)
    if not dataset.is_dated:
        first = last = max((day for day, _, _ in rows), default=first)
    columns, texts = len(dataset.columns), Counter[str]()
    for (day, text, _), count in rows.items():
        if first <= day <= last:
            texts["|".join(text.split("|")[:columns])] += count
    return texts


def answered_text(dataset: Dataset, row: Mapping[str, Any]) -> str:
    """Return a row that the service listed as text, to compare it with a stored one."""
    cells = []
    for column in dataset.columns:
        value = row[column.name]
        if value is not None and column.kind is Kind.TIMESTAMP:
            value = datetime.fromisoformat(value).astimezone(UTC).replace(tzinfo=None).isoformat()
        elif value is not None and column.kind in {Kind.MONEY, Kind.NUMBER}:
            value = f"{Decimal(value).normalize():f}"
        cells.append("~" if value is None else value)
    return "|".join(cells)


def sums_of(dataset: Dataset, rows: Rows) -> dict[str, Decimal]:
    """Return the number of rows and the sum of each amount. No row here names a currency."""
    sums = {"rows": Decimal(rows.total())}
    for position, column in enumerate(dataset.columns):
        if column in dataset.money:
            cells = ((text.split("|")[position], count) for (_, text), count in rows.items())
            sums[column.name] = sum((Decimal(cell) * count for cell, count in cells if cell != "~"), Decimal())
    return {name: amount for name, amount in sums.items() if amount}


def days_of(rows: Counter[Stored], first: str, end: str) -> Counter[str]:
    """Return how many rows each day has, from the first to before the end."""
    return Counter(day for day, _, _ in rows.elements() if first <= day < end)


def is_published_reading(receipt: Receipt) -> bool:
    """Whether a load published what it read: it was neither held nor a revert."""
    return receipt["verdict"] != "held" and "reverts_load" not in (receipt["notes"] or {})


def report_texts(report: Report) -> Counter[str]:
    """Return the rows of a report as they are stored."""
    return Counter(
        f"{report.number}|{position}|{row['sku']}|~|{row['units_ordered']}|~"
        for position, row in enumerate(report.rows, start=1)
    )


def rows_then(steps: Iterable[Step], name: str, moment: str) -> Rows:
    """Return the rows of a dataset at a moment, by the changes until then."""
    rows: Rows = Counter()
    for other, at, came, left in steps:
        if other == name and at <= moment:
            rows.update((day, text) for day, text, _ in came.elements())
            rows.subtract((day, text) for day, text, _ in left.elements())
    return +rows


def rows_of(connection: psycopg.Connection[Any], name: str) -> Rows:
    """Return the rows of a dataset."""
    statement = f"SELECT local_day::text, {_text(_judged(name))} FROM seller.{name}"
    return Counter((day, text) for day, text in connection.execute(statement))


def rows_as_of(connection: psycopg.Connection[Any], name: str, moment: str) -> Rows:
    """Return the rows of a dataset as the database says that they were at a moment."""
    statement = f"SELECT local_day::text, {_text(_judged(name))} FROM history.{name}_as_of(%s)"
    return Counter((day, text) for day, text in connection.execute(statement, (moment,)))


def counts_of(connection: psycopg.Connection[Any], name: str) -> Counter[str] | None:
    """Return how many rows of a dataset each day has by the counts of the service; None where these are not current."""
    if connection.execute(_IS_CURRENT, (name,)).fetchone() == (0,):
        return None
    counted = (
        "SELECT local_day::text, sum(rows)::integer FROM service.daily_counts WHERE dataset = %s AND NOT is_merged "
        "GROUP BY 1"
    )
    return Counter(dict(connection.execute(counted, (name,)).fetchall()))


def kept_sums(connection: psycopg.Connection[Any], name: str) -> tuple[Counter[Any], Counter[Any]] | None:
    """Return the stored sums of a dataset, and those that its rows have now; None where they are not current.

    They are computed in a transaction that is rolled back. It is not begun while a load keeps the sums.
    """
    dataset, lock = _judged(name), {"name": lock_name(ACCOUNT.key)}
    values = values_of(dataset, ACCOUNT.key)
    with connection.transaction(force_rollback=True):
        current = connection.execute(_IS_CURRENT, (name,)).fetchone()
        if current == (0,) or connection.execute(TRY_LOCK, lock).fetchone() != (True,):
            return None
        stored = Counter(connection.execute(_KEPT_SUMS, values).fetchall())
        connection.execute("DELETE FROM service.summaries WHERE dataset = %(dataset)s", values)
        connection.execute(sum_statement(dataset), values)
        return stored, Counter(connection.execute(_KEPT_SUMS, values).fetchall())


def _judged(name: str) -> Dataset:
    return next(each for each in JUDGED if each.name == name)


def _text(dataset: Dataset) -> str:
    cells = [_cell(column.name, column.kind) for column in (*dataset.columns, *dataset.tags)]
    return "concat_ws('|', " + ", ".join(cells) + ")"


def _cell(name: str, kind: Kind) -> str:
    if kind in {Kind.MONEY, Kind.NUMBER}:
        return f"coalesce(trim_scale({name})::text, '~')"
    if kind is Kind.TIMESTAMP:
        return f"coalesce(to_char({name} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS'), '~')"
    return f"coalesce({name}::text, '~')"


def some(rows: Counter[Any]) -> str:
    """Return up to three rows as text, for a message."""
    return str(sorted(map(str, rows.elements()))[:3])


def kept_slices(connection: psycopg.Connection[Any]) -> tuple[Counter[Any], Counter[Any]]:
    """Return the rows of slices, and those that follow from the receipts: in a transaction that is rolled back."""
    with connection.transaction(force_rollback=True):
        kept = Counter(connection.execute(_SLICES).fetchall())
        connection.execute("DELETE FROM platform.slices")
        fill_slices(connection)
        return kept, Counter(connection.execute(_SLICES).fetchall())


def named_problems(connection: psycopg.Connection[Any]) -> Counter[Any]:
    """Return the kind and the load of each reading that is held or mismatched, as `platform.problems` names them."""
    named = "SELECT kind, load_id FROM platform.problems WHERE kind IN ('held', 'mismatched')"
    return Counter(connection.execute(named).fetchall())
