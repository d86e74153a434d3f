"""The governed metrics: numbers with one formula each, for every program that asks for one by name."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from psycopg import sql

from seller_platform.contract import Dataset, Slicing, Window
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, ORDERS, TRANSACTIONS
from seller_platform.marts.account_profit_daily import ACCOUNT_PROFIT_DAILY
from seller_platform.marts.common_queries import NO_CURRENCY
from seller_platform.marts.cost_coverage import COST_COVERAGE
from seller_platform.marts.product_performance_monthly import PRODUCT_PERFORMANCE_MONTHLY
from seller_platform.marts.rules.formulas import FEE_LINES, PAYOUTS, STANDARD
from seller_platform.warehouse.derived.declaration import Mart


class MetricUnit(StrEnum):
    """What a metric is counted in."""

    COUNT = "count"
    MONEY = "money"
    PERCENT = "percent"


class Dimension(StrEnum):
    """What a metric may be divided by."""

    ACCOUNT = "account"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    PRODUCT = "product"
    STATUS = "status"


class Order(StrEnum):
    """Which rows come first: by the value, by its change between two periods, or by what it is divided by."""

    LARGEST = "largest"
    SMALLEST = "smallest"
    RISE = "rise"
    FALL = "fall"
    KEY = "key"


@dataclass(frozen=True)
class MetricTable:
    """Rows that metrics are computed from.

    Attributes:
        source: The table with its schema, or a statement in brackets.
        day: The column that places a row in a period.
        currency: The column with the currency of the amounts.
        dimensions: Each with the expression for its value.
        datasets: The dated datasets that it is computed from.
        marts: The marts that the rows are read from; without any, they are read from tables of the datasets.
    """

    source: sql.Composable
    day: str
    currency: str
    dimensions: dict[Dimension, str]
    datasets: tuple[Dataset, ...]
    marts: tuple[Mart, ...] = ()

    @property
    def names(self) -> str:
        """The tables with their schemas."""
        return " and ".join(each.table for each in self.marts or self.datasets)

    @property
    def is_by_month(self) -> bool:
        """Whether a row is of a whole month."""
        return Dimension.DAY not in self.dimensions

    @property
    def grain(self) -> str:
        """What a row is of."""
        if self.is_by_month:
            return "account, product and month"
        return "account, product and day" if Dimension.PRODUCT in self.dimensions else "account and day"

    def has(self, window: Window) -> bool:
        """Whether there are rows of just these days."""
        first, last = (Window.month_of(day) for day in (window.start, window.last_day))
        return not self.is_by_month or window == Window(first.start, last.end)


# Its statements are executed without parameters, for which a formula doubles its percent signs.
LINE_OF_ENTRY = sql.SQL(STANDARD.line_of_entry.as_string(None).replace("%%", "%"))
"""The expression for the line of the standard formula that an entry of the ledger belongs to."""

_DAYS = {
    Dimension.ACCOUNT: "account",
    Dimension.MONTH: "date_trunc('month', local_day)::date",
    Dimension.WEEK: "date_trunc('week', local_day)::date",
    Dimension.DAY: "local_day",
}
_MONTHS = {Dimension.ACCOUNT: "account", Dimension.MONTH: "month", Dimension.PRODUCT: "sku"}
_OWN_CURRENCY = "JOIN (SELECT key, currency_code FROM platform.accounts) AS own ON key = account"
_SOLD = f"""(
    SELECT account, local_day, sku, units_ordered AS units, product_sales, taxes, shipping_credits, rebates,
           coalesce(currency_code, '{NO_CURRENCY}') AS currency
    FROM seller.daily_product_sales {_OWN_CURRENCY}
) AS sold"""  # noqa: S608  # constants
_POSTED = f"""(
    SELECT account, local_day, sku, coalesce(currency, currency_code, '{NO_CURRENCY}') AS currency,
           CASE WHEN line IN ({{fees}}) THEN -amount ELSE 0 END AS platform_fees,
           CASE line WHEN 'refunds' THEN -amount ELSE 0 END AS refunds,
           CASE line WHEN 'advertising' THEN -amount ELSE 0 END AS advertising,
           CASE line WHEN 'storage' THEN -amount ELSE 0 END AS storage,
           CASE line WHEN 'reimbursements' THEN amount ELSE 0 END AS reimbursements,
           CASE line WHEN {{payouts}} THEN -amount ELSE 0 END AS payouts
    FROM (SELECT *, {{line}} AS line FROM seller.transactions) AS entry {_OWN_CURRENCY}
) AS posted"""  # noqa: S608  # constants
_COSTED = """(
    SELECT performance.*, coverage.sales_without_cost
    FROM marts.product_performance_monthly AS performance
    LEFT JOIN marts.cost_coverage AS coverage USING (account, month, sku, currency)
) AS costed"""


def _of_marts(dimensions: dict[Dimension, str], source: str, mart: Mart, *marts: Mart) -> MetricTable:
    datasets = tuple(each.dataset for each in mart.inputs if each.dataset.slicing is Slicing.MONTH)
    return MetricTable(sql.SQL(source), str(mart.day), "currency", dimensions, datasets, (mart, *marts))


_BY_DAY = _of_marts(_DAYS, ACCOUNT_PROFIT_DAILY.table, ACCOUNT_PROFIT_DAILY)
_BY_PRODUCT = _of_marts(_MONTHS, _COSTED, PRODUCT_PERFORMANCE_MONTHLY, COST_COVERAGE)
_PRODUCT_DAYS = {**_DAYS, Dimension.PRODUCT: "sku"}
_SALES = MetricTable(sql.SQL(_SOLD), "local_day", "currency", _PRODUCT_DAYS, (DAILY_PRODUCT_SALES,))
_ORDERED = MetricTable(sql.SQL(ORDERS.table), "local_day", "currency_code", _PRODUCT_DAYS, (ORDERS,))
_OF_STATUS = replace(_ORDERED, dimensions={**_PRODUCT_DAYS, Dimension.STATUS: "order_status"})
_LEDGER = MetricTable(
    sql.SQL(_POSTED).format(
        fees=sql.SQL(", ").join(map(sql.Literal, FEE_LINES)), payouts=sql.Literal(PAYOUTS), line=LINE_OF_ENTRY
    ),
    "local_day",
    "currency",
    _PRODUCT_DAYS,
    (TRANSACTIONS,),
)
_OF_ACCOUNT = replace(_LEDGER, dimensions=_DAYS)


@dataclass(frozen=True)
class Metric:
    """A number with one formula.

    Attributes:
        doc: One sentence: what it is.
        formula: The aggregate of PostgreSQL that computes it from rows of any of its tables.
        tables: What it can be computed from; the first one that has the dimensions is taken.
    """

    name: str
    doc: str
    formula: str
    unit: MetricUnit
    tables: tuple[MetricTable, ...]

    @property
    def needs_costs(self) -> bool:
        """Whether what was sold without a valid cost is in the value without one."""
        return "product_cost" in self.formula

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """What it may be divided by."""
        return tuple(each for each in Dimension if any(each in table.dimensions for table in self.tables))

    @property
    def grain(self) -> str:
        """What the smallest number is of."""
        return " or ".join(each.grain for each in self.tables)

    @property
    def of_nothing(self) -> Decimal | None:
        """The value where nothing was sold or posted: a sum is 0, and an average or a share is not known."""
        return Decimal(0) if self.formula.startswith(("sum(", "count(", "coalesce(sum(")) else None

    def table_for(self, by: Iterable[Dimension], window: Window) -> MetricTable | None:
        """Return the table that has all of these dimensions, if possible of just these days; None without any."""
        tables = [each for each in self.tables if set(by) <= set(each.dimensions)]
        return next((each for each in tables if each.has(window)), tables[0] if tables else None)


def _sum(name: str, doc: str, table: MetricTable) -> Metric:
    return Metric(name, doc, f"sum({name})", MetricUnit.MONEY, (table,))


def _of_costs(name: str, doc: str, formula: str, unit: MetricUnit) -> Metric:
    if unit is MetricUnit.PERCENT:
        formula = f"round(100 * ({formula}) / nullif(sum(product_sales), 0), 2)"
    return Metric(name, doc, formula, unit, (_BY_DAY, _BY_PRODUCT))


_COUNT, _MONEY, _PERCENT = MetricUnit.COUNT, MetricUnit.MONEY, MetricUnit.PERCENT
_ORDERS = "count(DISTINCT platform_order_id)"
_NOT_CANCELLED = "lower(order_status) NOT IN ('cancelled', 'canceled')"
# A product cost is null where nothing that was sold has one; a sum that knows none is null, too.
_PROFIT = "sum(product_sales) - sum(product_cost) - sum(platform_fees)"
_STEPS = "shipping_credits - rebates - refunds - advertising - storage - subscriptions + reimbursements + other_entries"
_NET_PROFIT = f"{_PROFIT} + sum({_STEPS})"
_NAMED = "; by product only what names one."

METRICS = (
    Metric("units", "Units ordered, in all sales channels.", "sum(units)", _COUNT, (_SALES,)),
    Metric(
        "orders",
        "Orders that are not cancelled, in all sales channels.",
        f"{_ORDERS} FILTER (WHERE {_NOT_CANCELLED})",
        _COUNT,
        (_ORDERED,),
    ),
    Metric(
        "orders_placed",
        "Orders in any status, cancelled ones, too; by status, an order counts in each that its lines have.",
        _ORDERS,
        _COUNT,
        (_OF_STATUS,),
    ),
    _sum("product_sales", "Revenue from products, without tax and shipping.", _SALES),
    Metric(
        "average_price",
        "Revenue from products for one unit.",
        "round(sum(product_sales) / nullif(sum(units), 0), 2)",
        _MONEY,
        (_SALES,),
    ),
    _sum("taxes", "Tax collected on the sales; in no profit.", _SALES),
    _sum("shipping_credits", "Shipping that the buyers paid; what shipping costs the seller is not stored.", _SALES),
    _sum("rebates", "Promotional rebates granted to the buyers.", _SALES),
    _sum("refunds", f"What was given back to buyers, by the day it was posted{_NAMED}", _LEDGER),
    _of_costs("refund_rate", "Refunds in percent of the revenue from products.", "sum(refunds)", _PERCENT),
    _sum("reimbursements", f"What the marketplace paid for units that it lost or damaged{_NAMED}", _LEDGER),
    _sum("platform_fees", f"Fees of the marketplace{_NAMED}", _LEDGER),
    _of_costs("fee_rate", "Platform fees in percent of the revenue from products.", "sum(platform_fees)", _PERCENT),
    _sum("advertising", "What was paid for advertising beside the platform fees.", _OF_ACCOUNT),
    _sum("storage", "What was paid for storage beside the platform fees.", _OF_ACCOUNT),
    _sum("payouts", "What was transferred to the bank account; the tool `payouts` says what is due.", _OF_ACCOUNT),
    _of_costs("product_cost", "The cost of the units sold.", "sum(product_cost)", _MONEY),
    _of_costs("profit", "Revenue less product cost and platform fees.", _PROFIT, _MONEY),
    _of_costs("profit_margin", "Profit in percent of the revenue.", _PROFIT, _PERCENT),
    _of_costs(
        "net_profit",
        "Profit, shipping credits and reimbursements less rebates, refunds, advertising, storage and subscriptions.",
        _NET_PROFIT,
        _MONEY,
    ),
    _of_costs("net_margin", "Net profit in percent of the revenue.", _NET_PROFIT, _PERCENT),
    _of_costs("units_without_cost", "Units sold without a valid cost.", "sum(units_without_cost)", _COUNT),
    _of_costs(
        "sales_without_cost",
        "The revenue of units sold without a valid cost.",
        "coalesce(sum(sales_without_cost), 0)",
        _MONEY,
    ),
)
"""Every metric, in the order in which they are listed."""
