"""The rows of the datasets, encoded as JSON by PostgreSQL.

A list is ordered by local day first. So the rows of each day are counted, once, which gives the total and tells on
which days the asked page lies; only those are sorted. A deep page then costs what the first one does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import LiteralString

from psycopg import sql

from seller_platform.contract import Column, Dataset, Kind
from seller_platform.service.access import SelectedAccounts
from seller_platform.service.parameters import LARGEST_INTEGER
from seller_platform.service.store import Connection
from seller_platform.warehouse.tables import LOCAL_DAY, SELLER


@dataclass(frozen=True)
class Days:
    """Local days of one account, both ends inclusive."""

    first: date
    last: date


@dataclass(frozen=True)
class RowPage:
    """One page of a list: its rows as JSON objects with commas between, and how many the list has."""

    rows: bytes
    total: int


_PAGE = """
WITH chosen AS MATERIALIZED (
    SELECT account, zone, {first_day} AS first_day, {last_day} AS last_day
    FROM unnest(%(accounts)s::text[], %(zones)s::text[], %(first_days)s::date[], %(last_days)s::date[])
         AS asked (account, zone, first_day, last_day)
),
days AS MATERIALIZED (
    SELECT stored.local_day, count(*) AS amount
    FROM chosen
    JOIN {table} AS stored
      ON stored.account = chosen.account AND stored.local_day BETWEEN chosen.first_day AND chosen.last_day
    WHERE {facet}
    GROUP BY stored.local_day
),
counted AS (
    SELECT local_day, amount, (sum(amount) OVER (ORDER BY local_day) - amount)::bigint AS before FROM days
),
touched AS MATERIALIZED (
    SELECT min(local_day) AS first_day, max(local_day) AS last_day, min(before) AS skipped
    FROM counted
    WHERE before + amount > %(offset)s::bigint AND before < %(offset)s::bigint + %(limit)s
),
page AS (
    SELECT stored.*, chosen.zone
    FROM chosen
    JOIN {table} AS stored
      ON stored.account = chosen.account AND stored.local_day BETWEEN chosen.first_day AND chosen.last_day
    WHERE {facet}
      AND stored.local_day >= (SELECT first_day FROM touched)
      AND stored.local_day <= (SELECT last_day FROM touched)
    ORDER BY {order}
    OFFSET %(offset)s::bigint - (SELECT skipped FROM touched) LIMIT %(limit)s
)
SELECT (SELECT coalesce(sum(amount), 0)::bigint FROM days),
       (SELECT string_agg(row_to_json(answered)::text, ',') FROM (SELECT {fields} FROM page) AS answered)
"""

_FIRST_SNAPSHOT_DAY: LiteralString = """(
        SELECT max(day) FROM (
            SELECT max(local_day) AS day FROM {table} WHERE account = asked.account
            UNION ALL
            SELECT max(window_start) FROM platform.loads WHERE dataset = {dataset} AND account = asked.account
        ) AS known
    )"""


async def read_page(
    connection: Connection,
    dataset: Dataset,
    selected: SelectedAccounts,
    *,
    days: Sequence[Days] | None,
    facet: str | None,
    page: int,
    per_page: int,
) -> RowPage:
    """Return a page of a dataset's list; total and rows are of one moment.

    Args:
        days: The days of each selected account; None for the newest snapshot of each.
        facet: The part of the list, for a dataset that has parts; None for all of it.
        page: Counted from 1; a page past the last is empty.
    """
    accounts = selected.accounts
    zones = [account.timezone for account in accounts]
    values: Mapping[str, object] = {
        "accounts": [account.key for account in accounts],
        "zones": zones,
        "first_days": [day.first for day in days] if days is not None else [None] * len(accounts),
        "last_days": [day.last for day in days] if days is not None else [None] * len(accounts),
        "facet": facet,
        "offset": min((page - 1) * per_page, LARGEST_INTEGER - per_page),
        "limit": per_page,
    }
    is_one_zone = len(set(zones)) <= 1
    if zones and is_one_zone:
        await _use_zone(connection, zones[0])
    statement = _page_statement(dataset, is_faceted=facet is not None, is_one_zone=is_one_zone)
    found = await (await connection.execute(statement, values, prepare=False)).fetchone()
    total, rows = found if found is not None else (0, None)
    return RowPage((rows or "").encode(), total)


@cache
def _page_statement(dataset: Dataset, *, is_faceted: bool, is_one_zone: bool) -> sql.Composed:
    table = sql.Identifier(SELLER, dataset.name)
    first_day, last_day = sql.SQL("asked.first_day"), sql.SQL("asked.last_day")
    if not dataset.is_dated:
        snapshot = sql.SQL(_FIRST_SNAPSHOT_DAY).format(table=table, dataset=sql.Literal(dataset.name))
        first_day = last_day = snapshot  # type: ignore[assignment]  # both are fragments
    facet: sql.Composable = sql.SQL("true")
    if is_faceted and dataset.facet is not None and dataset.facet.column is not None:
        facet = sql.SQL("stored.{} = %(facet)s").format(sql.Identifier(dataset.facet.column))
    return sql.SQL(_PAGE).format(
        table=table,
        first_day=first_day,
        last_day=last_day,
        facet=facet,
        order=sql.SQL(", ").join(_order(dataset)),
        fields=sql.SQL(", ").join(_field(column, is_one_zone=is_one_zone) for column in dataset.columns),
    )


def _order(dataset: Dataset) -> list[sql.Composable]:
    """Return a total order: the day, the dataset's own order, and where the row lies in its table."""
    order: list[sql.Composable] = [sql.Identifier("stored", LOCAL_DAY)]
    for name in dataset.order:
        column = sql.Identifier("stored", name)
        is_text = dataset.column(name).kind is Kind.TEXT
        order.append(sql.SQL('{} COLLATE "C"').format(column) if is_text else column)
    return [*order, sql.SQL("stored.account"), sql.SQL("stored.ctid")]


def _field(column: Column, *, is_one_zone: bool) -> sql.Composable:
    name = sql.Identifier(column.name)
    value: sql.Composable = sql.Identifier("page", column.name)
    if column.kind is Kind.MONEY:
        # Two decimals; more only where the amount has more, for no amount is ever rounded.
        value = sql.SQL("round({0}, greatest(2, min_scale({0})))").format(value)
    elif column.kind is Kind.TIMESTAMP and not is_one_zone:
        # PostgreSQL writes a timestamp in the session's zone: here that changes from row to row.
        value = sql.SQL("CASE WHEN set_config('TimeZone', page.zone, true) IS NOT NULL THEN to_json({}) END").format(
            value
        )
    return sql.SQL("{} AS {}").format(value, name)


async def _use_zone(connection: Connection, zone: str) -> None:
    """Let PostgreSQL write timestamps in a zone; it tells its clients which one it uses, so asking is free."""
    if connection.info.parameter_status("TimeZone") != zone:
        await connection.execute("SELECT set_config('TimeZone', %s, false)", (zone,))
