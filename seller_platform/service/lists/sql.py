"""Reads the rows of the datasets, which PostgreSQL encodes as JSON.

A list is ordered by local day first. The number of rows of each day gives the total and the days of the requested page,
and only the rows of those days are sorted. So a deep page costs as much as the first. The days are counted once after
every load that changed them, if the service may store the counts.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import LiteralString

from psycopg import AsyncServerCursor, sql
from psycopg.rows import TupleRow

from seller_platform.contract import LOCAL_DAY, Column, Dataset, Kind
from seller_platform.service.access import SelectedAccounts, Selector
from seller_platform.service.http.parameters import LARGEST_INTEGER
from seller_platform.service.lists.daily_totals import WITHOUT_SUMS, answer_from_sums, kept
from seller_platform.service.pool import Connection
from seller_platform.warehouse.schema.tables import SELLER


@dataclass(frozen=True)
class Days:
    """Local days of one account, both ends inclusive."""

    first: date
    last: date


@dataclass(frozen=True)
class ListRequest:
    """The parameters of one request for a list.

    Attributes:
        part: The value of the dataset's split filter; None for the whole list.
        currency: The currency that amounts in the accounts' own currencies are converted to; None converts none.
        page: Counted from 1; a page past the last is empty.
        own_days: Those of the parameters that only this list takes, by name.
    """

    selector: Selector
    start: date | None
    end: date | None
    part: str | None
    currency: str | None
    page: int
    per_page: int
    own_days: Mapping[str, date | None] = field(default_factory=dict)


@dataclass(frozen=True)
class RowPage:
    """One page: its rows as comma-separated JSON objects, and the total of the list."""

    rows: bytes
    total: int


@dataclass(frozen=True)
class PageSource:
    """The SQL that computes a page from its stored rows.

    Attributes:
        text: An item of FROM named `page`, which selects from `page`, and the ORDER BY.
        values: The parameters of the text.
    """

    text: sql.Composed
    values: Mapping[str, object]


@dataclass(frozen=True)
class ChosenRows:
    """Selects rows of a dated dataset: days, and one product or all.

    Attributes:
        with_changes: Select earlier rows, too, that came or changed on these days.
        with_currency: Name the account's currency in each row.
    """

    days: Days
    sku: str | None = None
    with_changes: bool = False
    with_currency: bool = False


_EVERY = sql.SQL("true").format()

_ROWS = """
WITH {chosen}
SELECT {columns}
FROM chosen
JOIN {table} AS stored ON stored.account = chosen.account AND {inside}
WHERE {condition}
"""

_INSIDE = sql.SQL("stored.local_day BETWEEN chosen.first_day AND chosen.last_day").format()

# A load that was the first of a day found its rows as they were; rows that a later one brought are new or changed.
_INSIDE_OR_CHANGED = """(
    {inside} OR (
        stored.load_id IN (
            SELECT load.id
            FROM platform.loads AS load
            JOIN chosen AS asked ON asked.account = load.account
            WHERE load.dataset = {dataset}
              AND (load.finished_at AT TIME ZONE asked.zone)::date BETWEEN asked.first_day AND asked.last_day
        )
        AND EXISTS (
            SELECT FROM platform.loads AS earlier
            WHERE earlier.dataset = {dataset} AND earlier.account = stored.account AND earlier.id < stored.load_id
              AND earlier.verdict <> 'held'
              AND earlier.window_start <= stored.local_day AND earlier.window_end > stored.local_day
        )
    )
)"""

_ANSWERED = (
    "SELECT row_to_json(answered)::text FROM (SELECT {fields} FROM ({rows} ORDER BY {order}) AS page) AS answered"
)

_PAGE = """
WITH {kept},
{chosen},
days AS MATERIALIZED ({days}),
counted AS (
    SELECT local_day, amount, (sum(amount) OVER (ORDER BY local_day) - amount)::bigint AS before FROM days
),
touched AS MATERIALIZED (
    SELECT min(local_day) AS first_day, max(local_day) AS last_day, min(before) AS skipped
    FROM counted
    WHERE before + amount > %(offset)s::bigint AND before < %(offset)s::bigint + %(limit)s
),
page AS (
    SELECT {columns}
    FROM {source}
    WHERE {of_part}
      AND stored.local_day >= (SELECT first_day FROM touched)
      AND stored.local_day <= (SELECT last_day FROM touched)
    ORDER BY {order}
    OFFSET %(offset)s::bigint - (SELECT skipped FROM touched) LIMIT %(limit)s
)
SELECT (SELECT is_current FROM kept), (SELECT coalesce(sum(amount), 0)::bigint FROM days),
       (SELECT string_agg(row_to_json(answered)::text, ',') FROM (SELECT {fields} FROM {page}) AS answered)
