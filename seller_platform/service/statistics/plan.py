"""Plans a statement of statistics: its days, its grouping, its parameters and the names of products."""

from calendar import monthrange
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from psycopg import sql

from seller_platform.service.access import SelectedAccounts
from seller_platform.service.lists.page_queries import Days, ListRequest

# The sums of a year of days and products stay in memory. Compiling a statement that runs half a second costs more than
# it saves, as do parallel processes. The planner expects one row where there are thousands: nested loops would compare
# them with one another, and others would sort them. It keeps the order of the joins in the text.
SETTINGS = """
SET LOCAL work_mem = '128MB'; SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0;
SET LOCAL enable_nestloop = off; SET LOCAL enable_mergejoin = off; SET LOCAL join_collapse_limit = 1;
SET LOCAL enable_sort = off
"""


@dataclass(frozen=True)
class Grouping:
    """The grouping of the rows of an answer.

    Attributes:
        dimension: `sku`, `asin` or `parent_asin`; None where rows are periods of all products.
        period: `Date`, `Week`, `Month`, `Quarter`, `Semester` or `Year`; None where a row covers all requested days.
    """

    dimension: str | None
    period: str | None

    @property
    def is_combined(self) -> bool:
        return self.dimension is not None and self.period is not None

    @property
    def has_days(self) -> bool:
        """Whether rows are of a product and a day or week, which sums of months do not have."""
        return self.dimension is not None and self.period in ("Date", "Week")


@dataclass(frozen=True)
class StatisticsRequest:
    """A request for a page of statistics of selected accounts, each with its days, at a moment.

    Attributes:
        page: Its currency, or that of the first account, is the currency of all amounts.
    """

    selected: SelectedAccounts
    grouping: Grouping
    days: Sequence[Days]
    page: ListRequest
    now: datetime


@dataclass(frozen=True)
class Plan:
    """The facts that decide the text of the statement.

    Attributes:
        is_kept: Whether sums are stored; else they are computed from the rows.
        names_unnamed: Whether to look up missing names of products in their sales.
        uses_months: Whether sums of months are stored, too; else they are computed from the sums of days.
    """

    grouping: Grouping
    is_one_account: bool
    is_kept: bool
    names_unnamed: bool = False
    uses_months: bool = False

    @property
    def tables(self) -> dict[str, sql.Composable]:
        """The tables of sums by name; of those that are not stored, the items of WITH in their place."""
        schema = sql.SQL("service." if self.is_kept else "")
        return {
            "product_months": sql.SQL("service.product_months" if self.uses_months else "product_months"),
            "product_days": schema + sql.SQL("product_days"),
            "day_sums": schema + sql.SQL("day_sums"),
        }


# 0001-01-01 of the proleptic calendar is a Monday.
PERIOD_OF: Mapping[str | None, LiteralString] = {
    None: "date '0001-01-01'",
    "Date": "stored.local_day",
    "Week": "(stored.local_day - (stored.local_day - date '0001-01-01') %% 7)",
    "Month": "date_trunc('month', stored.local_day::timestamp)::date",
    "Quarter": "date_trunc('quarter', stored.local_day::timestamp)::date",
    "Semester": "(date_trunc('year', stored.local_day::timestamp)"
    " + CASE WHEN date_part('month', stored.local_day) > 6 THEN interval '6 months' ELSE interval '0' END)::date",
    "Year": "date_trunc('year', stored.local_day::timestamp)::date",
}
"""The first day of the period that the row `stored` belongs to."""

STEP: Mapping[str, LiteralString] = {"Date": "1 day", "Week": "7 days", "Month": "1 month", "Year": "1 year"}
"""The length of a period that a row of a date view stands for."""

LABEL: Mapping[str, LiteralString] = {
    "Date": "to_char(page.period::timestamp, 'YYYY-MM-DD')",
    "Week": """to_char(page.period::timestamp, '"Week" FMIW IYYY')""",
    "Month": "to_char(page.period::timestamp, 'FMMonth YYYY')",
    "Quarter": """to_char(page.period::timestamp, '"Q"Q YYYY')""",
    "Semester": "CASE WHEN extract(month FROM page.period) > 6 THEN 'H2 ' ELSE 'H1 ' END"
    " || to_char(page.period::timestamp, 'YYYY')",
    "Year": "to_char(page.period::timestamp, 'YYYY')",
}
"""The API's label of the period that begins on `page.period`."""


