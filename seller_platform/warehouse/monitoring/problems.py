"""What is wrong now, by dataset and reason: the view `platform.problems` without what needs no alert."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from sqlalchemy import text

from seller_platform.contract import Dataset
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.problems import READ_WITHIN_HOURS

_ACCOUNTS_FAIL_FOR = timedelta(minutes=15)


@dataclass(frozen=True)
class Problem:
    """What is wrong with slices of a dataset for one reason.

    Attributes:
        kind: As in `platform.problems`.
        is_warning: Whether the rows are still useful.
        next_step: None where the message says it.
        slices: How many slices have it.
        accounts: The accounts of the first three slices; of the accounts themselves the connections.
        months: Their months; None of a list without days.
        since: The earliest, where that is known.
        run_id: A run that shows it, if there is one.
    """

    kind: str
    is_warning: bool
    dataset: str
    message: str
    next_step: str | None
    slices: int
    accounts: Sequence[str]
    months: Sequence[date | None]
    since: datetime | None
    run_id: str | None


# A list of accounts is requested again within minutes without a run. What the planner leaves for later is no problem.
_PROBLEMS = text("""
    SELECT kind, is_warning, dataset, message, min(next_step), count(DISTINCT (account, month)),
           (array_agg(account ORDER BY account, month))[1:3], (array_agg(month ORDER BY account, month))[1:3],
           min(since), max(run_id)
    FROM platform.problems
    WHERE (kind <> 'postponed' OR run_id IS NOT NULL)
      AND (CAST(:of AS text[]) IS NULL OR account = ANY (CAST(:of AS text[])))
      AND (kind <> 'failed' OR dataset <> 'accounts' OR run_id IS NOT NULL OR since < now() - :accounts_fail_for)
      AND (kind NOT IN ('missing', 'incomplete', 'late') OR dataset = ANY (:expected) AND account IN (
          SELECT key FROM platform.accounts WHERE key = ANY (:accounts) AND first_seen_at < :seen_before))
    GROUP BY kind, is_warning, dataset, message
    ORDER BY min(since), dataset, message
""")


def problems(
    database: Database,
    *,
    expected: Collection[Dataset],
    accounts: Collection[str],
    now: datetime,
    of: Collection[str] | None = None,
) -> tuple[Problem, ...]:
    """Return what is wrong, oldest first.

    Args:
        expected: The datasets that are read regularly. Unread slices of others are left out.
        accounts: The keys of the accounts that are read regularly. New ones have a day for their first loads.
        of: The keys of the accounts, and the names of the connections, whose problems are returned; None for all.
    """
    bound = {
        "expected": [dataset.name for dataset in expected],
        "accounts": list(accounts),
        "of": None if of is None else list(of),
        "seen_before": now - timedelta(hours=READ_WITHIN_HOURS),
        "accounts_fail_for": _ACCOUNTS_FAIL_FOR,
    }
    return tuple(Problem(*row) for row in database.execute(_PROBLEMS, bound))


# What lacks days is not among them: it shows in what is stored.
_OF_MONTHS = text("""
    SELECT DISTINCT dataset || ' of ' || account || coalesce(to_char(month, ', YYYY-MM'), '') AS named, kind, message
    FROM platform.problems
    WHERE dataset = ANY (:tables) AND account = ANY (:accounts) AND kind NOT IN ('missing', 'incomplete', 'late')
      AND (month IS NULL OR month = ANY (:months))
    ORDER BY 1, 2, 3
""")


def problems_of_months(
    database: Database, tables: Sequence[str], accounts: Sequence[str], months: Sequence[date]
) -> Sequence[tuple[str, str, str]]:
    """Return what is wrong with the rows that are stored: the name of each slice, the kind and the message.

    Args:
        tables: The names of datasets, and of marts with their schema.
        months: The first days of months; slices without days count always.
    """
    bound = {"tables": tables, "accounts": accounts, "months": months}
    return database.execute(_OF_MONTHS, bound).tuples().all()