"""

# Where the account is a constant, the index returns the days in order, and only the rows of a day are sorted.
_OF_ONE_ACCOUNT = """(
        SELECT (%(zones)s::text[])[1] AS zone, (%(currencies)s::text[])[1] AS currency
    ) AS chosen
    JOIN {table} AS stored ON stored.account = (%(accounts)s::text[])[1]"""

_OF_ACCOUNTS = """chosen
    JOIN {table} AS stored
      ON stored.account = chosen.account AND stored.local_day BETWEEN chosen.first_day AND chosen.last_day"""

_KEPT_DAYS = """
    SELECT counts.local_day, sum(counts.rows)::bigint AS amount
    FROM chosen
    JOIN service.daily_counts AS counts
      ON counts.account = chosen.account AND counts.dataset = {dataset}
     AND counts.local_day BETWEEN chosen.first_day AND chosen.last_day
    WHERE {part} AND (SELECT is_current FROM kept)
    GROUP BY counts.local_day
"""

# Counted account by account, in the order of the index: a join before the count would read the rows themselves.
_COUNTED_DAYS = """
    SELECT counts.local_day, sum(counts.amount)::bigint AS amount
    FROM chosen
    CROSS JOIN LATERAL (
        SELECT stored.local_day, count(*) AS amount
        FROM {table} AS stored
        WHERE stored.account = chosen.account AND stored.local_day BETWEEN chosen.first_day AND chosen.last_day
          AND {of_part}
        GROUP BY stored.local_day
    ) AS counts
    GROUP BY counts.local_day
