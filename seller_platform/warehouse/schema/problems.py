"""The view `platform.problems`: what is wrong now, one row for each thing.

Each module that makes something also has the SELECT of what may be wrong with it, as a `ProblemSource`. The view is
their union, without retired accounts, and says who knows what. It is created anew after each upgrade, because it
follows from the contract. Marts and closings ask a source itself: they need retired accounts, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql
from sqlalchemy import Connection

from seller_platform.errors import CheckFailedError
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.creation import create_view


@dataclass(frozen=True)
class ProblemKind:
    """A kind of problem, for the documents.

    Attributes:
        severity: error, warning or note; several where it depends on more.
        doc: What is wrong.
        ends: What ends it.
    """

    name: str
    severity: str
    doc: str
    ends: str


@dataclass(frozen=True)
class ProblemSource:
    """Kinds of problems with the SELECT that returns them.

    It returns `dataset`, `account`, `kind`, `severity` and `message`, and any other column of the view.
    """

    kinds: Sequence[ProblemKind]
    select: str


_COLUMNS = {
    "dataset": ("", "The table in schema seller; of a mart marts.NAME, of files exports.NAME."),
    "account": ("", "Key of the account; of the dataset accounts also the connection."),
    "month": ("date", "The first day of the month; null where the list has no days."),
    "kind": ("", "What it is, in one word; the page checks lists the kinds."),
    "severity": (
        "",
        "error: rows are missing or wrong, or will be; warning: they are useful; note: nothing is to be done.",
    ),
    "error": ("text", "The class of the error of a failed slice; the check that contradicts a mart."),
    "since": ("timestamptz", "Since when, where that is known."),
    "load_id": ("bigint", "The load that shows it, where there is one: platform.loads.id."),
    "run_id": ("text", "The Dagster run that shows it, where there is one."),
    "rows": ("bigint", "How many rows are concerned, where that is known."),
    "amount": ("numeric", "The money at stake, where that is known."),
    "currency": ("text", "Its currency."),
    "message": ("", "What happened; of a failed slice with the next step."),
    "next_step": ("text", "What to do; null where the message says it."),
    "exit_code": ("integer", "With which exit code a command ends for it."),
}
"""The columns of the view: the type of those that a SELECT need not return, and what each is."""
_ACKNOWLEDGED = {
    "acknowledged_until": "Until which day a person knows it; null where no person does.",
    "acknowledged_by": "The login that acknowledged it.",
}

# A subquery reads the columns that a SELECT does not return from the query around it.
_SOURCE = (
    "SELECT problem.* FROM (SELECT {absent}) AS absent, LATERAL (SELECT {columns} FROM ({select}) AS source) AS problem"
)
_VIEW = """
SELECT problem.*, known.until AS acknowledged_until, known.by AS acknowledged_by
FROM ({}) AS problem
LEFT JOIN platform.acknowledgements AS known
       ON known.kind = problem.kind AND known.dataset = problem.dataset AND known.account = problem.account
      AND known.month IS NOT DISTINCT FROM problem.month AND known.message = problem.message
      AND coalesce(known.until, 'infinity') >= current_date
      AND (known.is_error OR problem.severity <> 'error')
      AND coalesce(problem.rows, 0) <= coalesce(known.rows, 0)
      AND coalesce(problem.currency, '') = coalesce(known.currency, '')
      AND abs(coalesce(problem.amount, 0)) <= abs(coalesce(known.amount, 0))
WHERE problem.kind = 'retired'
   OR problem.account NOT IN (SELECT key FROM platform.accounts WHERE retired_at IS NOT NULL)
"""


def create_problems(connection: Connection, sources: Sequence[ProblemSource]) -> None:
    """Create the view anew."""
    absent = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, (kind, _) in _COLUMNS.items() if kind)
    exit_code = f"coalesce(exit_code, {CheckFailedError.exit_code}) AS exit_code"
    columns = ", ".join(_COLUMNS).replace("exit_code", exit_code)
    selects = [_SOURCE.format(absent=absent, columns=columns, select=source.select) for source in sources]
    view = sql.SQL(_VIEW).format(sql.SQL(" UNION ALL ".join(selects)))
    comment = "What is wrong now, one row for each thing."
    comments = {name: described for name, (_, described) in _COLUMNS.items()} | _ACKNOWLEDGED
    create_view(driver_of(connection), "platform.problems", view, comment, comments)
