"""The statistics dashboard in SQL: one statement counts, sums and encodes a page.

Stored rows are summed by SKU and period first, and only then named and grouped as asked: the sums of every grouping
are those of the same parts. An amount in another currency is converted at the rate of its day and rounded to cents
before it is summed, row by row of the daily product sales, and fees by day and SKU; so the sums agree then, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from types import MappingProxyType
from typing import LiteralString

from psycopg import sql

from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.inventory import INVENTORY
from seller_platform.contract.datasets.warehouse import WAREHOUSE_STOCK
from seller_platform.service.access import SelectedAccounts
from seller_platform.service.parameters import LARGEST_INTEGER
from seller_platform.service.queries import RowPage, newest_day
from seller_platform.service.store import Connection


@dataclass(frozen=True)
class Span:
    """The days of one account that are summed, and those before them that a trend compares with; ends inclusive."""

    first: date
    last: date
    before_first: date | None = None
    before_last: date | None = None


@dataclass(frozen=True)
class Grouping:
    """What one row of the answer stands for.

    Attributes:
        dimension: `sku`, `asin` or `parent_asin`; None where a row stands for a period alone.
        period: `Date`, `Week`, `Month`, `Quarter`, `Semester` or `Year`; None where it stands for all days asked for.
    """

    dimension: str | None
    period: str | None

    @property
    def is_combined(self) -> bool:
        return self.dimension is not None and self.period is not None


# Days of the proleptic calendar count from a Monday.
_PERIODS: MappingProxyType[str | None, LiteralString] = MappingProxyType(
    {
        None: "date '0001-01-01'",
        "Date": "stored.local_day",
        "Week": "(stored.local_day - (stored.local_day - date '0001-01-01') %% 7)",
        "Month": "date_trunc('month', stored.local_day::timestamp)::date",
        "Quarter": "date_trunc('quarter', stored.local_day::timestamp)::date",
        "Semester": "(date_trunc('year', stored.local_day::timestamp)"
        " + CASE WHEN date_part('month', stored.local_day) > 6 THEN interval '6 months' ELSE interval '0' END)::date",
        "Year": "date_trunc('year', stored.local_day::timestamp)::date",
    }
)

_LABELS: MappingProxyType[str, LiteralString] = MappingProxyType(
    {
        "Date": "to_char(page.period::timestamp, 'YYYY-MM-DD')",
        "Week": """to_char(page.period::timestamp, '"Week" FMIW IYYY')""",
        "Month": "to_char(page.period::timestamp, 'FMMonth YYYY')",
        "Quarter": """to_char(page.period::timestamp, '"Q"Q YYYY')""",
        "Semester": "CASE WHEN extract(month FROM page.period) > 6 THEN 'H2 ' ELSE 'H1 ' END"
        " || to_char(page.period::timestamp, 'YYYY')",
        "Year": "to_char(page.period::timestamp, 'YYYY')",
    }
)

_STEPS: MappingProxyType[str, LiteralString] = MappingProxyType(
    {"Date": "1 day", "Week": "7 days", "Month": "1 month", "Year": "1 year"}
)

# Sums of a year of every day and product stay in memory; compiling a statement that runs half a second is a loss; and
# what the planner takes for one row are thousands, which nested loops would compare with one another.
_SETTINGS = "SET LOCAL work_mem = '128MB'; SET LOCAL jit = off; SET LOCAL enable_nestloop = off"

_NUMBER = "^-?[0-9]{1,30}([.][0-9]{1,30})?$"

_CHOSEN = """
WITH chosen AS MATERIALIZED (
    SELECT account, coalesce(currency, '') AS currency, first_day, last_day, before_last,
           coalesce(before_first, first_day) AS summed_from,
           {cost_day} AS cost_day, {stock_day} AS stock_day, {shelf_day} AS shelf_day
    FROM unnest(
        %(accounts)s::text[], %(currencies)s::text[], %(first_days)s::date[], %(last_days)s::date[],
        %(before_first_days)s::date[], %(before_last_days)s::date[]
    ) AS asked (account, currency, first_day, last_day, before_first, before_last)
),
rates AS MATERIALIZED (
    -- Rates count units for one euro, which therefore has none.
    SELECT own.day, own.currency, other.per_euro AS times, own.per_euro AS parts
    FROM (
        SELECT day, currency, per_euro FROM service.exchange_rates WHERE currency <> 'EUR'
        UNION ALL SELECT DISTINCT day, 'EUR', 1 FROM service.exchange_rates
    ) AS own
    JOIN (
        SELECT day, currency, per_euro FROM service.exchange_rates WHERE currency <> 'EUR'
        UNION ALL SELECT DISTINCT day, 'EUR', 1 FROM service.exchange_rates
    ) AS other ON other.day = own.day AND other.currency = %(target)s::text
    WHERE own.currency <> %(target)s::text AND own.day BETWEEN %(summed_from)s::date AND %(last_day)s::date
),
elements AS MATERIALIZED (
    SELECT period.account, period.sku, period.from_date, coalesce(period.to_date, 'infinity') AS to_date,
           coalesce(element ->> 'currency', chosen.currency) AS currency, chosen.currency AS own_currency,
           CASE WHEN replace(element ->> 'amount', ',', '') ~ %(number)s
                THEN replace(element ->> 'amount', ',', '')::numeric END AS amount
    FROM chosen
    JOIN seller.cost_periods AS period ON period.account = chosen.account AND period.local_day = chosen.cost_day
    CROSS JOIN LATERAL jsonb_array_elements(
        CASE WHEN jsonb_typeof(period.cost_elements) = 'array' THEN period.cost_elements ELSE '[]' END
    ) AS element
),
own_elements AS (
    SELECT account, sku, from_date, to_date, sum(amount) AS amount
    FROM elements
    WHERE currency = own_currency
    GROUP BY account, sku, from_date, to_date
),
edges AS (
    SELECT account, sku, from_date AS day FROM own_elements
    UNION SELECT account, sku, to_date + 1 FROM own_elements
),
steps AS (
    SELECT account, sku, edges.day, sum(own_elements.amount) AS amount
    FROM edges
    LEFT JOIN own_elements USING (account, sku)
    WHERE edges.day BETWEEN own_elements.from_date AND own_elements.to_date
    GROUP BY account, sku, edges.day
    UNION ALL
    SELECT account, sku, to_date + 1, NULL
    FROM own_elements AS ended
    WHERE NOT EXISTS (
        SELECT FROM own_elements AS other
        WHERE other.account = ended.account AND other.sku = ended.sku
          AND ended.to_date + 1 BETWEEN other.from_date AND other.to_date
    )
),
costs AS MATERIALIZED (
    SELECT account, sku, array_agg(day ORDER BY day) AS days, array_agg(amount ORDER BY day) AS amounts
    FROM steps
    GROUP BY account, sku
)"""

# What is sold is looked up once per row: what the product costs, and in a product view which row it counts in.
_NAMED = """,
named AS MATERIALIZED (
    SELECT DISTINCT ON (account, sku) account, sku, asin, parent_asin, product_name, buybox_price, sales_rank
    FROM (
        SELECT account, sku, asin, coalesce(parent_asin, asin) AS parent_asin, product_name, buybox_price, sales_rank,
               1 AS choice, NULL::date AS day
        FROM chosen JOIN service.products USING (account)
        UNION ALL
        SELECT stored.account, stored.sku, stored.asin, stored.asin, stored.product_name, NULL, NULL, 2, NULL
        FROM chosen
        JOIN seller.inventory AS stored ON stored.account = chosen.account AND stored.local_day = chosen.stock_day
        {strangers}
    ) AS known
    ORDER BY account, sku, choice, day DESC, asin, product_name
),
products AS MATERIALIZED (
    SELECT named.*, dense_rank() OVER (ORDER BY {dimension} COLLATE "C")::integer AS place, {dimension} AS dimension,
           costs.days, costs.amounts
    FROM named
    LEFT JOIN costs USING (account, sku)
)"""

# Products of which neither the service nor the newest stock knows a name, as their latest sales call them.
_STRANGERS: LiteralString = """
        UNION ALL
        SELECT * FROM (
            SELECT DISTINCT ON (account, sku) account, sku, asin, asin, product_name, NULL::numeric, NULL::bigint, 3,
                   local_day
            FROM seller.daily_product_sales
            WHERE account = ANY(%(accounts)s) AND local_day BETWEEN %(summed_from)s::date AND %(last_day)s::date
            ORDER BY account, sku, local_day DESC, asin, product_name
        ) AS sold
        UNION ALL
        SELECT DISTINCT stored.account, stored.sku, NULL, NULL, NULL, NULL::numeric, NULL::bigint, 4, NULL::date
        FROM seller.transactions AS stored
        WHERE stored.account = ANY(%(accounts)s)
          AND stored.local_day BETWEEN %(summed_from)s::date AND %(last_day)s::date
          AND stored.transaction_type = 'Fee' AND stored.amount IS NOT NULL AND stored.sku IS NOT NULL"""

_SUMMED = """,
other_elements AS MATERIALIZED (
    SELECT * FROM elements WHERE currency <> own_currency AND amount IS NOT NULL
),
charged AS MATERIALIZED (
    SELECT account, local_day, currency, sku, -sum(amount) AS amount
    FROM seller.transactions
    WHERE account = ANY(%(accounts)s) AND local_day BETWEEN %(summed_from)s::date AND %(last_day)s::date
      AND transaction_type = 'Fee' AND amount IS NOT NULL
    GROUP BY account, local_day, currency, sku
),
entries AS (
    SELECT {place} AS place, {period} AS period, stored.local_day >= chosen.first_day AS is_asked,
           stored.units_ordered AS units, {sales} AS sales, {cost} AS cost, NULL::numeric AS fees
    FROM seller.daily_product_sales AS stored
    JOIN chosen ON chosen.account = stored.account
    {sold_joined}
    WHERE stored.account = ANY(%(accounts)s)
      AND stored.local_day BETWEEN %(summed_from)s::date AND %(last_day)s::date AND {is_inside}
    UNION ALL
    SELECT {place}, {period}, stored.local_day >= chosen.first_day, NULL, NULL,
           CASE WHEN other.currency = %(target)s::text THEN stored.units_ordered * other.amount
                WHEN stored.units_ordered <> 0 THEN
                    coalesce(round(stored.units_ordered * other.amount * rates.times / rates.parts, 2), 'NaN') END,
           NULL
    FROM other_elements AS other
    JOIN chosen ON chosen.account = other.account
    JOIN seller.daily_product_sales AS stored
      ON stored.account = other.account AND stored.sku = other.sku
     AND stored.local_day BETWEEN other.from_date AND other.to_date
    {joined}
    LEFT JOIN rates ON rates.day = stored.local_day AND rates.currency = other.currency
    WHERE stored.account = ANY(%(accounts)s)
      AND stored.local_day BETWEEN %(summed_from)s::date AND %(last_day)s::date AND {is_inside}
    UNION ALL
    SELECT {place}, {period}, stored.local_day >= chosen.first_day, NULL, NULL, NULL,
           CASE WHEN coalesce(stored.currency, chosen.currency) = %(target)s::text THEN stored.amount
                ELSE coalesce(round(stored.amount * rates.times / rates.parts, 2), 'NaN') END
    FROM charged AS stored
    JOIN chosen ON chosen.account = stored.account
    {joined}
    LEFT JOIN rates
      ON rates.day = stored.local_day AND rates.currency = coalesce(stored.currency, chosen.currency)
    WHERE {is_charged} AND {is_inside}
),
summed AS MATERIALIZED (
    SELECT place, period, is_asked, coalesce(sum(units), 0)::bigint AS units, coalesce(sum(sales), 0) AS sales,
           coalesce(sum(cost), 0) AS cost, coalesce(sum(fees), 0) AS fees
    FROM entries
    GROUP BY place, period, is_asked
)"""

_COMBINED = """,
grouped AS (
    SELECT *, NULL::bigint AS units_before, NULL::numeric AS sales_before, NULL::numeric AS profit_before
    FROM summed WHERE is_asked
)"""

_PRODUCTS = """,
grouped AS MATERIALIZED (
    SELECT asked.*, before.units AS units_before, before.sales AS sales_before,
           before.sales - before.cost - before.fees AS profit_before
    FROM summed AS asked
    LEFT JOIN summed AS before ON before.place = asked.place AND NOT before.is_asked
    WHERE asked.is_asked
)"""

_DATES = """,
days AS (
    SELECT period, sum(units) AS units, sum(sales) AS sales, sum(cost) AS cost, sum(fees) AS fees
    FROM summed
    GROUP BY period
),
grouped AS MATERIALIZED (
    SELECT asked.*, before.units AS units_before, before.sales AS sales_before,
           before.sales - before.cost - before.fees AS profit_before
    FROM summed AS asked
    LEFT JOIN days AS before ON before.period = (asked.period - {step}::interval)::date
    WHERE asked.is_asked
)"""

_ANSWER = """,
identities AS (
    SELECT {identity}
),
page AS MATERIALIZED (
    SELECT *, round(sales, greatest(2, min_scale(sales))) AS product_sales,
           round(cost, greatest(2, min_scale(cost))) AS product_cost,
           round(fees, greatest(2, min_scale(fees))) AS platform_fees,
           round(sales - cost - fees, greatest(2, min_scale(sales - cost - fees))) AS profit
    FROM (
        SELECT * FROM grouped ORDER BY period, place OFFSET %(offset)s::bigint LIMIT %(limit)s
    ) AS asked_page
    LEFT JOIN identities USING (place)
){extras}
SELECT whole.total, whole.lacks_rates, whole.has_strangers,
       (SELECT string_agg(row_to_json(answered)::text, ',') FROM (
           SELECT {fields} FROM page {joined} ORDER BY page.period, page.place
       ) AS answered)
