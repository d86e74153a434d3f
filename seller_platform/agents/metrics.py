"""The governed metrics: fifteen numbers, each with one formula, for every program that asks for one by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from shlex import quote
from typing import Any

from psycopg import sql
from psycopg.rows import dict_row

from seller_platform.commands import runnable_command
from seller_platform.contract import Dataset, Slicing, Window
from seller_platform.contract.datasets.sales import ORDERS
from seller_platform.counts import count_of
from seller_platform.errors import UnanswerableError
from seller_platform.marts.account_profit_daily import ACCOUNT_PROFIT_DAILY
from seller_platform.marts.product_performance_monthly import PRODUCT_PERFORMANCE_MONTHLY
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.postgres.database import Database, driver_of


class MetricUnit(StrEnum):
    """What a metric is counted in."""

    COUNT = "count"
    MONEY = "money"
    PERCENT = "percent"


class Dimension(StrEnum):
    """What a metric may be divided by."""

    ACCOUNT = "account"
    MONTH = "month"
    DAY = "day"
    PRODUCT = "product"


class Order(StrEnum):
    """Which rows come first."""

    LARGEST = "largest"
    SMALLEST = "smallest"
    KEY = "key"


@dataclass(frozen=True)
class MetricTable:
    """A table that metrics are computed from.

    Attributes:
        table: Its name with the schema.
        day: The column that places a row in a period.
        currency: The column with the currency of the amounts.
        dimensions: Each with the expression for its value.
        datasets: The dated datasets that it is computed from.
        mart: The mart; None for the table of a dataset.
    """

    table: str
    day: str
    currency: str
    dimensions: dict[Dimension, str]
    datasets: tuple[Dataset, ...]
    mart: Mart | None = None

    @property
    def is_by_month(self) -> bool:
        """Whether a row is of a whole month."""
        return Dimension.DAY not in self.dimensions


def _of_mart(mart: Mart, dimensions: dict[Dimension, str]) -> MetricTable:
    datasets = tuple(each.dataset for each in mart.inputs if each.dataset.slicing is Slicing.MONTH)
    return MetricTable(mart.table, str(mart.day), "currency", dimensions, datasets, mart)


_DAYS = {
    Dimension.ACCOUNT: "account",
    Dimension.MONTH: "date_trunc('month', local_day)::date",
    Dimension.DAY: "local_day",
}
_MONTHS = {Dimension.ACCOUNT: "account", Dimension.MONTH: "month", Dimension.PRODUCT: "sku"}
_BY_DAY = _of_mart(ACCOUNT_PROFIT_DAILY, _DAYS)
_BY_PRODUCT = _of_mart(PRODUCT_PERFORMANCE_MONTHLY, _MONTHS)
_ORDER_LINES = MetricTable(ORDERS.table, "local_day", "currency_code", {**_DAYS, Dimension.PRODUCT: "sku"}, (ORDERS,))


@dataclass(frozen=True)
class Metric:
    """A number with one formula.

    Attributes:
        doc: One sentence: what it is.
        formula: The aggregate of PostgreSQL that computes it from rows of any of its tables.
        tables: What it can be computed from; the first one that has the dimensions is taken.
        needs_costs: Whether units without a cost make it too high or unknown.
    """

    name: str
    doc: str
    formula: str
    unit: MetricUnit
    tables: tuple[MetricTable, ...] = (_BY_DAY, _BY_PRODUCT)
    needs_costs: bool = False

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """What it may be divided by."""
        return tuple(each for each in Dimension if any(each in table.dimensions for table in self.tables))

    @property
    def grain(self) -> str:
        """What the smallest number is of."""
        return " or ".join(
            "account, product and month" if each.is_by_month else "account and day" for each in self.tables
        )

    def table_for(self, by: Iterable[Dimension]) -> MetricTable | None:
        """Return the table that has all of these dimensions; None where there is none."""
        return next((each for each in self.tables if set(by) <= set(each.dimensions)), None)


def _known(column: str) -> str:
    """Return the sum of a column, which is not known where one of the values is not."""
    return f"CASE WHEN bool_and({column} IS NOT NULL) THEN sum({column}) END"


def _percent(part: str) -> str:
    return f"round(100 * ({part}) / nullif(sum(product_sales), 0), 2)"


_ORDERS = "count(DISTINCT platform_order_id) FILTER (WHERE lower(order_status) NOT IN ('cancelled', 'canceled'))"
_COUNT, _MONEY, _PERCENT = MetricUnit.COUNT, MetricUnit.MONEY, MetricUnit.PERCENT

METRICS = (
    Metric("units", "Units ordered, in all sales channels.", "sum(units)", _COUNT),
    Metric("orders", "Orders that are not cancelled, in all sales channels.", _ORDERS, _COUNT, (_ORDER_LINES,)),
    Metric("product_sales", "Revenue from products, without tax and shipping.", "sum(product_sales)", _MONEY),
    Metric(
        "average_price",
        "Revenue from products for one unit.",
        "round(sum(product_sales) / nullif(sum(units), 0), 2)",
        _MONEY,
    ),
    Metric("refunds", "What was given back to buyers, by the day it was posted.", "sum(refunds)", _MONEY),
    Metric("refund_rate", "Refunds in percent of the revenue from products.", _percent("sum(refunds)"), _PERCENT),
    Metric(
        "platform_fees", "Fees of the marketplace; by product only those that name one.", "sum(platform_fees)", _MONEY
    ),
    Metric(
        "fee_rate", "Platform fees in percent of the revenue from products.", _percent("sum(platform_fees)"), _PERCENT
    ),
    Metric(
        "advertising", "What was paid for advertising beside the platform fees.", "sum(advertising)", _MONEY, (_BY_DAY,)
    ),
    Metric("product_cost", "The cost of the units sold.", _known("product_cost"), _MONEY, needs_costs=True),
    Metric("profit", "Revenue less product cost and platform fees.", _known("profit"), _MONEY, needs_costs=True),
    Metric(
        "profit_margin", "Profit in percent of the revenue.", _percent(_known("profit")), _PERCENT, needs_costs=True
    ),
    Metric(
        "net_profit",
        "Profit, shipping credits and reimbursements less rebates, refunds, advertising, storage and subscriptions.",
        _known("net_profit"),
        _MONEY,
        needs_costs=True,
    ),
    Metric(
        "net_margin",
        "Net profit in percent of the revenue.",
        _percent(_known("net_profit")),
        _PERCENT,
        needs_costs=True,
    ),
    Metric("units_without_cost", "Units sold without a valid cost.", "sum(units_without_cost)", _COUNT),
)
"""Every metric, in the order in which they are listed."""


_QUERY = """
SELECT {columns}{currency} AS currency, {formula} AS value, {without_cost} AS units_without_cost
FROM {table}
WHERE account = ANY ({accounts}) AND {day} >= DATE {first} AND {day} < DATE {end}{of_products}
GROUP BY {groups}
ORDER BY {order}
LIMIT {limit}
"""


@dataclass(frozen=True)
class MetricQuery:
    """What is asked of a metric.

    Attributes:
        by: What it is divided by. Amounts are always divided by their currency, too.
        products: Only these SKUs; empty for all.
    """

    metric: Metric
    table: MetricTable
    accounts: tuple[str, ...]
    window: Window
    by: tuple[Dimension, ...]
    products: tuple[str, ...] = ()
    order: Order = Order.KEY
    limit: int = 100

    def __post_init__(self) -> None:
        """Check that the table has rows of the days."""
        first, last = (Window.month_of(day) for day in (self.window.start, self.window.last_day))
        if self.table.is_by_month and self.window != Window(first.start, last.end):
            raise UnanswerableError(
                f"{self.metric.name} by product has the grain of whole months, and {self.window} are other days",
                "Ask for whole months, or without products.",
            )

    def read(self, database: Database) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the rows, and what has to be said with them.

        A row has what the metric is divided by, `currency` and `value`. There is one more than the limit where there
        are more.

        Raises:
            UnanswerableError: A value would add amounts of several currencies, or none is known for want of costs.
        """
        statement, total = (replace(self, limit=self.limit + 1).statement, replace(self, by=()).statement)
        with database.begin() as connection:
            cursor = driver_of(connection).cursor(row_factory=dict_row)
            self.require_one_currency(cursor.execute(total).fetchall())
            rows = cursor.execute(statement).fetchall()
        without_cost = sum(int(row.pop("units_without_cost")) for row in rows)
        if without_cost and all(row["value"] is None for row in rows):
            raise UnanswerableError(
                f"{self.metric.name} is not known: {count_of(without_cost, 'unit')} of {self.window} without a cost",
                "Write the costs with `seller-platform costs plan`, or ask for units_without_cost.",
            )
        if without_cost:
            return rows, [f"{count_of(without_cost, 'unit')} without a valid cost: a profit is too high, or null."]
        return rows, [] if rows else ["There are no rows: nothing was sold or posted."]

    def require_one_currency(self, rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Return the currencies of rows, by name.

        Raises:
            UnanswerableError: There are several, and the rows are not divided by account.
        """
        currencies = tuple(sorted({row["currency"] for row in rows if row["currency"]}))
        if len(currencies) > 1 and Dimension.ACCOUNT not in self.by:
            raise UnanswerableError(
                f"{self.metric.name} would be a sum over {', '.join(currencies)}, and amounts of several currencies "
                "are never added",
                "Ask for accounts of one currency, or divide by account.",
            )
        return currencies

    @property
    def command(self) -> str:
        """The command that prints the rows."""
        return runnable_command(f"seller-platform query {quote(self.statement.as_string(None))}")

    @property
    def statement(self) -> sql.Composed:
        """The statement of PostgreSQL, with all values in it: a person can execute the same."""
        by = [sql.SQL(self.table.dimensions[each]) for each in self.by]
        currency = sql.SQL("NULL") if self.metric.unit is _COUNT else sql.Identifier(self.table.currency)
        groups = [sql.SQL(str(number)) for number in range(1, len(by) + 2)]
        value = sql.SQL("value NULLS LAST" if self.order is Order.SMALLEST else "value DESC NULLS LAST")
        value_first = [] if self.order is Order.KEY else [value]
        of_products = sql.SQL(" AND sku = ANY ({})").format(sql.Literal(list(self.products)))
        return sql.SQL(_QUERY.strip()).format(
            columns=sql.SQL("").join(
                sql.SQL("{} AS {}, ").format(column, sql.Identifier(each.value))
                for column, each in zip(by, self.by, strict=True)
            ),
            currency=currency,
            formula=sql.SQL(self.metric.formula),
            without_cost=sql.SQL("sum(units_without_cost)" if self.metric.needs_costs else "0"),
            table=sql.SQL(self.table.table),
            accounts=sql.Literal(list(self.accounts)),
            day=sql.Identifier(self.table.day),
            first=sql.Literal(str(self.window.start)),
            end=sql.Literal(str(self.window.end)),
            of_products=of_products if self.products else sql.SQL(""),
            groups=sql.SQL(", ").join(groups),
            order=sql.SQL(", ").join([*value_first, *groups]),
            limit=sql.Literal(self.limit),
        )
