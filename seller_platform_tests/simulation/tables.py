"""Reads the tables that the model judges, and empties them between runs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from typing import Any, LiteralString

import psycopg

from seller_platform.contract import Dataset, Kind
from seller_platform.contract.datasets.reports import REPORT_ROWS
from seller_platform.warehouse.sums.keeping import IS_CURRENT
from seller_platform_tests.simulation.upstream import DATED, SNAPSHOT, Group, Report

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
       announced, finished_at::text, pages
FROM platform.loads ORDER BY id
"""
_JOBS = "SELECT id, state, report_id, requested_at::text, attempt, load_id FROM platform.report_jobs ORDER BY id"
_EMPTY = (
    "platform.known_pages",
    "platform.loads",
    "platform.refusals",
    "platform.report_jobs",
    "platform.grants",
    "platform.accounts",
    "platform.connections",
    "platform.sent_requests",
    "seller.accounts",
    "history.accounts",
    "service.summaries",
    "service.daily_counts",
    "service.product_sums",
    "service.product_days",
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
        rows: The rows by dataset.
        former: The rows in schema `history`, by dataset.
    """

    rows: dict[str, Counter[Stored]] = field(default_factory=dict)
    former: dict[str, Counter[Stored]] = field(default_factory=dict)
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
    for name, is_former, day, text, load in connection.execute(_rows_statement(names)):
        (former if is_former else rows)[name][day, text, load] += 1
    return Tables(rows, former, _by_number(connection, _RECEIPTS), _by_number(connection, _JOBS))


def _by_number(connection: psycopg.Connection[Any], statement: LiteralString) -> dict[int, Receipt]:
    cursor = connection.execute(statement)
    columns = [column.name for column in cursor.description or ()]
    return {row[0]: dict(zip(columns, row, strict=True)) for row in cursor}


@cache
def _rows_statement(names: tuple[str, ...]) -> str:
    parts = []
    for dataset in (each for each in JUDGED if each.name in names):
        text = _text(dataset)
        for schema, is_former in (("seller", "false"), ("history", "true")):
            parts.append(
                f"SELECT '{dataset.name}', {is_former}, local_day::text, {text}, load_id FROM {schema}.{dataset.name}"
            )
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


def has_amounts(dataset: Dataset, rows: Rows) -> bool:
    """Whether a row has an amount other than zero."""
    money = [number for number, column in enumerate(dataset.columns) if column in dataset.money]
    return any(text.split("|")[number] not in "~0" for _, text in rows for number in money)


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
    is_current = f"SELECT count(*) FROM service.summaries AS summary WHERE dataset = %s AND {IS_CURRENT}"
    if connection.execute(is_current, (name,)).fetchone() == (0,):
        return None
    counted = "SELECT local_day::text, sum(rows)::integer FROM service.daily_counts WHERE dataset = %s GROUP BY 1"
    return Counter(dict(connection.execute(counted, (name,)).fetchall()))


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
