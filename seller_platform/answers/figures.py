"""The tools `metrics`, `query` and `compare`: governed numbers, and how they changed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from shlex import quote
from typing import Annotated, Any

from psycopg.rows import dict_row
from pydantic import Field, StringConstraints
from sqlalchemy import text

from seller_platform.answers.accounts import NoArguments
from seller_platform.answers.asker import Asker
from seller_platform.answers.proof import Asked, Fact, Proof, Seen, ToolAnswer, period_of
from seller_platform.contract import Window
from seller_platform.counts import count_of
from seller_platform.errors import UnanswerableError, did_you_mean
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.readers.governed_metrics import METRICS, Dimension, Metric, MetricQuery, MetricUnit

Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]*$")]
Names = Annotated[tuple[Name, ...], Field(max_length=100)]

ACCOUNTS_DOC = "Keys or exact titles of accounts; empty for all that you may see."

_PRODUCTS = text("""
    SELECT sku, min(asin) AS asin, min(product_name) AS product_name
    FROM seller.daily_product_sales
    WHERE account = ANY (:accounts) AND local_day >= :first AND local_day < :end AND sku IS NOT NULL
    GROUP BY sku ORDER BY sku
""")
_CANDIDATES = 10


class MetricRow(Fact):
    """A governed metric."""

    name: str
    doc: str
    formula: str = Field(description="The aggregate of PostgreSQL that computes it.")
    unit: MetricUnit
    grain: str = Field(description="What the smallest number is of.")
    dimensions: tuple[Dimension, ...] = Field(description="What it can be divided by.")


class FigureArguments(Fact):
    """A governed metric over days of accounts."""

    metric: Name = Field(description="The name of a metric, as the tool `metrics` lists them.")
    first_day: date = Field(description="The first day, in the account's time zone.")
    last_day: date = Field(description="The last day, inclusive.")
    accounts: Names = Field(default=(), description=ACCOUNTS_DOC)
    by: tuple[Dimension, ...] = Field(default=(), max_length=4, description="What the metric is divided by.")
    products: Names = Field(default=(), description="SKUs, ASINs or exact names of products; empty for all.")
    largest_first: bool = Field(default=False, description="Whether the largest values come first.")
    limit: int = Field(default=100, ge=1, le=1_000, description="The most rows.")


class CompareArguments(FigureArguments):
    """Two periods of a governed metric."""

    other_first_day: date = Field(description="The first day of the period that the first one is compared with.")
    other_last_day: date = Field(description="Its last day, inclusive.")


class FigureRow(Fact):
    """A value of a metric; what it is not divided by is null."""

    account: str | None = None
    month: date | None = None
    day: date | None = None
    product: str | None = None
    currency: str | None = Field(default=None, description="Of an amount or a share of one.")
    value: Decimal | None


class ComparedRow(FigureRow):
    """The values of a metric in two periods."""

    other_value: Decimal | None
    change: Decimal | None
    change_percent: Decimal | None = Field(description="The change in percent of the other value.")


def list_metrics(_: Asker, __: NoArguments) -> ToolAnswer[MetricRow]:
    """Answer which metrics there are."""
    names = tuple(MetricRow.model_fields)
    return ToolAnswer(
        rows=tuple(MetricRow(**{name: getattr(each, name) for name in names}) for each in METRICS),
        proof=Proof(
            as_of=None,
            coverage="Every metric.",
            settledness="Definitions change with versions of Seller Platform only.",
            seen=Seen(command="seller-platform docs agents"),
        ),
    )


def query_metric(asker: Asker, arguments: FigureArguments) -> ToolAnswer[FigureRow]:
    """Answer a governed metric.

    Raises:
        UnanswerableError: The metric does not exist or cannot be divided so, its amounts are of several currencies, or
            days are not stored.
    """
    asked, query = figure_of(asker, arguments)
    rows, notes = _rows_of(asked, query)
    if len(rows) > query.limit:
        rows, notes = rows[: query.limit], [*notes, f"There are more rows than the limit of {query.limit}."]
    currencies = {row["currency"] for row in rows if row["currency"]}
    return ToolAnswer(
        rows=tuple(FigureRow(**row) for row in rows),
        notes=(f"{query.metric.name}: {query.metric.doc}", *notes),
        proof=asked.prove(command_of(query), currencies),
    )


def compare_periods(asker: Asker, arguments: CompareArguments) -> ToolAnswer[ComparedRow]:
    """Answer how a metric changed from one period to another.

    Raises:
        UnanswerableError: As with `query_metric`, in either period; or it is divided by day or month.
    """
    if {Dimension.DAY, Dimension.MONTH} & set(arguments.by):
        raise UnanswerableError("two periods have no days or months in common", "Divide by account or product, or not.")
    asked, query = figure_of(asker, arguments)
    other = period_of(arguments.other_first_day, arguments.other_last_day)
    before_asked, before_query = replace(asked, window=other), replace(query, window=other)
    before_asked.prove("")
    (rows, notes), (before, before_notes) = _rows_of(asked, query), _rows_of(before_asked, before_query)
    keys = [*map(str, query.by), "currency"]
    values = {tuple(row[key] for key in keys): (row["value"], None) for row in rows}
    for row in before:
        key = tuple(row[key] for key in keys)
        values[key] = (values.get(key, (None, None))[0], row["value"])
    if query.is_largest_first:
        values = dict(sorted(values.items(), key=lambda each: each[1][0] or Decimal(0), reverse=True))
    if asked.window.days != other.days:
        notes = [*notes, f"The periods are unequal: {count_of(asked.window.days, 'day')} and {other.days}."]
    currencies = {row["currency"] for row in (*rows, *before) if row["currency"]}
    _require_one_currency(query, currencies)
    return ToolAnswer(
        rows=tuple(_compared(dict(zip(keys, key, strict=True)), *pair) for key, pair in values.items())[: query.limit],
        notes=(f"{query.metric.name}: {query.metric.doc}", *notes, *(f"{other}: {note}" for note in before_notes)),
        proof=asked.prove(f"{command_of(query)}; {command_of(before_query)}", currencies),
    )


def figure_of(asker: Asker, arguments: FigureArguments) -> tuple[Asked, MetricQuery]:
    """Return what is asked, and the query that computes it.

    Raises:
        UnanswerableError: There is no such metric, account or product, or no table has the dimensions.
    """
    metric = _metric_named(arguments.metric)
    by = tuple(dict.fromkeys(arguments.by))
    window, accounts = period_of(arguments.first_day, arguments.last_day), asker.chosen_accounts(arguments.accounts)
    table = metric.table_for((*by, Dimension.PRODUCT) if arguments.products else by)
    if table is None:
        dimensions = ", ".join(metric.dimensions)
        problem = f"{metric.name} has the grain {metric.grain}, and cannot be divided by {', '.join(by)}"
        of_products = " of single products" if arguments.products else ""
        raise UnanswerableError(f"{problem}{of_products}", f"Divide it by fewer of {dimensions}.")
    asked = Asked(asker, accounts, window, table.datasets, table.mart)
    if table.is_by_month and window != Window(window.start.replace(day=1), Window.month_of(window.last_day).end):
        raise UnanswerableError(
            f"{metric.name} by product has the grain of whole months, and {window} are other days",
            "Ask for whole months, or without products.",
        )
    query = MetricQuery(
        metric,
        table,
        tuple(asked.keys),
        window,
        by,
        _skus(asked, arguments.products),
        is_largest_first=arguments.largest_first,
        limit=arguments.limit,
    )
    return asked, query


def command_of(query: MetricQuery) -> str:
    """Return the command that prints the rows of a query."""
    return f"seller-platform query {quote(query.statement.as_string(None))}"


def _metric_named(name: str) -> Metric:
    for metric in METRICS:
        if metric.name == name:
            return metric
    names = [metric.name for metric in METRICS]
    raise UnanswerableError(
        f"there is no metric {name!r}{did_you_mean(name, names)}", "Take one of the candidates.", names
    )


def _rows_of(asked: Asked, query: MetricQuery) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of a query, one more than its limit where there are more, and what has to be said with them."""
    statement = replace(query, limit=query.limit + 1).statement
    with asked.asker.database.begin() as connection:
        cursor = driver_of(connection).cursor(row_factory=dict_row)
        totals = cursor.execute(replace(query, by=()).statement).fetchall()
        _require_one_currency(query, {row["currency"] for row in totals if row["currency"]})
        rows = cursor.execute(statement).fetchall()
    without_cost = sum(row.pop("units_without_cost") for row in rows)
    if without_cost and all(row["value"] is None for row in rows):
        raise UnanswerableError(
            f"{query.metric.name} is not known: {count_of(int(without_cost), 'unit')} of {query.window} without a cost",
            "Write the costs with `seller-platform costs plan`, or ask for units_without_cost.",
        )
    if without_cost and query.metric.needs_costs:
        note = f"{count_of(int(without_cost), 'unit')} without a valid cost: a profit is too high, or null."
        return rows, [note]
    return rows, [] if rows else ["There are no rows: nothing was sold or posted."]