FROM (
    SELECT count(*) AS total, coalesce(bool_or('NaN' IN (sales, cost, fees)), false) AS lacks_rates,
           coalesce(bool_or({is_strange}), false) AS has_strangers
    FROM summed
    WHERE is_asked
) AS whole
"""

_FIELDS: tuple[LiteralString, ...] = (
    "page.units AS units_ordered",
    "page.product_sales",
    "page.product_cost",
    "page.platform_fees",
    "page.profit",
    "round(100 * page.profit / nullif(page.product_cost, 0), 2) AS roi",
    "round(100 * page.profit / nullif(page.product_sales, 0), 2) AS profit_margin",
)

_TREND: LiteralString = """json_build_object(
    'units_ordered', round(100 * (units - units_before)::numeric / nullif(abs(units_before), 0), 2),
    'product_sales', round(100 * (sales - sales_before) / abs(nullif(nullif(sales_before, 'NaN'), 0)), 2),
    'profit', round(
        100 * (sales - cost - fees - profit_before) / abs(nullif(nullif(profit_before, 'NaN'), 0)), 2)
) AS trend"""

_STOCK: LiteralString = """,
stock AS (
    SELECT products.place, sum(stored.afn_fulfillable_quantity) AS inventory
    FROM chosen
    JOIN seller.inventory AS stored ON stored.account = chosen.account AND stored.local_day = chosen.stock_day
    JOIN products ON products.account = stored.account AND products.sku = stored.sku
    GROUP BY 1
),
shelves AS (
    SELECT products.place, sum(stored.quantity) AS local_inventory
    FROM chosen
    JOIN seller.warehouse_stock AS stored ON stored.account = chosen.account AND stored.local_day = chosen.shelf_day
    JOIN products ON products.account = stored.account AND products.sku = stored.sku
    GROUP BY 1
),
empty_days AS (
    SELECT place, count(*) FILTER (WHERE units = 0) AS out_of_stock_days
    FROM (
        SELECT products.place, stored.local_day, sum(stored.afn_fulfillable_quantity) AS units
        FROM chosen
        JOIN seller.inventory AS stored
          ON stored.account = chosen.account AND stored.local_day BETWEEN chosen.first_day AND chosen.last_day
        JOIN products ON products.account = stored.account AND products.sku = stored.sku
        GROUP BY 1, 2
    ) AS days
    GROUP BY 1
),
offers AS (
    SELECT products.place, min(products.sales_rank) AS sales_rank,
           min(CASE WHEN chosen.currency = %(target)s::text THEN products.buybox_price
                    ELSE round(products.buybox_price * rate.times / rate.parts, 2) END) AS buybox_price
    FROM products
    JOIN chosen USING (account)
    LEFT JOIN (SELECT DISTINCT ON (currency) * FROM rates ORDER BY currency, day DESC) AS rate
      ON rate.currency = chosen.currency
    GROUP BY 1
)"""

_STOCK_FIELDS: tuple[LiteralString, ...] = (
    "round(page.units::numeric / %(days)s, 2) AS velocity",
    "empty_days.out_of_stock_days",
    "stock.inventory",
    "shelves.local_inventory",
    "round(offers.buybox_price, greatest(2, min_scale(offers.buybox_price))) AS buybox_price",
    "offers.sales_rank",
)

_STOCK_JOINED: LiteralString = """
    LEFT JOIN stock ON stock.place = page.place
    LEFT JOIN shelves ON shelves.place = page.place
    LEFT JOIN empty_days ON empty_days.place = page.place
    LEFT JOIN offers ON offers.place = page.place"""

_IDENTITY: LiteralString = """place, min(dimension) AS dimension, min(asin) AS asin,
           min(product_name COLLATE "C") AS product_name
    FROM products GROUP BY place"""

_IDENTITIES: MappingProxyType[str, tuple[LiteralString, ...]] = MappingProxyType(
    {
        "sku": ("page.dimension AS sku", "page.asin", "page.product_name"),
        "asin": ("page.dimension AS asin", "page.product_name"),
        "parent_asin": ("page.dimension AS parent_asin", "page.product_name"),
    }
)

_INSIDE: LiteralString = """stored.local_day BETWEEN chosen.summed_from AND chosen.last_day
      AND (stored.local_day >= chosen.first_day OR stored.local_day <= chosen.before_last)"""

_CONVERTED: LiteralString = """CASE WHEN chosen.currency = %(target)s::text THEN {amount}
                WHEN {amount} IS NOT NULL THEN coalesce(round({amount} * rates.times / rates.parts, 2), 'NaN') END"""

_OWN_RATE: LiteralString = """
    LEFT JOIN rates ON rates.day = stored.local_day AND rates.currency = chosen.currency"""

_SALES: LiteralString = "stored.product_sales"
_COST: LiteralString = "stored.units_ordered * products.amounts[width_bucket(stored.local_day, products.days)]"

_MISSING_RATES = """
WITH chosen AS MATERIALIZED (
    SELECT account, coalesce(currency, '') AS currency, first_day, last_day, {cost_day} AS cost_day
    FROM unnest(%(accounts)s::text[], %(currencies)s::text[], %(first_days)s::date[], %(last_days)s::date[])
         AS asked (account, currency, first_day, last_day)
),
sold AS MATERIALIZED (
    SELECT DISTINCT stored.account, stored.local_day AS day
    FROM chosen
    JOIN seller.daily_product_sales AS stored
      ON stored.account = chosen.account AND stored.local_day BETWEEN chosen.first_day AND chosen.last_day
),
needed AS (
    SELECT chosen.currency, sold.day FROM chosen JOIN sold USING (account)
    UNION
    SELECT coalesce(stored.currency, chosen.currency), stored.local_day
    FROM chosen
    JOIN seller.transactions AS stored
      ON stored.account = chosen.account AND stored.local_day BETWEEN chosen.first_day AND chosen.last_day
     AND stored.transaction_type = 'Fee' AND stored.amount IS NOT NULL
    UNION
    SELECT used.currency, sold.day
    FROM (
        SELECT period.account, element ->> 'currency' AS currency, min(period.from_date) AS first_day,
               max(coalesce(period.to_date, 'infinity')) AS last_day
        FROM chosen
        JOIN seller.cost_periods AS period ON period.account = chosen.account AND period.local_day = chosen.cost_day
        CROSS JOIN LATERAL jsonb_array_elements(
            CASE WHEN jsonb_typeof(period.cost_elements) = 'array' THEN period.cost_elements ELSE '[]' END
        ) AS element
        WHERE element ->> 'currency' IS NOT NULL
        GROUP BY 1, 2
    ) AS used
    JOIN sold ON sold.account = used.account AND sold.day BETWEEN used.first_day AND used.last_day
)
SELECT nullif(wanted.currency, ''), min(needed.day)
FROM needed
CROSS JOIN LATERAL (VALUES (needed.currency), (%(target)s::text)) AS wanted (currency)
LEFT JOIN service.exchange_rates AS rate ON rate.day = needed.day AND rate.currency = wanted.currency
WHERE needed.currency <> %(target)s::text AND wanted.currency <> 'EUR' AND rate.per_euro IS NULL
GROUP BY 1
ORDER BY 2, 1
"""

_WITHOUT_PRODUCTS = """
SELECT account FROM unnest(%(accounts)s::text[]) AS asked (account)
WHERE NOT EXISTS (SELECT FROM service.products WHERE products.account = asked.account) LIMIT 1
"""


@dataclass(frozen=True)
class Statistics:
    """A page of statistics.

    Attributes:
        page: Its rows, and how many the list has.
        lacks_rates: Whether an exchange rate was missing; then the rows are of no use.
    """

    page: RowPage
    lacks_rates: bool


@dataclass(frozen=True)
class _Plan:
    """What decides how the statement is written."""

    grouping: Grouping
    is_converted: bool
    is_one_account: bool
    names_strangers: bool = False


async def read_statistics(
    connection: Connection,
    selected: SelectedAccounts,
    grouping: Grouping,
    *,
    spans: Sequence[Span],
    target: str,
    is_converted: bool,
    page: int,
    per_page: int,
) -> Statistics:
    """Return a page of statistics; total and rows are of one moment.

    Args:
        spans: The days of each selected account.
        target: The currency of all amounts.
        is_converted: Whether some of the accounts keep another one.
        page: Counted from 1; a page past the last is empty.
    """
    values = {
        **_values(selected, spans, target),
        "offset": min((page - 1) * per_page, LARGEST_INTEGER - per_page),
        "limit": per_page,
    }
    plan = _Plan(grouping, is_converted, is_one_account=len(selected.accounts) == 1)
    async with connection.transaction():
        await connection.execute(_SETTINGS)
        total, lacks_rates, has_strangers, rows = await _fetch(connection, plan, values)
        if has_strangers:
            plan = replace(plan, names_strangers=True)
            total, lacks_rates, _, rows = await _fetch(connection, plan, values)
    return Statistics(RowPage((rows or "").encode(), total), lacks_rates)


async def _fetch(connection: Connection, plan: _Plan, values: Mapping[str, object]) -> tuple[int, bool, bool, str]:
    found = await (await connection.execute(_statement(plan), values, prepare=False)).fetchone()
    return found if found is not None else (0, False, False, "")


async def rates_lacking(
    connection: Connection, selected: SelectedAccounts, *, spans: Sequence[Span], target: str
) -> dict[str | None, date]:
    """Return the currencies of which a rate is missing to convert amounts, each with the first such day."""
    statement = sql.SQL(_MISSING_RATES).format(cost_day=newest_day(COST_PERIODS))
    found = await connection.execute(statement, _values(selected, spans, target), prepare=False)
    return dict(await found.fetchall())


async def knows_parents(connection: Connection, selected: SelectedAccounts) -> bool:
    """Whether the parents of the products of all selected accounts are known: a replica's are not."""
    values = {"accounts": [account.key for account in selected.accounts]}
    return await (await connection.execute(_WITHOUT_PRODUCTS, values)).fetchone() is None


