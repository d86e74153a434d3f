"""The tools `metrics`, `query`, `compare` and `explain`: governed numbers, their changes, and where they come from."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlencode

from pydantic import Field, StringConstraints
from sqlalchemy import and_, text

from seller_platform.agents.asker import Asker, refused_name
from seller_platform.agents.metric_queries import MetricQuery
from seller_platform.agents.metrics import METRICS, Dimension, MetricUnit, Order
from seller_platform.agents.proof import (
    Asked,
    ChosenAccounts,
    Fact,
    Name,
    Names,
    NoArguments,
    Proof,
    Seen,
    ToolAnswer,
    beyond,
    period_of,
)
from seller_platform.contract import LOCAL_DAY, Dataset, Window
from seller_platform.counts import count_of
from seller_platform.errors import UnanswerableError, did_you_mean
from seller_platform.warehouse.history.provenance import Provenance, explained
from seller_platform.warehouse.loads.history_start import EARLIEST
from seller_platform.warehouse.schema.tables import table_for

_PRODUCTS = text("""
    SELECT sku, array_remove(ARRAY[min(asin), min(product_name)], NULL)
    FROM seller.daily_product_sales
    WHERE account = ANY (:accounts) AND local_day BETWEEN :first AND :last AND sku IS NOT NULL
    GROUP BY sku ORDER BY sku
""")
_SOURCES = text("""
    SELECT 'load' AS kind, 'seller.' || dataset AS table, account, month, load_id AS number, rows, read_at AS at
    FROM platform.slices
    WHERE dataset = ANY (:datasets) AND account = ANY (:accounts) AND load_id IS NOT NULL
      AND (month IS NULL OR month = ANY (:months))
    UNION ALL (
        SELECT DISTINCT ON (mart, account, window_start) 'build', 'marts.' || mart, account, window_start, id, rows,
               finished_at
        FROM platform.mart_builds
        WHERE mart = ANY (:marts) AND account = ANY (:accounts) AND window_start = ANY (:months)
        ORDER BY mart, account, window_start, id DESC)
    ORDER BY kind DESC, month NULLS LAST, 2, account LIMIT 1000
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

    metric: Name = Field(description="A name that the tool `metrics` lists.")
    first_day: date = Field(description="In the account's time zone.")
    last_day: date = Field(description="Inclusive.")
    by: tuple[Dimension, ...] = Field(default=(), max_length=4, description="What to divide by. Weeks begin on Monday.")
    products: Names = Field(default=(), description="SKUs, ASINs or exact names of products; empty for all.")
    order: Order = Field(default=Order.KEY, description="`rise` and `fall` are of `compare`: by the change.")
    limit: int = Field(default=100, ge=1, le=1_000, description="The most rows.")
    currency: Annotated[str, StringConstraints(to_upper=True, pattern="^[A-Za-z]{3}$")] | None = Field(
        default=None, description="An ISO 4217 code: converts amounts to it by the stored rates of each day."
    )


class CompareArguments(FigureArguments):
    """Two periods of a governed metric."""

    other_first_day: date = Field(description="Of the period to compare with.")
    other_last_day: date = Field(description="Inclusive.")


class FigureRow(Fact):
    """A value of a metric, with what it is divided by."""

    account: str | None = None
    month: date | None = None
    week: date | None = Field(default=None, description="Its Monday.")
    day: date | None = None
    product: str | None = Field(default=None, description="SKU; null of what names none.")
    status: str | None = None
    currency: str | None = Field(default=None, description="Of an amount or a share of one.")
    value: Decimal | None = Field(description="Null where it is not known.")
    sales_without_cost: Decimal | None = Field(
        default=None, description="The revenue of units without a valid cost, whose cost the value lacks."
    )


class ComparedRow(FigureRow):
    """The values of a metric in two periods."""

    other_value: Decimal | None
    other_sales_without_cost: Decimal | None = None
    change: Decimal | None = Field(description="In the unit of the metric: percentage points, if that is percent.")
    change_percent: Decimal | None = Field(description="The change in percent of the other value.")


class ExplainArguments(FigureArguments):
    """A figure, and how many of its rows to list."""

    rows: int = Field(default=20, ge=0, le=200, description="The most rows of each table that it was computed from.")


class SourceRow(Fact):
    """A load, a build or a row that a figure is computed from."""

    kind: str = Field(description="load, build or row.")
    table: str
    account: str
    month: date | None
    number: int = Field(description="Of the load or the build; of a row, that of the load that brought it.")
    rows: int
    at: datetime | None = Field(description="When it ended; of a load, when it was last repeated.")
    values: dict[str, Any] | None = Field(default=None, description="The values of a row, as the upstream sent them.")
    request: str | None = Field(default=None, description="The request to the upstream that brought a row.")
    is_exact: bool | None = Field(default=None, description="Whether it asks for the page; else for the page's days.")
    page: int | None = Field(default=None, description="The page of the load that brought a row.")
    run_id: str | None = Field(default=None, description="The run of Dagster that loaded a row.")
    confirmed_at: datetime | None = Field(default=None, description="When a later load last found a row as it is.")
    former_versions: int | None = Field(default=None, description="How often a row was another one before.")


