"""The tool `explain`: where a figure comes from, down to the rows and the requests that brought them."""

from datetime import date, datetime
from typing import Any

from pydantic import Field
from sqlalchemy import text

from seller_platform.answers.asker import Asker
from seller_platform.answers.figures import FigureArguments, figure_of
from seller_platform.answers.proof import Fact, ToolAnswer
from seller_platform.counts import count_of
from seller_platform.warehouse.loads.provenance import Provenance, explain_days

_SOURCES = text("""
    SELECT 'load' AS kind, 'seller.' || dataset AS table, account, month, load_id AS number, rows, read_at AS at
    FROM platform.slices
    WHERE dataset = ANY (:datasets) AND account = ANY (:accounts) AND load_id IS NOT NULL
      AND (month IS NULL OR month = ANY (:months))
    UNION ALL (
        SELECT DISTINCT ON (account, window_start) 'build', 'marts.' || mart, account, window_start, id, rows,
               finished_at
        FROM platform.mart_builds
        WHERE mart = :mart AND account = ANY (:accounts) AND window_start = ANY (:months)
        ORDER BY account, window_start, id DESC)
    ORDER BY kind DESC, month NULLS LAST, 2, account LIMIT 1000
""")


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


def explain_figure(asker: Asker, arguments: ExplainArguments) -> ToolAnswer[SourceRow]:
    """Answer where a figure of `query` comes from: formula, statement, loads, builds, and rows with their requests.

    Of each table only the first rows are listed. Ask for more `rows`, or for a single day or product to see all.

    Raises:
        UnanswerableError: As with `query_metric`.
    """
    asked, query = figure_of(asker, arguments)
    proof = asked.prove(query.command)
    mart, months = asked.mart.name if asked.mart else "", [each.start for each in asked.months]
    bound = {"datasets": asked.inputs, "mart": mart, "accounts": asked.keys, "months": months}
    with asker.database.begin() as connection:
        rows = list(map(SourceRow.model_validate, connection.execute(_SOURCES, bound)))
    metric = query.metric
    notes = [f"{metric.name}: {metric.doc} Formula: {metric.formula} of {query.table.table}, unit {metric.unit}."]
    if len(rows) == 1_000:
        notes.append("Only the first 1,000 loads and builds are listed: ask for fewer accounts or months.")
    for each in asked.datasets:
        count, origins = explain_days(
            asker.database, each, asked.keys, asked.window, query.products, limit=arguments.rows
        )
        rows += map(_row, origins)
        if count > len(origins):
            notes.append(
                f"{len(origins)} of {count_of(count, 'row')} of {each.table} are listed: ask for more rows, or for "
                "single days or products."
            )
    return ToolAnswer(rows=tuple(rows), notes=tuple(notes), proof=proof)


def _row(origin: Provenance) -> SourceRow:
    receipt, request, day = origin.receipt, origin.request, origin.slice_value
    assert isinstance(day, date), "figures are computed from dated datasets"
    return SourceRow(
        kind="row",
        table=origin.dataset.table,
        account=origin.account,
        month=day.replace(day=1),
        number=origin.load_id,
        rows=1,
        at=receipt.finished_at if receipt else None,
        values=dict(origin.row),
        request=f"GET {request.url}" if request else None,
        is_exact=request.is_exact if request else None,
        page=origin.page,
        run_id=receipt.run_id if receipt else None,
        confirmed_at=max((each.finished_at for each in origin.confirmed), default=None),
        former_versions=len(origin.former),
    )
