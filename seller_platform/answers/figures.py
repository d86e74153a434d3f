"""The tools `metrics`, `query` and `compare`: governed numbers, and how they changed."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from pydantic import Field
from sqlalchemy import text

from seller_platform.answers.asker import Asker, refused_name
from seller_platform.answers.metrics import METRICS, Dimension, MetricQuery, MetricUnit, Order
from seller_platform.answers.proof import (
    Asked,
    ChosenAccounts,
    Fact,
    Name,
    Names,
    NoArguments,
    Proof,
    Seen,
    ToolAnswer,
    period_of,
)
from seller_platform.counts import count_of
from seller_platform.errors import UnanswerableError, did_you_mean

_PRODUCTS = text("""
    SELECT sku, array_remove(ARRAY[min(asin), min(product_name)], NULL)
    FROM seller.daily_product_sales
    WHERE account = ANY (:accounts) AND local_day BETWEEN :first AND :last AND sku IS NOT NULL
    GROUP BY sku ORDER BY sku
""")


class MetricRow(Fact):
    """A governed metric."""

    name: str
    doc: str
    formula: str = Field(description="The aggregate of PostgreSQL that computes it.")
    unit: MetricUnit
    grain: str = Field(description="What the smallest number is of.")
    dimensions: tuple[Dimension, ...] = Field(description="What it can be divided by.")


class FigureArguments(ChosenAccounts):
    """A governed metric over days of accounts."""

    metric: Name = Field(description="The name of a metric, as the tool `metrics` lists them.")
    first_day: date = Field(description="The first day, in the account's time zone.")
    last_day: date = Field(description="The last day, inclusive.")
    by: tuple[Dimension, ...] = Field(default=(), max_length=4, description="What the metric is divided by.")
    products: Names = Field(default=(), description="SKUs, ASINs or exact names of products; empty for all.")
    order: Order = Field(
        default=Order.KEY, description="`largest` or `smallest` value first, or by `key`: what it is divided by."
    )
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
    change: Decimal | None = Field(description="In the unit of the metric: percentage points, if that is percent.")
    change_percent: Decimal | None = Field(description="The change in percent of the other value.")


def list_metrics(_: Asker, __: NoArguments) -> ToolAnswer[MetricRow]:
    """List the metrics that `query` and `compare` take: name, meaning, formula, unit, grain and dimensions.

    Other numbers do not exist: do not compute one from these without saying so.
    """
    return ToolAnswer(
        rows=tuple(map(MetricRow.model_validate, METRICS)),
        proof=Proof(seen=Seen(command="seller-platform docs agents")),
    )


def query_metric(asker: Asker, arguments: FigureArguments) -> ToolAnswer[FigureRow]:
    """Answer one governed metric over local days of accounts, in total or by account, month, day or product.

    A period of which days are not stored is refused with the days that are; amounts of several currencies are never
    added: divide by account. A question by product needs whole months. Say the notes and the proof's problems and
    unsettled days with the number.

    Raises:
        UnanswerableError: The metric does not exist or cannot be divided so, its amounts are of several currencies, or
            days are not stored.
    """
    asked, query = figure_of(asker, arguments)
    rows, notes = _read(asker, query)
    if len(rows) > query.limit:
        rows, notes = rows[: query.limit], [*notes, f"There are more rows than the limit of {query.limit}."]
    return ToolAnswer(
        rows=tuple(FigureRow(**row) for row in rows),
        notes=(f"{query.metric.name} ({query.metric.unit}): {query.metric.doc}", *notes),
        proof=asked.prove(query.command, query.require_one_currency(rows)),
    )


def compare_periods(asker: Asker, arguments: CompareArguments) -> ToolAnswer[ComparedRow]:
    """Answer how a governed metric changed from another period to this one, with the change and its percentage.

    It is in total, or divided by account or product.

    Raises:
        UnanswerableError: As with `query_metric`, in either period; or it is divided by day or month.
    """
    if {Dimension.DAY, Dimension.MONTH} & set(arguments.by):
        raise UnanswerableError("two periods have no days or months in common", "Divide by account or product, or not.")
    asked, query = figure_of(asker, arguments)
    other = period_of(arguments.other_first_day, arguments.other_last_day)
    earlier = replace(asked, window=other).prove("")
    # What is among the first rows of one period need not be among those of the other.
    query = replace(query, limit=100_000)
    before_query = replace(query, window=other)
    (rows, notes), (before, before_notes) = _read(asker, query), _read(asker, before_query)
    if asked.window.days != other.days:
        notes = [*notes, f"The periods are unequal: {count_of(asked.window.days, 'day')} and {other.days}."]
    keys = [*map(str, query.by), "currency"]
    values, other_values = ({tuple(row[key] for key in keys): row["value"] for row in each} for each in (rows, before))
    every, compared = [*{**values, **other_values}], []
    for key in sorted(every, key=lambda key: [*map(str, key)]) if query.order is Order.KEY else every:
        value, other_value = values.get(key), other_values.get(key)
        change = value - other_value if value is not None and other_value is not None else None
        percent = round(100 * change / abs(other_value), 2) if change is not None and other_value else None
        facts = {**dict(zip(keys, key, strict=True)), "value": value, "other_value": other_value}
        compared.append(ComparedRow(**facts, change=change, change_percent=percent))
    currencies = query.require_one_currency((*rows, *before))
    return ToolAnswer(
        rows=tuple(compared[: arguments.limit]),
        notes=(
            f"{query.metric.name} ({query.metric.unit}): {query.metric.doc}",
            *notes,
            *(f"{other}: {note}" for note in (earlier.coverage, earlier.settledness, *earlier.problems, *before_notes)),
        ),
        proof=asked.prove(f"{query.command}; {before_query.command}", currencies),
    )


def figure_of(asker: Asker, arguments: FigureArguments) -> tuple[Asked, MetricQuery]:
    """Return what is asked, and the query that computes it.

    Raises:
        UnanswerableError: There is no such metric, account or product, or no table has the dimensions.
    """
    metrics, by = {each.name: each for each in METRICS}, tuple(dict.fromkeys(arguments.by))
    if arguments.metric not in metrics:
        reason = f"there is no metric {arguments.metric!r}{did_you_mean(arguments.metric, metrics)}"
        raise UnanswerableError(reason, "Take one of the candidates.", [*metrics])
    metric = metrics[arguments.metric]
    window, accounts = period_of(arguments.first_day, arguments.last_day), asker.chosen_accounts(arguments.accounts)
    asked_by = dict.fromkeys((*by, Dimension.PRODUCT) if arguments.products else by)
    table = metric.table_for(asked_by)
    if table is None:
        problem = f"{metric.name} has the grain {metric.grain}, so there is none by {' and '.join(asked_by)}"
        raise UnanswerableError(
            problem, f"Ask for all products, in total or by fewer of {', '.join(metric.dimensions)}."
        )
    asked = Asked(asker, accounts, window, table.datasets, table.mart)
    skus = _skus(asked, arguments.products)
    query = MetricQuery(metric, table, tuple(asked.keys), window, by, skus, arguments.order, arguments.limit)
    return asked, query


def _read(asker: Asker, query: MetricQuery) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of a query, and what has to be said with them."""
    rows, without_cost = query.read(asker.database)
    if without_cost:
        return rows, [f"{count_of(without_cost, 'unit')} without a valid cost: a profit is too high, or null."]
    return rows, [] if rows else ["There are no rows: nothing was sold or posted."]


def _skus(asked: Asked, names: Sequence[str]) -> tuple[str, ...]:
    """Return the SKUs of products by SKU, ASIN or exact name.

    Raises:
        UnanswerableError: No product that was sold in the period, or several, have the name.
    """
    if not names:
        return ()
    bound = {"accounts": asked.keys, "first": asked.window.start, "last": asked.window.last_day}
    with asked.asker.database.begin() as connection:
        products = dict(connection.execute(_PRODUCTS, bound).tuples().all())
    folded = {sku: [each.casefold() for each in (sku, *others)] for sku, others in products.items()}
    skus = []
    for name in names:
        equal = [name] if name in products else [sku for sku, all_ in folded.items() if name.strip().casefold() in all_]
        if len(equal) != 1:
            problem = f"not the SKU, the ASIN or the name of exactly one product that was sold in {asked.window}"
            raise refused_name(name, products, problem)
        skus += equal
    return tuple(dict.fromkeys(skus))