def list_metrics(_: Asker, __: NoArguments) -> ToolAnswer[MetricRow]:
    """List the metrics that `query` and `compare` take: name, meaning, formula, unit, grain and dimensions.

    Other numbers do not exist. If none of these is what was asked for, tell the user; do not take another one.
    """
    return ToolAnswer(
        rows=tuple(map(MetricRow.model_validate, METRICS)),
        proof=Proof(seen=Seen(command="seller-platform docs agents")),
    )


def query_metric(asker: Asker, arguments: FigureArguments) -> ToolAnswer[FigureRow]:
    """Answer one governed metric over local days, in total or by account, month, week, day, product or status.

    A period of which days are not stored is refused with the days that are. Amounts of several currencies are never
    added: divide by account, or give `currency`. Profits by product need whole months. Say the notes, and the proof's
    problems and unsettled days, with the number.

    Raises:
        UnanswerableError: The metric does not exist or cannot be divided so, its amounts are of several currencies, or
            days are not stored.
    """
    if arguments.order in (Order.RISE, Order.FALL):
        raise UnanswerableError("one period has no change to order by", "Ask `compare` for two periods.")
    asked, query = figure_of(asker, arguments)
    proof = asked.prove(query.command)
    rows, notes = query.read(asker.database)
    currencies = query.require_one_currency(rows)
    return ToolAnswer(
        rows=tuple(FigureRow(**row) for row in rows[: query.limit]),
        notes=(f"{query.metric.name} ({query.metric.unit}): {query.metric.doc}", *notes, *beyond(query.limit, rows)),
        proof=proof.model_copy(update={"currencies": currencies}),
    )


def compare_periods(asker: Asker, arguments: CompareArguments) -> ToolAnswer[ComparedRow]:
    """Answer how a governed metric changed from another period to this one, with the change and its percentage.

    It is in total, or divided by account, product or status.

    Raises:
        UnanswerableError: As with `query_metric`, in either period; or it is divided by day or month.
    """
    if {Dimension.DAY, Dimension.WEEK, Dimension.MONTH} & set(arguments.by):
        raise UnanswerableError("two periods have no days or months in common", "Divide by account or product, or not.")
    asked, query = figure_of(asker, arguments)
    other = period_of(arguments.other_first_day, arguments.other_last_day)
    earlier = replace(asked, windows=[other] * len(asked.accounts)).prove("")
    # What is among the first rows of one period need not be among those of the other.
    query = replace(query, limit=100_000)
    before_query = replace(query, window=other)
    proof = asked.prove(f"{query.command}; {before_query.command}")
    (rows, notes), (before, before_notes) = query.read(asker.database), before_query.read(asker.database)
    if asked.window.days != other.days:
        notes = [*notes, f"The periods are unequal: {count_of(asked.window.days, 'day')} and {other.days}."]
    keys = [*map(str, query.by), "currency"]
    these, others = ({tuple(row[key] for key in keys): row for row in each} for each in (rows, before))
    compared = []
    for key in sorted({**these, **others}, key=lambda key: [*map(str, key)]):
        row, other_row = ({"value": query.metric.of_nothing, **each.get(key, {})} for each in (these, others))
        value, other_value = row["value"], other_row["value"]
        change = value - other_value if value is not None and other_value is not None else None
        percent = round(100 * change / abs(other_value), 2) if change is not None and other_value else None
        facts = {**dict(zip(keys, key, strict=True)), **row}
        facts |= {f"other_{name}": each for name, each in other_row.items() if name not in keys}
        compared.append(ComparedRow(**facts, change=change, change_percent=percent))
    if arguments.order is not Order.KEY:
        compared.sort(key=partial(_place, arguments.order))
    currencies = query.require_one_currency((*rows, *before))
    return ToolAnswer(
        rows=tuple(compared[: arguments.limit]),
        notes=(
            f"{query.metric.name} ({query.metric.unit}): {query.metric.doc}",
            *notes,
            *(f"{other}: {note}" for note in (earlier.coverage, earlier.settledness, *earlier.problems, *before_notes)),
            *beyond(arguments.limit, compared),
        ),
        proof=proof.model_copy(update={"currencies": currencies}),
    )


def _place(order: Order, row: ComparedRow) -> tuple[bool, Decimal]:
    """Return where a row comes among others; one without an amount is among the last."""
    amount = row.change if order in (Order.RISE, Order.FALL) else row.value
    sign = 1 if order in (Order.SMALLEST, Order.FALL) else -1
    return amount is None, sign * (amount or Decimal(0))


