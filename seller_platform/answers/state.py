"""The tools `coverage`, `problems` and `explain`: what is stored, what is wrong, and where a figure comes from."""

from datetime import date, datetime

from pydantic import Field
from sqlalchemy import text

from seller_platform.answers.asker import Asker
from seller_platform.answers.figures import ACCOUNTS_DOC, FigureArguments, Names, command_of, figure_of
from seller_platform.answers.proof import MOST_PROBLEMS, Fact, Proof, Seen, ToolAnswer, hidden
from seller_platform.contract import REFRESHED
from seller_platform.warehouse.monitoring.problems import problems

_SLICES = text("""
    SELECT dataset, account, month, load_id, rows, verdict, read_at,
           CASE WHEN month IS NOT NULL
                THEN (SELECT count(moment) FROM unnest(days_read) AS day (moment)) END AS days_read
    FROM platform.slices
    WHERE account = ANY (:accounts) AND load_id IS NOT NULL AND dataset = ANY (:datasets)
      AND (month IS NULL OR month BETWEEN date_trunc('month', CAST(:first AS timestamp)) AND :last)
    ORDER BY dataset, account, month LIMIT 1000
""")
_BUILDS = text("""
    SELECT DISTINCT ON (account, window_start) mart, account, window_start, id, rows, finished_at
    FROM platform.mart_builds
    WHERE mart = :mart AND account = ANY (:accounts) AND window_start < :end AND window_end > :first
    ORDER BY account, window_start, id DESC
""")
_HISTORY = (date(2000, 1, 1), date(2999, 12, 31))


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
    """A load or a build that a figure is computed from."""

    kind: str = Field(description="load or build.")
    table: str
    account: str
    month: date | None
    number: int = Field(description="The id of the load or the build.")
    rows: int
    at: datetime | None = Field(description="When it was read or built.")


def list_coverage(asker: Asker, arguments: ChosenAccounts) -> ToolAnswer[SliceRow]:
    """Answer what is stored, by dataset, account and month."""
    accounts = asker.chosen_accounts(arguments.accounts)
    bound = {"accounts": [each.key for each in accounts], "datasets": [each.name for each in REFRESHED]}
    with asker.database.begin() as connection:
        found = connection.execute(_SLICES, {**bound, "first": _HISTORY[0], "last": _HISTORY[1]}).mappings().all()
    rows = tuple(SliceRow(**{name: row[name] for name in SliceRow.model_fields}) for row in found)
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
    """Answer which formula, loads and builds a figure comes from.

    Raises:
        UnanswerableError: As with `query_metric`.
    """
    asked, query = figure_of(asker, arguments)
    bound = {"accounts": asked.keys, "datasets": [each.name for each in asked.datasets]}
    days = {"first": asked.window.start, "last": asked.window.last_day, "end": asked.window.end}
    with asker.database.begin() as connection:
        loads = connection.execute(_SLICES, bound | days).mappings().all()
        mart = asked.mart.name if asked.mart else ""
        builds = connection.execute(_BUILDS, {**days, "accounts": asked.keys, "mart": mart}).all()
    rows = [
        SourceRow(
            kind="load",
            table=f"seller.{row['dataset']}",
            account=row["account"],
            month=row["month"],
            number=row["load_id"],
            rows=row["rows"],
            at=row["read_at"],
        )
        for row in loads
    ]
    rows += [
        SourceRow(kind="build", table=f"marts.{name}", account=account, month=month, number=number, rows=count, at=at)
        for name, account, month, number, count, at in builds
    ]
    metric = query.metric
    return ToolAnswer(
        rows=tuple(rows),
        notes=(
            f"{metric.name}: {metric.doc} Formula: {metric.formula} of {query.table.table}, unit {metric.unit}.",
            "`seller-platform explain DATASET KEY` shows the request, page and run of a single row.",
        ),
        proof=asked.prove(command_of(query)),
    )
