"""Computes governed metrics: the statement of a question, its rows, and what has to be said with them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any

from psycopg import sql
from psycopg.rows import dict_row

from seller_platform.agents.metrics import Dimension, Metric, MetricTable, MetricUnit, Order
from seller_platform.commands import runnable_command
from seller_platform.contract import Window
from seller_platform.counts import count_of
from seller_platform.errors import UnanswerableError
from seller_platform.warehouse.postgres.database import Database, driver_of

_AMOUNTS = re.compile(
    r"\b(product_sales|taxes|shipping_credits|rebates|refunds|platform_fees|advertising|storage|subscriptions|"
    r"reimbursements|other_entries|payouts|product_cost|sales_without_cost)\b"
)

_AT_RATE = r"(\1 * rate)"

_QUERY = """
SELECT {columns}{currency} AS currency, {formula} AS value, {without_cost} AS sales_without_cost,
       {units} AS units_without_cost{without_rate}
FROM {source}
WHERE account = ANY ({accounts}) AND {day} >= DATE {first} AND {day} < DATE {end}{of_products}
GROUP BY {groups}
ORDER BY {order}
LIMIT {limit}
"""

# The rate of a day is that of the same day, as in the statistics of the service.
_CONVERTED = """{source} LEFT JOIN (
    WITH per_euro AS (
        SELECT day, currency, per_euro FROM service.exchange_rates
        WHERE currency <> 'EUR' AND day >= DATE {first} AND day < DATE {end}
        UNION ALL
        SELECT DISTINCT day, 'EUR', 1 FROM service.exchange_rates WHERE day >= DATE {first} AND day < DATE {end}
    )
    SELECT own.day AS rate_day, own.currency AS rate_currency, other.per_euro / own.per_euro AS stored_rate
    FROM per_euro AS own JOIN per_euro AS other USING (day) WHERE other.currency = {target}
) AS rates ON rate_day = {day} AND rate_currency = {currency}
CROSS JOIN LATERAL (SELECT CASE WHEN {currency} = {target} THEN 1 ELSE stored_rate END AS rate) AS used"""


@dataclass(frozen=True)
class MetricQuery:
    """What is asked of a metric.

    Attributes:
        by: What it is divided by. Amounts are always divided by their currency, too.
        products: Only these SKUs; empty for all.
        target: The currency to which amounts are converted by stored rates; None for their own.
    """

    metric: Metric
    table: MetricTable
    accounts: tuple[str, ...]
    window: Window
    by: tuple[Dimension, ...]
    products: tuple[str, ...] = ()
    order: Order = Order.KEY
    limit: int = 100
    target: str | None = None

    def __post_init__(self) -> None:
        """Check that the table has rows of the days, and amounts that can be converted."""
        grain = f"{self.metric.name} by product has the grain of whole months, and"
        if not self.table.has(self.window):
            raise UnanswerableError(
                f"{grain} {self.window} are other days", "Ask for whole months, or without products."
            )
        if self.converts and self.table.is_by_month:
            raise UnanswerableError(
                f"{grain} exchange rates are of days", "Ask without `currency`, or without products."
            )

    def read(self, database: Database) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the rows, and what has to be said with them.

        A row has what the metric is divided by, `currency` and `value`, and `sales_without_cost` where costs decide the
        value. There is one more than the limit where there are more.

        Raises:
            UnanswerableError: A value would add amounts of several currencies, an exchange rate is not stored, or no
                value is known for want of costs.
        """
        statement, total = (replace(self, limit=self.limit + 1).statement, replace(self, by=()).statement)
        with database.begin() as connection:
            driver = driver_of(connection)
            cursor = driver.cursor(row_factory=dict_row)
            if self.converts and driver.execute("SELECT to_regclass('service.exchange_rates')").fetchone() == (None,):
                raise self._without_rate("any currency")
            totals = cursor.execute(total).fetchall()
            if without_rate := next((row["without_rate"] for row in totals if row.get("without_rate")), None):
                raise self._without_rate(without_rate)
            self.require_one_currency(totals)
            rows = cursor.execute(statement).fetchall()
        names = [*map(str, self.by), "currency", "value", *(["sales_without_cost"] if self.metric.needs_costs else [])]
        notes = [] if rows else ["There are no rows: nothing was sold or posted."]
        if self.converts:
            notes.append(f"Amounts are converted to {self.target} by the stored rate of each day.")
        if Dimension.WEEK in self.by and (self.window.start.weekday() or self.window.end.weekday()):
            notes.append("Weeks begin on Monday, and the period cuts the first or the last one.")
        if units := sum(int(row["units_without_cost"]) for row in totals):
            sold = [f"{row['sales_without_cost']:f} {row['currency']}" for row in totals if row["sales_without_cost"]]
            without_cost = f"without a valid cost, sold for {', '.join(sold) or 'nothing'}"
            if all(row["value"] is None for row in totals):
                raise UnanswerableError(
                    f"{self.metric.name} is not known: {count_of(units, 'unit')} of {self.window} {without_cost}",
                    "Write the costs with `seller-platform costs plan FILE.csv`, or ask for sales_without_cost.",
                )
            notes.append(
                f"{count_of(units, 'unit')} {without_cost}: their cost is in no value; `sales_without_cost` is that "
                "part of each row."
            )
            if self.metric.unit is MetricUnit.MONEY and any(row["value"] is None for row in rows):
                values = ", ".join(f"{row['value']:f} {row['currency']}" for row in totals if row["value"] is not None)
                notes.append(
                    "A row has no value where no unit that was sold has a cost. So the values of the rows do not add "
                    f"up to that of all together, which is {values}."
                )
        return [{name: row[name] for name in names} for row in rows], notes

    @property
    def converts(self) -> bool:
        """Whether amounts are converted to another currency."""
        return self.target is not None and self.metric.unit is not MetricUnit.COUNT

    def _without_rate(self, named: str) -> UnanswerableError:
        return UnanswerableError(
            f"no exchange rate of {named} to {self.target} is stored",
            "Ask without `currency`, divided by account; or let the operator load rates with `seller-platform service "
            "rates load FILE --replica`.",
        )

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
                "Ask for accounts of one currency, divide by account, or give the `currency` to convert to.",
            )
        return currencies

    @property
    def command(self) -> str:
        """The command that prints the rows; it prints amounts in their own currencies, by account."""
        by = tuple(dict.fromkeys((Dimension.ACCOUNT, *self.by))) if self.converts else self.by
        statement = replace(self, target=None, by=by).statement.as_string(None)
        return runnable_command(f"seller-platform query {quote(statement)}")

    @property
    def statement(self) -> sql.Composed:
        """The statement of PostgreSQL, with all values in it: a person can execute the same."""
        by = [sql.SQL(self.table.dimensions[each]) for each in self.by]
        day, own_currency = sql.Identifier(self.table.day), sql.Identifier(self.table.currency)
        period = {"first": sql.Literal(str(self.window.start)), "end": sql.Literal(str(self.window.end)), "day": day}
        currency: sql.Composable = sql.SQL("NULL") if self.metric.unit is MetricUnit.COUNT else own_currency
        formula = self.metric.formula
        without_cost = "coalesce(sum(sales_without_cost), 0)" if self.metric.needs_costs else "NULL"
        source, without_rate = self.table.source, sql.Composed([])
        if self.converts:
            target = sql.Literal(self.target)
            source = sql.SQL(_CONVERTED).format(source=source, currency=own_currency, target=target, **period)
            currency = sql.SQL("{}::text").format(target)
            formula, without_cost = (
                f"round({each}, 2)" for each in (_AMOUNTS.sub(_AT_RATE, formula), _AMOUNTS.sub(_AT_RATE, without_cost))
            )
            without_rate = sql.SQL(", min({} || ' on ' || {}) FILTER (WHERE rate IS NULL) AS without_rate").format(
                own_currency, day
            )
        groups = [sql.SQL(str(number)) for number in range(1, len(by) + 2)]
        value = sql.SQL("value NULLS LAST" if self.order is Order.SMALLEST else "value DESC NULLS LAST")
        value_first = [value] if self.order in (Order.LARGEST, Order.SMALLEST) else []
        of_products = sql.SQL(" AND sku = ANY ({})").format(sql.Literal(list(self.products)))
        return sql.SQL(_QUERY.strip()).format(
            columns=sql.SQL("").join(
                sql.SQL("{} AS {}, ").format(column, sql.Identifier(each.value))
                for column, each in zip(by, self.by, strict=True)
            ),
            currency=currency,
            formula=sql.SQL(formula),
            without_cost=sql.SQL(without_cost),
            units=sql.SQL("sum(units_without_cost)" if self.metric.needs_costs else "0"),
            without_rate=without_rate,
            source=source,
            accounts=sql.Literal(list(self.accounts)),
            of_products=of_products if self.products else sql.SQL(""),
            groups=sql.SQL(", ").join(groups),
            order=sql.SQL(", ").join([*value_first, *groups]),
            limit=sql.Literal(self.limit),
            **period,
        )
