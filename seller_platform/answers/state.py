"""The tools `coverage`, `problems` and `explain`: what is stored, what is wrong, and where a figure comes from."""

from datetime import date, datetime
from typing import Any

from pydantic import Field
from sqlalchemy import text

from seller_platform.answers.asker import Asker
from seller_platform.answers.figures import ACCOUNTS_DOC, FigureArguments, Names, command_of, figure_of
from seller_platform.answers.proof import MOST_PROBLEMS, Fact, Proof, Seen, ToolAnswer, hidden
from seller_platform.contract import REFRESHED
from seller_platform.counts import count_of
from seller_platform.warehouse.loads.provenance import ROWS_AT_MOST, Provenance, explain_days
from seller_platform.warehouse.monitoring.problems import problems

_SLICES = text("""
    SELECT dataset, account, month, load_id, rows, verdict, read_at,
           CASE WHEN month IS NOT NULL
                THEN (SELECT count(moment) FROM unnest(days_read) AS day (moment)) END AS days_read
    FROM platform.slices WHERE account = ANY (:accounts) AND load_id IS NOT NULL
    ORDER BY dataset, account, month LIMIT 1000
""")
_SOURCES = text("""
    SELECT 'load' AS kind, 'seller.' || dataset AS table, account, month, load_id AS number, rows, read_at AS at
    FROM platform.slices
    WHERE dataset = ANY (:datasets) AND account = ANY (:accounts) AND month = ANY (:months) AND load_id IS NOT NULL
    UNION ALL (
        SELECT DISTINCT ON (account, window_start) 'build', 'marts.' || mart, account, window_start, id, rows,
               finished_at
        FROM platform.mart_builds
        WHERE mart = :mart AND account = ANY (:accounts) AND window_start = ANY (:months)
        ORDER BY account, window_start, id DESC)
    ORDER BY kind DESC, 2, account, month LIMIT 1000
""")


class ChosenAccounts(Fact):
    """Accounts."""

    accounts: Names = Field(default=(), description=ACCOUNTS_DOC)


class SliceRow(Fact):
    """What is stored of a dataset in a month of an account."""

    dataset: str
    account: str
    month: date | None = Field(description="The first day of the month; null of a list without days.")
    load_id: int = Field(description="The newest load; `seller-platform diff` shows what it changed.")
    rows: int
    verdict: str
    read_at: datetime | None
    days_read: int | None = Field(description="How many days of the month were ever read.")


class ProblemRow(Fact):
    """What is wrong with slices of a dataset for one reason."""

    dataset: str
    kind: str
    message: str
    next_step: str | None
    is_warning: bool
    slices: int
    accounts: tuple[str, ...] = Field(description="The first three.")
    since: datetime | None


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
    is_exact: bool | None = Field(
        default=None, description="Whether it asks for the page of the row; else for the days of the rows on that page."
    )
    page: int | None = Field(default=None, description="The page of the load that brought a row.")
    run_id: str | None = Field(default=None, description="The run of Dagster that loaded a row.")
    confirmed_at: datetime | None = Field(default=None, description="When a later load last found a row as it is.")
    former_versions: int | None = Field(default=None, description="How often a row was another one before.")


def list_coverage(asker: Asker, arguments: ChosenAccounts) -> ToolAnswer[SliceRow]:
    """Answer what is stored, by dataset, account and month."""
    accounts = asker.chosen_accounts(arguments.accounts)
    with asker.database.begin() as connection:
        found = connection.execute(_SLICES, {"accounts": [each.key for each in accounts]}).mappings()
        rows = tuple(SliceRow(**row) for row in found)
    return ToolAnswer(
        rows=rows,
        proof=Proof(
            as_of=min((row.read_at for row in rows if row.read_at), default=None),
            coverage="What is stored of the accounts; a month with fewer days read than it has is not whole.",
            settledness="The proof of each figure says which of its days may still change.",
            bound=asker.bound(),
            time_zones=tuple(sorted({each.account.timezone for each in accounts})),
            seen=Seen(command="seller-platform status --by dataset"),
        ),
    )


def list_problems(asker: Asker, arguments: ChosenAccounts) -> ToolAnswer[ProblemRow]:
    """Answer what is wrong with the stored rows now."""
    accounts = [each.key for each in asker.chosen_accounts(arguments.accounts)]
    now = asker.clock()
    found = problems(asker.database, expected=REFRESHED, accounts=accounts, now=now, of=accounts)
    names = ("dataset", "kind", "next_step", "is_warning", "slices", "accounts", "since")
    rows = [
        ProblemRow(message=hidden(each.kind, each.message), **{name: getattr(each, name) for name in names})
        for each in found
    ]
    return ToolAnswer(
        rows=tuple(rows),
        notes=() if rows else ("Nothing is known to be wrong.",),
        proof=Proof(
            as_of=now,
            coverage="Every dataset of the accounts that is read regularly.",
            problems=tuple(row.message for row in rows[:MOST_PROBLEMS]),
            settledness="Problems are those of this moment.",
            bound=asker.bound(),
            seen=Seen(command='seller-platform query "TABLE platform.problems"', url=asker.dagster_url),
        ),
    )


def explain_figure(asker: Asker, arguments: FigureArguments) -> ToolAnswer[SourceRow]:
    """Answer which formula, loads, builds and rows a figure comes from, and which requests brought the rows.

    Raises:
        UnanswerableError: As with `query_metric`.
    """
    asked, query = figure_of(asker, arguments)
    proof = asked.prove(command_of(query))
    with asker.database.begin() as connection:
        rows = [SourceRow(**row) for row in connection.execute(_SOURCES, asked.bound).mappings()]
    metric = query.metric
    notes = [f"{metric.name}: {metric.doc} Formula: {metric.formula} of {query.table.table}, unit {metric.unit}."]
    most = min(query.limit, ROWS_AT_MOST)
    for dataset in asked.datasets:
        count, origins = explain_days(
            asker.database, dataset, asked.keys, asked.window, skus=query.products, limit=most
        )
        rows += map(_row, origins)
        if count > len(origins):
            notes.append(
                f"{len(origins)} of {count_of(count, 'row')} of {dataset.table} are listed: ask for single days or "
                "products to see the others."
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
        request=f"GET {request.target}" if request else None,
        is_exact=request.is_exact if request else None,
        page=origin.page,
        run_id=receipt.run_id if receipt else None,
        confirmed_at=max((each.finished_at for each in origin.confirmed), default=None),
        former_versions=len(origin.former),
    )