"""

_CHOSEN = """chosen AS MATERIALIZED (
    SELECT account, zone, currency, {first_day} AS first_day, {last_day} AS last_day
    FROM unnest(
        %(accounts)s::text[], %(zones)s::text[], %(currencies)s::text[], %(first_days)s::date[], %(last_days)s::date[]
    ) AS requested (account, zone, currency, first_day, last_day)
)"""

# Rates are units for one euro, which therefore has no rate.
_CONVERTED_PAGE = """(SELECT *, row_number() OVER () AS position FROM page) AS page
LEFT JOIN service.exchange_rates AS own ON own.day = page.local_day AND own.currency = page.own_currency
LEFT JOIN service.exchange_rates AS other ON other.day = page.local_day AND other.currency = %(currency)s
ORDER BY page.position"""

_CONVERTED = """CASE WHEN page.own_currency = %(currency)s THEN {exact} ELSE
    round({value} * coalesce(other.per_euro, 1) / coalesce(own.per_euro, 1), 2) END"""

_MISSING_RATE = """
WITH {chosen}
SELECT rate_of.currency, min(needed.day)
FROM (
    SELECT DISTINCT stored.local_day AS day, chosen.currency
    FROM chosen
    JOIN {table} AS stored
      ON stored.account = chosen.account AND stored.local_day BETWEEN chosen.first_day AND chosen.last_day
    WHERE chosen.currency IS DISTINCT FROM %(currency)s
) AS needed
CROSS JOIN LATERAL (VALUES (needed.currency), (%(currency)s)) AS rate_of (currency)
LEFT JOIN service.exchange_rates AS rate ON rate.day = needed.day AND rate.currency = rate_of.currency
WHERE rate_of.currency IS DISTINCT FROM 'EUR' AND rate.per_euro IS NULL
GROUP BY rate_of.currency
"""

_KNOWN_CURRENCY = "SELECT FROM service.exchange_rates WHERE currency = %s LIMIT 1"

_NEWEST_DAY: LiteralString = """(
        SELECT max(day) FROM (
            SELECT max(local_day) AS day FROM {table} WHERE account = requested.account
            UNION ALL
            SELECT max(window_start) FROM platform.loads
            WHERE dataset = {dataset} AND account = requested.account AND verdict <> 'held'
        ) AS snapshots
    )"""


async def read_page(
    connection: Connection,
    dataset: Dataset,
    selected: SelectedAccounts,
    list_request: ListRequest,
    *,
    days: Sequence[Days] | None,
    source: PageSource | None = None,
) -> RowPage:
    """Return a page of a dataset's list; total and rows are of one moment.

    Args:
        days: The days of each selected account; None for the newest snapshot of each.
        source: The SQL that computes the page; None answers the stored rows.
    """
    zones = {account.zone_name for account in selected.accounts}
    # PostgreSQL writes timestamps in the session's zone, and reports that zone to its clients without a query.
    if len(zones) == 1 and {connection.info.parameter_status("TimeZone")} != zones:
        await connection.execute("SELECT set_config('TimeZone', %s, false)", (*zones,))
    values = {
        **_values(selected, days, list_request.currency),
        **(source.values if source is not None else {}),
        "part": list_request.part,
        "offset": min((list_request.page - 1) * list_request.per_page, LARGEST_INTEGER - list_request.per_page),
        "limit": list_request.per_page,
    }

    async def read(*, is_kept: bool) -> RowPage | None:
        form = _PageForm(
            dataset,
            is_part=list_request.part is not None,
            is_one_account=len(selected.accounts) == 1,
            is_one_zone=len(zones) <= 1,
            is_converted=list_request.currency is not None,
            is_kept=is_kept,
        )
        statement = _page_statement(form) if source is None else _compose_page(form, source.text)
        row = await (await connection.execute(statement, values, prepare=False)).fetchone()
        is_current, total, rows = row if row is not None else (True, 0, None)
        return RowPage((rows or "").encode(), total) if is_current else None

    return await answer_from_sums(connection, dataset, selected, read)


async def count_rows(connection: Connection, dataset: Dataset, selected: SelectedAccounts, chosen: ChosenRows) -> int:
    """Return how many rows `open_rows` would yield now."""
    statement = _rows_statement(dataset, chosen, sql.SQL("count(*)"))
    row = await (await connection.execute(statement, _row_values(selected, chosen), prepare=False)).fetchone()
    return int(row[0]) if row is not None else 0


@asynccontextmanager
async def open_rows(
    connection: Connection, dataset: Dataset, selected: SelectedAccounts, chosen: ChosenRows
) -> AsyncIterator[AsyncServerCursor[TupleRow]]:
    """Open a cursor over rows as JSON objects, in the order of the list.

    All rows are of one moment. The cursor ends with the transaction of the caller.
    """
    zones = {account.zone_name for account in selected.accounts}
    is_one_zone = len(zones) <= 1
    if zones and is_one_zone:
        await connection.execute("SELECT set_config('TimeZone', %s, true)", (*zones,))
    fields = [_field(column, is_one_zone=is_one_zone, is_converted=False) for column in dataset.columns]
    if chosen.with_currency:
        fields.append(sql.SQL("page.own_currency AS currency"))
    answered = sql.SQL(_ANSWERED).format(
        fields=sql.SQL(", ").join(fields),
        rows=_rows_statement(dataset, chosen, sql.SQL("stored.*, chosen.zone, chosen.currency AS own_currency")),
        order=sql.SQL(", ").join(_order(dataset)),
    )
    async with connection.cursor("rows") as cursor:
        await cursor.execute(answered, _row_values(selected, chosen))
        yield cursor


async def missing_rates(
    connection: Connection, dataset: Dataset, selected: SelectedAccounts, *, days: Sequence[Days] | None, currency: str
) -> dict[str | None, date]:
    """Return the currencies without a rate to convert rows, each with the first such day."""
    statement = sql.SQL(_MISSING_RATE).format(chosen=_chosen(dataset), table=sql.Identifier(SELLER, dataset.name))
    cursor = await connection.execute(statement, _values(selected, days, currency), prepare=False)
    return dict(await cursor.fetchall())


async def knows_currency(connection: Connection, currency: str) -> bool:
    """Whether any exchange rate of a currency is stored."""
    return currency == "EUR" or await (await connection.execute(_KNOWN_CURRENCY, (currency,))).fetchone() is not None


def _values(selected: SelectedAccounts, days: Sequence[Days] | None, currency: str | None) -> dict[str, object]:
    accounts = selected.accounts
    return {
        "accounts": selected.keys,
        "zones": [account.zone_name for account in accounts],
        "currencies": [account.currency_code for account in accounts],
        "first_days": [day.first for day in days] if days is not None else [None] * len(accounts),
        "last_days": [day.last for day in days] if days is not None else [None] * len(accounts),
        "currency": currency,
    }


@dataclass(frozen=True)
class _PageForm:
    """The facts that decide the text of a page's statement."""

    dataset: Dataset
    is_part: bool
    is_one_account: bool
    is_one_zone: bool
    is_converted: bool
    is_kept: bool


@cache
def _page_statement(form: _PageForm) -> sql.Composed:
    return _compose_page(form, sql.SQL(_CONVERTED_PAGE if form.is_converted else "page"))