def statistics_values(request: StatisticsRequest, before: Sequence[Days] | None) -> dict[str, object]:
    """Return the parameters that the statements of statistics share."""
    selected, days = request.selected, request.days
    own_currency = next((account.currency_code or "" for account in selected.accounts), "")
    first = min((each.first for each in (*days, *(before or ()))), default=None)
    last = max((each.last for each in days), default=None)
    nothing = [None] * len(days)
    return {
        "accounts": selected.keys,
        "currencies": [account.currency_code for account in selected.accounts],
        "first_days": [each.first for each in days],
        "last_days": [each.last for each in days],
        "before_first_days": [each.first for each in before] if before else nothing,
        "before_last_days": [each.last for each in before] if before else nothing,
        "months_from": None if first is None else first.replace(day=1),
        "months_until": None if last is None else last.replace(day=monthrange(last.year, last.month)[1]),
        "summed_from": first,
        "last_day": last,
        "days": max((1 + (each.last - each.first).days for each in days), default=1),
        "target": request.page.currency or own_currency,
        **request.page.rows_of_page,
    }


UNNAMED: LiteralString = "2147483647"
"""The position of sales that name no product, after all others."""

_NAMED = """,
stocked AS MATERIALIZED (
    SELECT DISTINCT ON (account, sku COLLATE "C") stored.account, stored.sku, stored.asin, stored.product_name
    FROM chosen
    JOIN seller.inventory AS stored ON stored.account = chosen.account AND stored.local_day = chosen.stock_day
     AND stored.account = ANY(%(accounts)s::text[])
    WHERE NOT EXISTS (
        SELECT FROM service.products AS product WHERE product.account = stored.account AND product.sku = stored.sku
    )
    ORDER BY account, sku COLLATE "C", asin, product_name
),{unnamed}
named AS MATERIALIZED (
    SELECT account, sku, asin, coalesce(parent_asin, asin) AS parent_asin, product_name, buybox_price, sales_rank
    FROM chosen JOIN service.products USING (account)
    UNION ALL SELECT account, sku, asin, asin, product_name, NULL, NULL FROM stocked{named_by_sales}
),
products AS MATERIALIZED (
    SELECT named.*, dense_rank() OVER (ORDER BY {dimension} COLLATE "C")::integer AS position, {dimension} AS dimension
    FROM named
)"""

# Products without a name in the service's table and in the newest stock get the name of their latest sale.
_UNNAMED = """
unnamed AS MATERIALIZED (
    SELECT account, sku
    FROM (
        SELECT DISTINCT sums.account, unnest(sums.skus) COLLATE "C" AS sku
        FROM months JOIN {product_months} AS sums USING (account, month, rates_hash)
        WHERE sums.target = %(target)s::text
    ) AS summed
    WHERE sku IS NOT NULL AND NOT EXISTS (
        SELECT FROM service.products AS product WHERE product.account = summed.account AND product.sku = summed.sku
    ) AND NOT EXISTS (SELECT FROM stocked WHERE stocked.account = summed.account AND stocked.sku = summed.sku)
),
named_by_sales AS MATERIALIZED (
    SELECT DISTINCT ON (unnamed.account, unnamed.sku) unnamed.account, unnamed.sku, stored.asin, stored.product_name
    FROM unnamed
    LEFT JOIN seller.daily_product_sales AS stored
      ON stored.account = unnamed.account AND stored.sku = unnamed.sku AND stored.account = ANY(%(accounts)s)
     AND stored.local_day BETWEEN %(summed_from)s::date AND %(last_day)s::date
    ORDER BY unnamed.account, unnamed.sku, stored.local_day DESC, stored.asin, stored.product_name
),"""
_NAMED_BY_SALES: LiteralString = """
    UNION ALL SELECT account, sku, asin, asin, product_name, NULL, NULL FROM named_by_sales"""

_LOOKED_UP = """
    LEFT JOIN (SELECT DISTINCT ON ({key}) {key}, position FROM {products}) AS products ON {condition}"""


def named_products(plan: Plan) -> sql.Composable:
    """Return `products`: row and name of each product; nothing in a date view."""
    if plan.grouping.dimension is None:
        return sql.SQL("")
    unnamed = sql.SQL(_UNNAMED).format(**plan.tables)
    return sql.SQL(_NAMED).format(
        dimension=sql.Identifier(plan.grouping.dimension),
        unnamed=unnamed if plan.names_unnamed else sql.SQL(""),
        named_by_sales=sql.SQL(_NAMED_BY_SALES if plan.names_unnamed else ""),
    )


def looked_up(plan: Plan, products: LiteralString) -> sql.Composable:
    """Return the join of `sums` with its product, of `products` or of those on the page.

    Each product occurs once. DISTINCT lets PostgreSQL see that; without it, the planner would hash the rows instead.
    """
    # Comparisons of texts take longest; the accounts are equal where there is one, and not compared.
    key: tuple[LiteralString, ...] = ("sku",) if plan.is_one_account else ("account", "sku")
    return sql.SQL(_LOOKED_UP).format(
        products=sql.SQL(products),
        key=sql.SQL(", ".join(key)),
        condition=sql.SQL(" AND ".join(f"products.{name} = sums.{name}" for name in key)),
    )