def _values(selected: SelectedAccounts, spans: Sequence[Span], target: str) -> dict[str, object]:
    return {
        "accounts": [account.key for account in selected.accounts],
        "currencies": [account.currency_code for account in selected.accounts],
        "first_days": [span.first for span in spans],
        "last_days": [span.last for span in spans],
        "before_first_days": [span.before_first for span in spans],
        "before_last_days": [span.before_last for span in spans],
        "summed_from": min((span.before_first or span.first for span in spans), default=None),
        "last_day": max((span.last for span in spans), default=None),
        "days": max((1 + (span.last - span.first).days for span in spans), default=1),
        "target": target,
        "number": _NUMBER,
    }


@cache
def _statement(plan: _Plan) -> sql.Composed:
    return _chosen() + _products(plan) + _sums(plan) + _groups(plan.grouping) + _answer(plan.grouping)


def _chosen() -> sql.Composed:
    days = {"cost_day": COST_PERIODS, "stock_day": INVENTORY, "shelf_day": WAREHOUSE_STOCK}
    return sql.SQL(_CHOSEN).format(**{name: newest_day(dataset) for name, dataset in days.items()})


def _products(plan: _Plan) -> sql.Composed:
    if plan.grouping.dimension is None:
        return sql.Composed([])
    strangers = sql.SQL(_STRANGERS if plan.names_strangers else "")
    return sql.SQL(_NAMED).format(dimension=sql.Identifier(plan.grouping.dimension), strangers=strangers)


