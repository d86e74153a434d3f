"""Reads the rows of the datasets, which PostgreSQL encodes as JSON.

A list is ordered by local day first. The number of rows of each day gives the total and the days of the requested page,
and only the rows of those days are sorted. So a deep page costs as much as the first. The days are counted once after
every load that changed them, if the service may store the counts.

A list that is pinned to a moment is read from the same tables, as long as no later load changed it. Once one did, it is
read from the function `history.<dataset>_without`, which leaves the later loads out.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import LiteralString

from psycopg import AsyncServerCursor, sql
from psycopg.rows import TupleRow

from seller_platform.contract import LOCAL_DAY, Column, Dataset, Kind
from seller_platform.service.access import ACCOUNT, SelectedAccounts, Selector
from seller_platform.service.http.parameters import LARGEST_INTEGER
from seller_platform.service.lists.daily_totals import WITHOUT_SUMS, answer_from_sums, kept
from seller_platform.service.lists.state import LATER_LOADS, RATES, ListState, state_columns, state_items
from seller_platform.service.pool import Connection
from seller_platform.warehouse.schema.tables import HISTORY, SELLER


@dataclass(frozen=True)
class Days:
    """Local days of one account, both ends inclusive."""

    first: date
    last: date


@dataclass(frozen=True)
class Need:
    """Rows that an answer needs.

    Attributes:
        parameter: The parameter that requests them, for the error.
        days: Those of each selected account; None for the newest snapshot, or for every day since the first that was
            read where the dataset is dated.
    """

    dataset: Dataset
    parameter: str = ACCOUNT
    days: Sequence[Days] | None = None


@dataclass(frozen=True)
class ListRequest:
    """The parameters of one request for a list.

    Attributes:
        part: The value of the dataset's split filter; None for the whole list.
        currency: The currency that amounts in the accounts' own currencies are converted to; None converts none.
        page: Counted from 1; a page past the last is empty.
        own_days: Those of the parameters that only this list takes, by name.
        as_of: The token of the moment that the list is pinned to; None reads it as it is.
    """

    selector: Selector
    start: date | None
    end: date | None
    part: str | None
    currency: str | None
    page: int
    per_page: int
    own_days: Mapping[str, date | None] = field(default_factory=dict)
    as_of: str | None = None

    @property
    def rows_of_page(self) -> Mapping[str, int]:
        """The parameters `offset` and `limit` of a statement."""
        return {"offset": min((self.page - 1) * self.per_page, LARGEST_INTEGER - self.per_page), "limit": self.per_page}


@dataclass(frozen=True)
class RowPage:
    """One page: its rows as comma-separated JSON objects, and the total of the list."""

    rows: bytes
    total: int


TableOf = Callable[[Dataset], sql.Composable]
"""Returns the item of FROM with the rows of a dataset: those that are stored, or those of an earlier moment."""


@dataclass(frozen=True)
class PageSource:
    """The SQL that computes a page from its stored rows.

    Attributes:
        text: Returns an item of FROM named `page`, which selects from `page`, and the ORDER BY.
        values: The parameters of the text.
        needs: Days of other datasets, whose rows it reads.
        state: An expression that changes with what it reads beside datasets.
    """

    text: Callable[[TableOf], sql.Composed]
    values: Mapping[str, object]
    needs: Sequence[Need] = ()
    state: LiteralString = "NULL"


@dataclass(frozen=True)
class PageQuery:
    """A page of a dataset's list, for accounts that are selected.

    Attributes:
        days: The days of each selected account; None for the newest snapshot of each.
        source: The SQL that computes the page; None answers the stored rows.
        snapshot: The moment that the list is pinned to; None reads it as it is.
    """

    dataset: Dataset
    list_request: ListRequest
    days: Sequence[Days] | None
    source: PageSource | None = None
    snapshot: str | None = None

    def values(self, selected: SelectedAccounts) -> dict[str, object]:
        """Return the parameters of the statements."""
        needs = [
            (need.dataset.name, account, days)
            for need in (self.source.needs if self.source is not None else ())
            for account, days in zip(selected.keys, need.days or (), strict=True)
        ]
        return {
            **_values(selected, self.days, self.list_request.currency),
            **(self.source.values if self.source is not None else {}),
            "needed_datasets": [dataset for dataset, _, _ in needs],
            "needed_accounts": [account for _, account, _ in needs],
            "needed_firsts": [days.first for _, _, days in needs],
            "needed_lasts": [days.last for _, _, days in needs],
            "snapshot": self.snapshot,
        }

    @property
    def other_states(self) -> tuple[LiteralString, ...]:
        """Expressions that change with what the page depends on beside loads."""
        of_source = (self.source.state,) if self.source is not None else ()
        return of_source if self.list_request.currency is None else (RATES, *of_source)


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

_SUMMED = (Kind.INTEGER, Kind.MONEY, Kind.NUMBER)
"""The kinds of columns that are added where rows of several parts are merged."""

_ROWS = """
WITH {chosen}
SELECT row_to_json(answered)::text, count(*) OVER ()
FROM (
    SELECT {fields}
    FROM (
        SELECT stored.*, chosen.zone, chosen.currency AS own_currency
        FROM {source}
        WHERE {condition}
        ORDER BY {order}
    ) AS page
) AS answered
"""

_INSIDE = sql.SQL("part.local_day BETWEEN chosen.first_day AND chosen.last_day").format()

# A load that was the first of a day found its rows as they were; rows that a later one brought are new or changed.
_INSIDE_OR_CHANGED = """(
    {inside} OR (
        part.load_id IN (
            SELECT load.id
            FROM platform.published_loads AS load
            JOIN chosen AS asked ON asked.account = load.account
            WHERE load.dataset = {dataset}
              AND (load.finished_at AT TIME ZONE asked.zone)::date BETWEEN asked.first_day AND asked.last_day
        )
        AND EXISTS (
            SELECT FROM platform.published_loads AS earlier
            WHERE earlier.dataset = {dataset} AND earlier.account = part.account AND earlier.id < part.load_id
              AND earlier.window_start <= part.local_day AND earlier.window_end > part.local_day
        )
    )
)"""

_PAGE = """
WITH {kept},
{chosen},
{state},
days AS MATERIALIZED ({days}),
counted AS (
    SELECT local_day, amount, (sum(amount) OVER (ORDER BY local_day) - amount)::bigint AS before FROM days
),
touched AS MATERIALIZED (
    SELECT min(local_day) AS first_day, max(local_day) AS last_day, min(before) AS skipped
    FROM counted
    WHERE before + amount > %(offset)s::bigint AND before < %(offset)s::bigint + %(limit)s AND {is_read}
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
       (SELECT string_agg(row_to_json(answered)::text, ',') FROM (SELECT {fields} FROM {page}) AS answered),
       {state_columns}
"""

# Rows of a pinned list are read only where no later load is to be left out.
_NONE_IS_LATER = "NOT EXISTS (SELECT FROM later_loads)"

# Where the account is a constant, the index returns the days in order, and only the rows of a day are sorted.
_OF_ONE_ACCOUNT = """(
        SELECT (%(zones)s::text[])[1] AS zone, (%(currencies)s::text[])[1] AS currency
    ) AS chosen
    JOIN {table} AS stored ON stored.account = (%(accounts)s::text[])[1]"""

_OF_ACCOUNTS = """chosen
    JOIN {table} AS stored
      ON stored.account = chosen.account AND stored.local_day BETWEEN chosen.first_day AND chosen.last_day
     AND stored.account = ANY(%(accounts)s::text[])"""

_OF_PARTS = """chosen
    CROSS JOIN LATERAL (
        SELECT {merged}
        FROM {table} AS part
        WHERE part.account = chosen.account AND {inside}
        {grouped}
    ) AS stored"""

_ON_PAGE = sql.SQL(
    "part.local_day BETWEEN chosen.first_day AND chosen.last_day AND part.local_day BETWEEN "
    "(SELECT first_day FROM touched) AND (SELECT last_day FROM touched)"
).format()

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
        FROM {rows} AS stored
        WHERE stored.account = chosen.account AND stored.local_day BETWEEN chosen.first_day AND chosen.last_day
          AND {of_part}
        GROUP BY stored.local_day
    ) AS counts
    GROUP BY counts.local_day
"""

_DISTINCT_KEYS = "(SELECT DISTINCT account, local_day, sku FROM {table})"

_CHOSEN = """chosen AS MATERIALIZED (
    SELECT account, zone, currency, {first_day} AS first_day, {last_day} AS last_day
    FROM unnest(
        %(accounts)s::text[], %(zones)s::text[], %(currencies)s::text[], %(first_days)s::date[], %(last_days)s::date[]
    ) AS requested (account, zone, currency, first_day, last_day)
)"""

EXACT_RATE: LiteralString = "((div(coalesce(other.per_euro, 1) * 1e40, coalesce(own.per_euro, 1)) + 1) * 1e-40)"
"""The factor from the currency of the rates `own` to that of the rates `other`, of the same day.

Rates are units for one euro, which therefore has no rate. Their quotient is rounded up at the 40th decimal: amounts
half-way between two cents stay there, and no other amount moves there. PostgreSQL's own division keeps fewer decimals,
and would round large amounts twice.

Every conversion of the service multiplies a sum by this factor, and rounds once, to the cent, half away from zero. An
amount of a list is the sum of its row, of all sales channels together; a figure of the statistics adds the converted
sums of days unrounded. So figures that are added after they were rounded may differ from the figure of the whole.
"""

_CONVERTED_PAGE = """(SELECT *, row_number() OVER () AS position FROM page) AS page
LEFT JOIN service.exchange_rates AS own ON own.day = page.local_day AND own.currency = page.own_currency
LEFT JOIN service.exchange_rates AS other ON other.day = page.local_day AND other.currency = %(currency)s
ORDER BY page.position"""

_CONVERTED: LiteralString = """CASE WHEN page.own_currency = %(currency)s THEN {exact} ELSE
    round({value} * {rate}, 2) END""".replace("{rate}", EXACT_RATE)

_MISSING_RATE = """
WITH {chosen}
SELECT rate_of.currency, min(needed.day)
FROM (
    SELECT DISTINCT stored.local_day AS day, chosen.currency
    FROM {rows}
    WHERE chosen.currency IS DISTINCT FROM %(currency)s
) AS needed
CROSS JOIN LATERAL (VALUES (needed.currency), (%(currency)s)) AS rate_of (currency)
LEFT JOIN service.exchange_rates AS rate ON rate.day = needed.day AND rate.currency = rate_of.currency
WHERE rate_of.currency IS DISTINCT FROM 'EUR' AND rate.per_euro IS NULL
GROUP BY rate_of.currency
"""

_NEWEST_DAY: LiteralString = """(
        SELECT max(day) FROM (
            SELECT max(local_day) AS day FROM {table} WHERE account = requested.account
            UNION ALL
            SELECT max(window_start) FROM platform.published_loads
            WHERE dataset = {dataset} AND account = requested.account AND NOT {is_left_out}
        ) AS snapshots
    )"""


async def read_page(connection: Connection, selected: SelectedAccounts, query: PageQuery) -> tuple[RowPage, ListState]:
    """Return a page of a dataset's list, and the state that it shows; total and rows are of one moment."""
    dataset, source, list_request = query.dataset, query.source, query.list_request
    zones = {account.zone_name for account in selected.accounts}
    # PostgreSQL writes timestamps in the session's zone, and reports that zone to its clients without a query.
    if len(zones) == 1 and {connection.info.parameter_status("TimeZone")} != zones:
        await connection.execute("SELECT set_config('TimeZone', %s, false)", (*zones,))
    values = {**query.values(selected), "part": list_request.part, **list_request.rows_of_page}

    async def read(is_kept: bool, later: list[int] | None = None) -> tuple[RowPage, ListState] | None:
        form = _PageForm(
            dataset,
            is_part=list_request.part is not None,
            is_one_account=len(selected.accounts) == 1,
            is_one_zone=len(zones) <= 1,
            is_converted=list_request.currency is not None,
            is_kept=is_kept,
            leaves_out=later is not None,
        )
        statement = _page_statement(form, source.text if source else None, query.other_states)
        row = await (await connection.execute(statement, {**values, "later": later}, prepare=False)).fetchone()
        assert row is not None
        is_current, total, rows, *state = row
        is_answer = is_current or state[-1]
        return (RowPage((rows or "").encode(), total), ListState(*state)) if is_answer else None

    answer = await answer_from_sums(connection, [dataset], selected, read)
    if not answer[1].has_later_loads:
        return answer
    async with connection.transaction():
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        datasets = [dataset.name, *(need.dataset.name for need in source.needs)] if source else [dataset.name]
        later = await (await connection.execute(LATER_LOADS, {**values, "datasets": datasets})).fetchone()
        pinned = await read(False, later[0] if later else [])
    assert pinned is not None
    return pinned


@asynccontextmanager
async def open_rows(
    connection: Connection, dataset: Dataset, selected: SelectedAccounts, chosen: ChosenRows
) -> AsyncIterator[AsyncServerCursor[TupleRow]]:
    """Open a cursor over rows as JSON objects, in the order of the list, each with the number of all rows.

    All rows are of one moment. The cursor ends with the transaction of the caller.
    """
    zones = {account.zone_name for account in selected.accounts}
    is_one_zone = len(zones) <= 1
    if zones and is_one_zone:
        await connection.execute("SELECT set_config('TimeZone', %s, true)", (*zones,))
    fields = [_field(column, is_one_zone=is_one_zone, is_converted=False) for column in dataset.columns]
    if chosen.with_currency:
        fields.append(sql.SQL("page.own_currency AS currency"))
    inside = _INSIDE
    if chosen.with_changes:
        inside = sql.SQL(_INSIDE_OR_CHANGED).format(inside=_INSIDE, dataset=sql.Literal(dataset.name))
    statement = sql.SQL(_ROWS).format(
        chosen=_chosen(dataset),
        fields=sql.SQL(", ").join(fields),
        source=_of_parts(dataset, sql.Identifier(SELLER, dataset.name), inside),
        condition=sql.SQL("true" if chosen.sku is None else "stored.sku = %(sku)s"),
        order=sql.SQL(", ").join(_order(dataset)),
    )
    values = {**_values(selected, [chosen.days] * len(selected.accounts), None), "sku": chosen.sku}
    async with connection.cursor("rows") as cursor:
        await cursor.execute(statement, values)
        yield cursor


async def missing_rates(
    connection: Connection, dataset: Dataset, selected: SelectedAccounts, *, days: Sequence[Days] | None, currency: str
) -> dict[str | None, date]:
    """Return the currencies without a rate to convert rows, each with the first such day."""
    rows = sql.SQL(_OF_ACCOUNTS).format(table=sql.Identifier(SELLER, dataset.name))
    statement = sql.SQL(_MISSING_RATE).format(chosen=_chosen(dataset), rows=rows)
    cursor = await connection.execute(statement, _values(selected, days, currency), prepare=False)
    return dict(await cursor.fetchall())


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
    """The facts that decide the text of a page's statement; what it leaves out are rows of the loads in `later`."""

    dataset: Dataset
    is_part: bool
    is_one_account: bool
    is_one_zone: bool
    is_converted: bool
    is_kept: bool
    leaves_out: bool

    @property
    def is_merged(self) -> bool:
        return not self.is_part and _merges_parts(self.dataset)

    def table_of(self, dataset: Dataset) -> sql.Composable:
        """Return the item of FROM with the rows of a dataset."""
        if not self.leaves_out:
            return sql.Identifier(SELLER, dataset.name)
        return sql.SQL("{} (%(later)s::bigint[])").format(sql.Identifier(HISTORY, f"{dataset.name}_without"))


@cache
def _page_statement(
    form: _PageForm, computed: Callable[[TableOf], sql.Composed] | None, other_states: Sequence[LiteralString]
) -> sql.Composed:
    dataset, table, of_part, counted_part = form.dataset, form.table_of(form.dataset), _EVERY, _EVERY
    if form.is_part and dataset.split_by is not None and dataset.split_by.column is not None:
        of_part = sql.SQL("stored.{} = %(part)s").format(sql.Identifier(dataset.split_by.column))
        counted_part = sql.SQL("counts.part = %(part)s").format()
    elif form.is_merged:
        counted_part = sql.SQL("counts.is_merged").format()
    days = sql.SQL(_KEPT_DAYS).format(dataset=sql.Literal(dataset.name), part=counted_part)
    if not form.is_kept:
        rows = sql.SQL(_DISTINCT_KEYS).format(table=table) if form.is_merged else table
        days = sql.SQL(_COUNTED_DAYS).format(rows=rows, of_part=of_part)
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
    stored = sql.SQL(_CONVERTED_PAGE if form.is_converted else "page").format()
    source = sql.SQL(_OF_ONE_ACCOUNT if form.is_one_account else _OF_ACCOUNTS).format(table=table)
    if form.is_merged:
        source = _of_parts(dataset, table, _ON_PAGE)
    return sql.SQL(_PAGE).format(
        kept=kept(dataset.name) if form.is_kept else sql.SQL(WITHOUT_SUMS),
        chosen=_chosen(dataset, form),
        state=state_items(dataset),
        days=days,
        is_read=sql.SQL("true" if form.leaves_out else _NONE_IS_LATER),
        columns=sql.SQL(", ").join(columns),
        source=source,
        of_part=of_part,
        order=sql.SQL(", ").join(_order(dataset, is_one_account=form.is_one_account)),
        fields=sql.SQL(", ").join(fields),
        page=computed(form.table_of) if computed else stored,
        state_columns=state_columns(other_states),
    )


def _merges_parts(dataset: Dataset) -> bool:
    return dataset.split_by is not None and dataset.split_by.is_merged


def _of_parts(dataset: Dataset, table: sql.Composable, inside: sql.Composable) -> sql.Composed:
    """Return the source of rows of which several parts that have the same key are one, with their amounts added.

    Most datasets have no parts, or parts without common keys.
    """
    columns: list[sql.Composable] = [sql.SQL("part.*")]
    grouped: sql.Composable = sql.SQL("")
    if _merges_parts(dataset):
        keys = [sql.Identifier("part", name) for name in dict.fromkeys(("account", LOCAL_DAY, *dataset.key))]
        grouped = sql.SQL("GROUP BY {}").format(sql.SQL(", ").join(keys))
        columns = [*keys]
        for column in dataset.columns:
            if not column.key:
                summed = sql.SQL("sum" if column.kind in _SUMMED else "max")
                value = sql.SQL("{}({}) AS {}")
                columns.append(value.format(summed, sql.Identifier("part", column.name), sql.Identifier(column.name)))
    return sql.SQL(_OF_PARTS).format(table=table, inside=inside, merged=sql.SQL(", ").join(columns), grouped=grouped)


def _chosen(dataset: Dataset, form: _PageForm | None = None) -> sql.Composable:
    first_day: sql.Composable = sql.SQL("requested.first_day")
    last_day: sql.Composable = sql.SQL("requested.last_day")
    if not dataset.is_dated:
        first_day = last_day = newest_day(dataset, form.table_of(dataset) if form and form.leaves_out else None)
    return sql.SQL(_CHOSEN).format(first_day=first_day, last_day=last_day)


def newest_day(dataset: Dataset, earlier: sql.Composable | None = None) -> sql.Composable:
    """Return the day of the newest snapshot of `requested.account`, which may be empty.

    Args:
        earlier: The rows without the loads of the parameter `later`; by default all that are stored.
    """
    return sql.SQL(_NEWEST_DAY).format(
        table=earlier or sql.Identifier(SELLER, dataset.name),
        dataset=sql.Literal(dataset.name),
        is_left_out=sql.SQL("false" if earlier is None else "id = ANY (%(later)s)"),
    )


def _order(dataset: Dataset, *, is_one_account: bool = False) -> list[sql.Composable]:
    """Return an order in which only equal rows are tied: the day, the dataset's own order, and all other columns.

    The address of a row would not do, because a row has another one once it moved to schema `history`.
    """
    own, others = dataset.order, (column.name for column in dataset.columns)
    names = (LOCAL_DAY, *own, *(() if is_one_account else ("account",)), *others)
    texts = {"account", *(column.name for column in dataset.columns if column.kind is Kind.TEXT)}
    return [
        sql.SQL('{} COLLATE "C"' if name in texts else "{}").format(sql.Identifier("stored", name))
        for name in dict.fromkeys(names)
    ]


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
