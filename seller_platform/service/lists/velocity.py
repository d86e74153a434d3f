"""Computes velocity and what follows from it for the inventory list, by `VELOCITY_RULES`."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import LiteralString

from psycopg import sql

from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES
from seller_platform.contract.datasets.stock import INVENTORY
from seller_platform.service.access import SelectedAccounts
from seller_platform.service.errors import InvalidParametersError
from seller_platform.service.http.parameters import Parameter
from seller_platform.service.lists.page_queries import Days, Need, PageSource, TableOf

VELOCITY_START = Parameter[date](
    "velocity_start_date",
    "First day of those over which velocity is computed; by default 29 days before the last.",
    date,
)
VELOCITY_END = Parameter[date](
    "velocity_end_date", "Last day of those; by default today, if a first one is sent.", date
)

_DEFAULT_SPAN = timedelta(days=29)
_COVER_DAYS = 30

VELOCITY_RULES = f"""\
`velocity_30_days` is over 30 days up to the snapshot, as it is stored, unless `velocity_start_date` or \
`velocity_end_date` asks for others; the name stays. It is then the units ordered in all channels on those days, \
divided by their number, to two decimals: a first day alone means up to today, a last day alone the \
{_DEFAULT_SPAN.days + 1} days that end with it. Everything below follows the same days.

`days_of_stock` is how many whole days the fulfillable units last at that velocity; null where it is 0, for then \
they last for ever.

`restock_date` is the day on which the fulfillable units last just as long as the product's lead time: the day of \
the snapshot where they do not last that long, and null where they last for ever. `restock_quantity_suggested` is \
what the lead time and {_COVER_DAYS} days more take at that velocity, rounded up, less the units that are \
fulfillable or inbound, and never below 0. Where the lead time of a product is not known, as in a replica when other \
days are asked for, both are null."""

_SOURCE = """(
    SELECT {columns}, page.position
    FROM (SELECT *, row_number() OVER () AS position FROM page) AS page
    LEFT JOIN (
        SELECT requested.account, sold.sku, requested.length, sum(sold.units_ordered) AS units
        FROM unnest(
            %(accounts)s::text[], %(velocity_first)s::date[], %(velocity_last)s::date[], %(velocity_days)s::int[]
        ) AS requested (account, first_day, last_day, length)
        JOIN {sales} AS sold
          ON sold.account = requested.account AND sold.local_day BETWEEN requested.first_day AND requested.last_day
         AND sold.account = ANY(%(accounts)s::text[])
        GROUP BY requested.account, sold.sku, requested.length
    ) AS sales ON sales.account = page.account AND sales.sku = page.sku
    LEFT JOIN service.products AS product ON product.account = page.account AND product.sku = page.sku
    CROSS JOIN LATERAL (
        SELECT round(coalesce(sales.units::numeric / sales.length, 0), 2) AS velocity
    ) AS speed
    CROSS JOIN LATERAL (
        SELECT floor(page.afn_fulfillable_quantity / nullif(speed.velocity, 0)) AS days_of_stock
    ) AS range
    CROSS JOIN LATERAL (
        SELECT range.days_of_stock - product.lead_time_days AS days_to_wait,
               ceil(speed.velocity * (product.lead_time_days + {cover}))
               - page.afn_fulfillable_quantity - page.afn_inbound_quantity AS missing
    ) AS advice
) AS page
ORDER BY page.position"""

_PRODUCTS: LiteralString = """(
    SELECT coalesce(bit_xor(hashtextextended(concat_ws('|', account, sku, lead_time_days), 0)), 0)
    FROM service.products WHERE account = ANY (%(accounts)s::text[])
)"""

_COMPUTED: Mapping[str, LiteralString] = {
    "velocity_30_days": "speed.velocity",
    "days_of_stock": "range.days_of_stock",
    # Null after the year 9999, and without a lead time: greatest() alone would ignore the null.
    "restock_date": "CASE WHEN advice.days_to_wait <= date '9999-12-31' - page.local_day "
    "THEN page.local_day + greatest(0, advice.days_to_wait)::integer END",
    "restock_quantity_suggested": "CASE WHEN advice.missing > 0 THEN advice.missing ELSE advice.missing * 0 END",
}


def velocity_source(selected: SelectedAccounts, sent: Mapping[str, date | None], now: datetime) -> PageSource | None:
    """Return the SQL of the inventory's pages, if days for the velocity were sent.

    Raises:
        InvalidParametersError: The first day lies after the last.
    """
    start, end = sent.get(VELOCITY_START.name), sent.get(VELOCITY_END.name)
    if start is None and end is None:
        return None
    lasts = [end or account.today(now) for account in selected.accounts]
    if start and any(start <= last for last in lasts):
        # Where it is tomorrow in the zone of an account, that account has sold nothing since.
        lasts = [max(start, last) if end is None else last for last in lasts]
    firsts = [start or max(date.min + _DEFAULT_SPAN, last) - _DEFAULT_SPAN for last in lasts]
    for first, last in zip(firsts, lasts, strict=True):
        if first > last:
            raise InvalidParametersError({VELOCITY_START.name: [f"is {first}, after the last day, {last}"]})
    values = {
        "velocity_first": firsts,
        "velocity_last": lasts,
        "velocity_days": [(last - first).days + 1 for first, last in zip(firsts, lasts, strict=True)],
    }
    need = Need(DAILY_PRODUCT_SALES, VELOCITY_START.name, list(map(Days, firsts, lasts)))
    return PageSource(_source, values, (need,), _PRODUCTS)


def _source(table_of: TableOf) -> sql.Composed:
    columns: list[sql.Composable] = [
        sql.SQL("{} AS {}").format(
            sql.SQL(_COMPUTED[column.name]) if column.name in _COMPUTED else sql.Identifier("page", column.name),
            sql.Identifier(column.name),
        )
        for column in INVENTORY.columns
    ]
    return sql.SQL(_SOURCE).format(
        columns=sql.SQL(", ").join(columns), sales=table_of(DAILY_PRODUCT_SALES), cover=sql.Literal(_COVER_DAYS)
    )