def _compose_page(form: _PageForm, page: sql.Composable) -> sql.Composed:
    dataset, of_part, counted_part = form.dataset, _EVERY, _EVERY
    if form.is_part and dataset.split_by is not None and dataset.split_by.column is not None:
        of_part = sql.SQL("stored.{} = %(part)s").format(sql.Identifier(dataset.split_by.column))
        counted_part = sql.SQL("counts.part = %(part)s").format()
    table = sql.Identifier(SELLER, dataset.name)
    kept_days = sql.SQL(_KEPT_DAYS).format(dataset=sql.Literal(dataset.name), part=counted_part)
    # The fewer columns are sorted, the better.
    names = dict.fromkeys((*(column.name for column in dataset.columns), "account", LOCAL_DAY))
    columns: list[sql.Composable] = [sql.Identifier("stored", name) for name in names]
    if not form.is_one_zone:
        columns.append(sql.SQL("chosen.zone"))
    if form.is_converted:
        columns.append(sql.SQL("chosen.currency AS own_currency"))
    fields = [
        _field(column, is_one_zone=form.is_one_zone, is_converted=form.is_converted) for column in dataset.columns
    ]
    return sql.SQL(_PAGE).format(
        kept=kept(dataset) if form.is_kept else sql.SQL(WITHOUT_SUMS),
        chosen=_chosen(dataset),
        days=kept_days if form.is_kept else sql.SQL(_COUNTED_DAYS).format(table=table, of_part=of_part),
        columns=sql.SQL(", ").join(columns),
        source=sql.SQL(_OF_ONE_ACCOUNT if form.is_one_account else _OF_ACCOUNTS).format(table=table),
        of_part=of_part,
        order=sql.SQL(", ").join(_order(dataset, is_one_account=form.is_one_account)),
        fields=sql.SQL(", ").join(fields),
        page=page,
    )


def _rows_statement(dataset: Dataset, chosen: ChosenRows, columns: sql.Composable) -> sql.Composed:
    condition = sql.SQL("true" if chosen.sku is None else "stored.sku = %(sku)s")
    table = sql.Identifier(SELLER, dataset.name)
    inside = _INSIDE
    if chosen.with_changes:
        inside = sql.SQL(_INSIDE_OR_CHANGED).format(inside=_INSIDE, dataset=sql.Literal(dataset.name))
    return sql.SQL(_ROWS).format(
        chosen=_chosen(dataset), columns=columns, table=table, inside=inside, condition=condition
    )


def _row_values(selected: SelectedAccounts, chosen: ChosenRows) -> dict[str, object]:
    return {**_values(selected, [chosen.days] * len(selected.accounts), None), "sku": chosen.sku}


def _chosen(dataset: Dataset) -> sql.Composable:
    if dataset.is_dated:
        first_day, last_day = sql.SQL("requested.first_day"), sql.SQL("requested.last_day")
        return sql.SQL(_CHOSEN).format(first_day=first_day, last_day=last_day)
    newest = newest_day(dataset)
    return sql.SQL(_CHOSEN).format(first_day=newest, last_day=newest)


def newest_day(dataset: Dataset) -> sql.Composable:
    """Return the day of the newest snapshot of `requested.account`, which may be empty."""
    return sql.SQL(_NEWEST_DAY).format(table=sql.Identifier(SELLER, dataset.name), dataset=sql.Literal(dataset.name))


def _order(dataset: Dataset, *, is_one_account: bool = False) -> list[sql.Composable]:
    """Return a total order: the day, the dataset's own order, and the row's `ctid`."""
    order: list[sql.Composable] = [sql.Identifier("stored", LOCAL_DAY)]
    for name in dataset.order:
        column = sql.Identifier("stored", name)
        is_text = dataset.column(name).kind is Kind.TEXT
        order.append(sql.SQL('{} COLLATE "C"').format(column) if is_text else column)
    return [*order, *(() if is_one_account else (sql.SQL("stored.account"),)), sql.SQL("stored.ctid")]


def _field(column: Column, *, is_one_zone: bool, is_converted: bool) -> sql.Composable:
    name = sql.Identifier(column.name)
    value: sql.Composable = sql.Identifier("page", column.name)
    if column.kind is Kind.MONEY:
        # Two decimals, and more where the amount has more: no amount is rounded.
        exact = sql.SQL("round({0}, greatest(2, min_scale({0})))").format(value)
        is_own = column.currency is None
        value = sql.SQL(_CONVERTED).format(exact=exact, value=value) if is_converted and is_own else exact
    elif column.kind is Kind.TIMESTAMP and not is_one_zone:
        # PostgreSQL writes a timestamp in the session's zone, which is set for each row here.
        zoned = sql.SQL("CASE WHEN set_config('TimeZone', page.zone, true) IS NOT NULL THEN to_json({}) END")
        value = zoned.format(value)
    return sql.SQL("{} AS {}").format(value, name)
