"""What is wrong now, by dataset and reason: the view `platform.problems`, and who knows what of it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from sqlalchemy import text

from seller_platform import errors
from seller_platform.contract import Dataset
from seller_platform.warehouse.postgres.database import Database

_ACCOUNTS_FAIL_FOR = timedelta(minutes=15)
_FIRST_CODES = (errors.ReauthorizationRequiredError.exit_code, errors.UpstreamError.exit_code)


@dataclass(frozen=True)
class Problem:
    """What is wrong with slices of a dataset for one reason.

    Attributes:
        kind: As in `platform.problems`, like `severity`, `exit_code` and `message`.
        next_step: None where the message says it.
        slices: How many slices have it.
        owners: How many accounts, or connections.
        accounts: The accounts of the first three slices; of the accounts themselves the connections.
        months: Their months; None of a list without days.
        first_month: The earliest month of all slices.
        since: The earliest, where that is known.
        run_id: A run that shows it, if there is one.
        rows: How many rows are concerned, where that is known.
        amount: The money at stake, where that is known.
        acknowledged_by: The login that acknowledged it; None unless it is acknowledged.
    """

    kind: str
    severity: str
    dataset: str
    message: str
    next_step: str | None
    exit_code: int
    slices: int
    owners: int
    accounts: Sequence[str]
    months: Sequence[date | None]
    first_month: date | None
    last_month: date | None
    since: datetime | None
    run_id: str | None
    rows: int | None
    amount: Decimal | None
    currency: str | None
    acknowledged_until: date | None
    acknowledged_by: str | None


_PROBLEMS = text("""
    SELECT kind, severity, dataset, message, min(next_step), min(exit_code), count(DISTINCT (account, month)),
           count(DISTINCT account), (array_agg(account ORDER BY account, month))[1:3],
           (array_agg(month ORDER BY account, month))[1:3],
           min(month), max(month), min(since), max(run_id), CAST(sum(rows) AS bigint), sum(amount), currency,
           min(acknowledged_until), acknowledged_by
    FROM platform.problems
    WHERE (CAST(:of AS text[]) IS NULL OR account = ANY (CAST(:of AS text[])))
      AND (kind NOT IN ('missing', 'incomplete', 'late') OR dataset = ANY (:expected) AND account = ANY (:accounts))
    GROUP BY kind, severity, dataset, message, currency, acknowledged_by
    ORDER BY acknowledged_by IS NOT NULL, array_position(ARRAY['error', 'warning', 'note'], severity),
             abs(sum(amount)) DESC NULLS LAST, min(since), dataset, message
""")


def problems(
    database: Database,
    *,
    expected: Collection[Dataset],
    accounts: Collection[str],
    of: Collection[str] | None = None,
) -> tuple[Problem, ...]:
    """Return what is wrong, errors first, those with the most money before others.

    Args:
        expected: The datasets that are read regularly. Unread slices of others are left out.
        accounts: The keys of the accounts that are read regularly.
        of: The keys of the accounts, and the names of the connections, whose problems are returned; None for all.
    """
    bound = {
        "expected": [dataset.name for dataset in expected],
        "accounts": list(accounts),
        "of": None if of is None else list(of),
    }
    with database.begin() as connection:
        return tuple(Problem(*row) for row in connection.execute(_PROBLEMS, bound))


def failing(found: Iterable[Problem], fail_on: str = "error") -> tuple[Problem, ...]:
    """Return the problems that let a command fail: errors, or warnings too, that are not acknowledged.

    Args:
        fail_on: error, warning or never.
    """
    severities = {"error": ("error",), "warning": ("error", "warning")}.get(fail_on, ())
    return tuple(each for each in found if each.severity in severities and each.acknowledged_by is None)


def exit_code_of(found: Iterable[Problem]) -> int:
    """Return the exit code of a command that ends with these problems: 3, 4, then 5; 0 without any."""
    codes = {each.exit_code for each in found}
    return next((code for code in _FIRST_CODES if code in codes), max(codes, default=0))


def to_report(found: Iterable[Problem], now: datetime) -> tuple[Problem, ...]:
    """Return the problems that people hear of unasked.

    A list of accounts is requested again within minutes without a run.
    """
    return tuple(
        each
        for each in failing(found, "warning")
        if each.kind != "failed"
        or each.dataset != "accounts"
        or each.run_id
        or each.since is None
        or each.since < now - _ACCOUNTS_FAIL_FOR
    )


_ACKNOWLEDGE = text("""
    INSERT INTO platform.acknowledgements (kind, dataset, account, month, message, rows, amount, until, note)
    SELECT kind, dataset, account, month, message, max(rows), max(abs(amount)), CAST(:until AS date),
           CAST(:note AS text)
    FROM platform.problems
    WHERE kind = :kind AND (CAST(:dataset AS text) IS NULL OR dataset = :dataset)
      AND (CAST(:account AS text) IS NULL OR account = :account)
      AND (CAST(:month AS date) IS NULL OR month = :month)
    GROUP BY kind, dataset, account, month, message
    ON CONFLICT (kind, dataset, account, month, md5(message)) DO UPDATE
    SET rows = excluded.rows, amount = excluded.amount, until = excluded.until, note = excluded.note, by = excluded.by,
        at = now()
    RETURNING dataset, account, month
""")


def acknowledge(
    database: Database,
    kind: str,
    *,
    dataset: str | None = None,
    account: str | None = None,
    month: date | None = None,
    until: date | None = None,
    note: str | None = None,
) -> Sequence[tuple[str, str, date | None]]:
    """Note that a person knows the problems of a kind, and return their datasets, accounts and months.

    Args:
        month: Its first day.
        until: The last day; without it, until the problem ends or gets worse.

    Raises:
        RequestError: There is no such problem.
    """
    bound = {"kind": kind, "dataset": dataset, "account": account, "month": month, "until": until, "note": note}
    with database.begin() as connection:
        known = connection.execute(_ACKNOWLEDGE, bound).tuples().all()
        kinds = connection.execute(text("SELECT DISTINCT kind FROM platform.problems ORDER BY 1")).scalars().all()
    if not known:
        of = "".join(f" of {each}" for each in (dataset, account, month and f"{month:%Y-%m}") if each)
        now = f"; what is wrong now is {', '.join(kinds)}" if kinds else "; nothing is wrong now"
        raise errors.RequestError(f"there is no problem {kind!r}{of}{now}", step="Run `seller-platform status`.")
    return known


def end_acknowledgements(database: Database) -> None:
    """Delete the acknowledgements of what has ended or got worse, so that its next time is not known."""
    with database.begin() as connection:
        connection.execute(_END)


_END = text("""
    DELETE FROM platform.acknowledgements AS known
    WHERE NOT EXISTS (
        SELECT FROM platform.problems AS problem
        WHERE acknowledged_by IS NOT NULL AND problem.kind = known.kind AND problem.dataset = known.dataset
          AND problem.account = known.account AND problem.month IS NOT DISTINCT FROM known.month
          AND problem.message = known.message)
""")


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