def explain_figure(asker: Asker, arguments: ExplainArguments) -> ToolAnswer[SourceRow]:
    """Answer where a figure of `query` comes from: formula, statement, loads, builds, and rows with their requests.

    Of each table only the first rows are listed. Ask for more `rows`, or for a single day or product to see all.

    Raises:
        UnanswerableError: As with `query_metric`.
    """
    asked, query = figure_of(asker, arguments)
    proof = asked.prove(query.command)
    marts, months = [each.name for each in asked.marts], [each.start for each in asked.months]
    bound = {"datasets": asked.inputs, "marts": marts, "accounts": asked.keys, "months": months}
    with asker.database.begin() as connection:
        rows = list(map(SourceRow.model_validate, connection.execute(_SOURCES, bound)))
    metric = query.metric
    notes = [f"{metric.name}: {metric.doc} Formula: {metric.formula} of {query.table.names}, unit {metric.unit}."]
    if len(rows) == 1_000:
        notes.append("Only the first 1,000 loads and builds are listed: ask for fewer accounts or months.")
    for each in asked.datasets:
        stored = table_for(each).c
        days = and_(stored[LOCAL_DAY] >= asked.window.start, stored[LOCAL_DAY] < asked.window.end)
        products = [stored.sku.in_(query.products)] if query.products else []
        condition = and_(stored.account.in_(asked.keys), days, *products)
        count, origins = explained(asker.database, each, condition, arguments.rows)
        rows += (_row(each, origin) for origin in origins)
        if count > len(origins):
            notes.append(
                f"{len(origins)} of {count_of(count, 'row')} of {each.table} are listed: ask for more rows, or for "
                "single days or products."
            )
    return ToolAnswer(rows=tuple(rows), notes=tuple(notes), proof=proof)


def figure_of(asker: Asker, arguments: FigureArguments) -> tuple[Asked, MetricQuery]:
    """Return what is asked, and the query that computes it.

    Raises:
        UnanswerableError: There is no such metric, account or product, or no table has the dimensions.
    """
    metrics, by = {each.name: each for each in METRICS}, tuple(dict.fromkeys(arguments.by))
    if arguments.metric not in metrics:
        raise UnanswerableError(
            f"there is no metric {arguments.metric!r}{did_you_mean(arguments.metric, metrics)}",
            "The candidates are all that exist. If none is what was asked for, tell the user that it is not known.",
            [*metrics],
        )
    metric = metrics[arguments.metric]
    window, accounts = period_of(arguments.first_day, arguments.last_day), asker.chosen_accounts(arguments.accounts)
    asked_by = dict.fromkeys((*by, Dimension.PRODUCT) if arguments.products else by)
    table = metric.table_for(asked_by, window)
    if table is None:
        problem = f"{metric.name} has the grain {metric.grain}, so there is none by {' and '.join(asked_by)}"
        others = [each.name for each in METRICS if each.table_for(asked_by, window)]
        raise UnanswerableError(
            problem,
            f"Ask for all products, in total or by fewer of {', '.join(metric.dimensions)}. The candidates are other "
            "metrics, which exist by these.",
            others,
        )
    checked = [mart for each in metric.tables for mart in each.marts]
    asked = Asked(asker, accounts, [window] * len(accounts), table.datasets, table.marts, checked)
    skus = _skus(asked, arguments.products)
    keys, order, limit = tuple(asked.keys), arguments.order, arguments.limit
    return asked, MetricQuery(metric, table, keys, window, by, skus, order, limit, arguments.currency)


def _skus(asked: Asked, names: Sequence[str]) -> tuple[str, ...]:
    """Return the SKUs of products by SKU, ASIN or exact name: of those sold in the period or else, of all ever sold."""
    if not names:
        return ()
    products = _products(asked, asked.window)
    if not all(_named(name, products) for name in names):
        products = _products(asked, Window(EARLIEST, asked.window.end))
    skus = []
    for name in names:
        equal = _named(name, products)
        if len(equal) != 1:
            problem = (
                f"not the SKU, the ASIN or the name of exactly one product that was sold by {asked.window.last_day}"
            )
            raise refused_name(name, products, problem)
        skus += equal
    return tuple(dict.fromkeys(skus))


def _products(asked: Asked, window: Window) -> dict[str, list[str]]:
    """Return the SKUs that were sold on days, with the other names of each."""
    bound = {"accounts": asked.keys, "first": window.start, "last": window.last_day}
    with asked.asker.database.begin() as connection:
        return dict(connection.execute(_PRODUCTS, bound).tuples().all())


def _named(name: str, products: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the SKUs that a name stands for."""
    if name in products:
        return [name]
    folded = name.strip().casefold()
    return [sku for sku, others in products.items() if folded in (each.casefold() for each in (sku, *others))]


def _row(dataset: Dataset, origin: Provenance) -> SourceRow:
    load, request = origin.load, origin.request
    return SourceRow(
        kind="row",
        table=dataset.table,
        account=origin.account,
        month=origin.local_day and origin.local_day.replace(day=1),
        number=origin.load_id,
        rows=1,
        at=load.finished_at if load else None,
        values=origin.row,
        # The operator alone knows the address of the upstream.
        request=f"GET {dataset.path}?{urlencode(request.params)}".rstrip("?") if request else None,
        is_exact=request.is_exact if request else None,
        page=origin.page,
        run_id=load.run_id if load else None,
        confirmed_at=origin.confirmed_at,
        former_versions=len(origin.former_versions),
    )