def _require_one_currency(query: MetricQuery, currencies: set[str]) -> None:
    """Check that no value would add amounts of several currencies."""
    if len(currencies) > 1 and Dimension.ACCOUNT not in query.by:
        raise UnanswerableError(
            f"{query.metric.name} would be a sum over {', '.join(sorted(currencies))}, and amounts of several "
            "currencies are never added",
            "Ask for accounts of one currency, or divide by account.",
        )


def _compared(key: Mapping[str, Any], value: Decimal | None, other: Decimal | None) -> ComparedRow:
    change = value - other if value is not None and other is not None else None
    percent = round(100 * change / abs(other), 2) if change is not None and other else None
    return ComparedRow(**key, value=value, other_value=other, change=change, change_percent=percent)


def _skus(asked: Asked, names: Sequence[str]) -> tuple[str, ...]:
    """Return the SKUs of products by SKU, ASIN or exact name.

    Raises:
        UnanswerableError: No product that was sold in the period, or several, have the name.
    """
    if not names:
        return ()
    bound = {"accounts": asked.keys, "first": asked.window.start, "end": asked.window.end}
    with asked.asker.database.begin() as connection:
        products = [tuple(row) for row in connection.execute(_PRODUCTS, bound)]
    return tuple(dict.fromkeys(_sku(name, products, asked.window) for name in names))


def _sku(name: str, products: Sequence[tuple[str, str | None, str | None]], window: Window) -> str:
    same = name.strip().casefold()
    equal = [sku for sku, *others in products if same in (text.casefold() for text in (sku, *others) if text)]
    if name in equal or len(equal) == 1:
        return name if name in equal else equal[0]
    labels = {sku: f"{sku} ({', '.join(text for text in others if text)})" for sku, *others in products}
    alike = equal or [sku for sku, label in labels.items() if same in label.casefold()]
    raise UnanswerableError(
        f"{name!r} is not the SKU, the ASIN or the name of exactly one product that was sold in {window}"
        f"{'' if alike else did_you_mean(name, labels)}",
        "Name a product by its SKU.",
        [labels[sku] for sku in alike[:_CANDIDATES]],
    )