def _sums(plan: _Plan) -> sql.Composed:
    is_by_product = plan.grouping.dimension is not None
    looked_up = sql.SQL("LEFT JOIN {} AS products ON {}").format(
        sql.Identifier("products" if is_by_product else "costs"),
        # Comparing texts is what takes longest, so what is known to be equal is not compared.
        sql.SQL(
            "products.sku = stored.sku"
            if plan.is_one_account
            else "products.account = stored.account AND products.sku = stored.sku"
        ),
    )
    amount = sql.SQL(_CONVERTED if plan.is_converted else "{amount}")
    return sql.SQL(_SUMMED).format(
        place=sql.SQL("products.place" if is_by_product else "NULL::integer"),
        period=sql.SQL(_PERIODS[plan.grouping.period]),
        sales=amount.format(amount=sql.SQL(_SALES)),
        cost=amount.format(amount=sql.SQL(_COST)),
        sold_joined=looked_up + sql.SQL(_OWN_RATE if plan.is_converted else ""),
        joined=looked_up if is_by_product else sql.SQL(""),
        is_charged=sql.SQL("stored.sku IS NOT NULL" if is_by_product else "true"),
        is_inside=sql.SQL(_INSIDE),
    )


def _groups(grouping: Grouping) -> sql.Composed:
    if grouping.is_combined:
        return sql.Composed([sql.SQL(_COMBINED)])
    if grouping.period is None:
        return sql.Composed([sql.SQL(_PRODUCTS)])
    return sql.SQL(_DATES).format(step=sql.Literal(_STEPS[grouping.period]))


def _answer(grouping: Grouping) -> sql.Composed:
    is_by_product, is_by_period = grouping.dimension is not None, grouping.period is not None
    has_stock = is_by_product and not is_by_period
    fields: list[LiteralString] = []
    if grouping.dimension is not None:
        fields += _IDENTITIES[grouping.dimension]
    if grouping.period is not None:
        fields.append(f"{_LABELS[grouping.period]} AS date")
    fields += [*_FIELDS, *(_STOCK_FIELDS if has_stock else ()), *(() if grouping.is_combined else (_TREND,))]
    return sql.SQL(_ANSWER).format(
        identity=sql.SQL(_IDENTITY if is_by_product else "NULL::integer AS place WHERE false"),
        is_strange=sql.SQL("place IS NULL" if is_by_product else "false"),
        extras=sql.SQL(_STOCK if has_stock else ""),
        joined=sql.SQL(_STOCK_JOINED if has_stock else ""),
        fields=sql.SQL(", ").join(map(sql.SQL, fields)),
    )
