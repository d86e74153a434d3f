"""What is wrong now, by dataset and reason: the view `platform.problems`, and who knows what of it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

import msgspec
from sqlalchemy import text

from seller_platform import errors
from seller_platform.commands import runnable
from seller_platform.warehouse.connections.accounts import account_named, connections
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


class SliceProblem(msgspec.Struct, frozen=True):
    """What is wrong with a slice, or a partition of a mart: a row of `platform.problems`.

    Attributes:
        account: The key of the account; of the list of accounts also the connection.
        month: Its first day; None of a list without days.
        error: The class of the error of a failed slice; the check that contradicts a mart.
        acknowledged_by: The login that acknowledged it; None unless it is acknowledged.
    """

    kind: str
    severity: str
    dataset: str
    account: str
    month: date | None
    error: str | None
    since: datetime | None
    rows: int | None
    amount: Decimal | None
    currency: str | None
    message: str
    next_step: str | None
    acknowledged_by: str | None

    @property
    def subject(self) -> str:
        """What has the problem, such as `orders of us-1, 2026-03`."""
        return f"{self.dataset} of {self.account}{f', {self.month:%Y-%m}' if self.month else ''}"

    @property
    def sentence(self) -> str:
        """What happened, and the next step."""
        return runnable(f"{self.message} {self.next_step or ''}".strip())


_CHOSEN = """
    FROM platform.problems
    WHERE (CAST(:datasets AS text[]) IS NULL OR dataset = ANY (CAST(:datasets AS text[])))
      AND (CAST(:accounts AS text[]) IS NULL OR account = ANY (CAST(:accounts AS text[])))
      AND (CAST(:months AS date[]) IS NULL OR month IS NULL OR month = ANY (CAST(:months AS date[])))
"""
_SEVERITY = "array_position(ARRAY['error', 'warning', 'note'], severity)"
_OF_SLICES = text(f"""
    SELECT kind, severity, dataset, account, month, error, since, rows, amount, currency, message, next_step,
           acknowledged_by {_CHOSEN}
    ORDER BY {_SEVERITY}, month DESC, dataset, account, load_id DESC
""")
_PROBLEMS = text(f"""
    SELECT kind, severity, dataset, message, min(next_step), min(exit_code), count(DISTINCT (account, month)),
           count(DISTINCT account), (array_agg(account ORDER BY account, month))[1:3],
           (array_agg(month ORDER BY account, month))[1:3],
           min(month), max(month), min(since), max(run_id), CAST(sum(rows) AS bigint), sum(amount), currency,
           min(acknowledged_until), acknowledged_by {_CHOSEN}
    GROUP BY kind, severity, dataset, message, currency, acknowledged_by
    ORDER BY acknowledged_by IS NOT NULL, {_SEVERITY}, currency, abs(sum(amount)) DESC NULLS LAST, min(since), dataset,
             message
""")  # constants


def problems(database: Database, *, accounts: Collection[str] | None = None) -> tuple[Problem, ...]:
    """Return what is wrong, errors first, those with the most money before others of the currency.

    The accounts are chosen as by `slice_problems`.
    """
    bound = {"datasets": None, "accounts": None if accounts is None else list(accounts), "months": None}
    return tuple(Problem(*row) for row in database.execute(_PROBLEMS, bound))


def slice_problems(
    database: Database,
    datasets: Collection[str] | None = None,
    *,
    accounts: Collection[str] | None = None,
    months: Collection[date] | None = None,
) -> tuple[SliceProblem, ...]:
    """Return what is wrong with each slice, errors and newest months first.

    Args:
        datasets: The names of datasets, and of marts with their schema; None for all.
        accounts: The keys of accounts, and the names of connections; None for all.
        months: The first days of months; slices without days count always. None for all.
    """
    chosen = {"datasets": datasets, "accounts": accounts, "months": months}
    bound = {name: None if values is None else list(values) for name, values in chosen.items()}
    return tuple(SliceProblem(*row) for row in database.execute(_OF_SLICES, bound))


def failing(found: Iterable[Problem], fail_on: str = "error") -> tuple[Problem, ...]:
    """Return the problems that let a command fail: errors, or warnings too, that are not acknowledged; or never any."""
    severities = {"error": ("error",), "warning": ("error", "warning")}.get(fail_on, ())
    return tuple(each for each in found if each.severity in severities and each.acknowledged_by is None)


def exit_code_of(found: Iterable[Problem]) -> int:
    """Return the exit code of a command that ends with these problems: 3, 4, then 5; 0 without any.

    Where only settings are wrong it is 2, and 1 where only PostgreSQL fails.
    """
    codes = {each.exit_code for each in found}
    return next((code for code in _FIRST_CODES if code in codes), max(codes, default=0))


def to_report(found: Iterable[Problem], now: datetime) -> tuple[Problem, ...]:
    """Return the problems of which alerts tell people.

    A list of accounts is requested again within minutes without a run.
    """
    before, of_list = now - _ACCOUNTS_FAIL_FOR, ("failed", "accounts")
    return tuple(
        each
        for each in failing(found, "warning")
        if (each.kind, each.dataset) != of_list or each.run_id or each.since is None or each.since < before
    )


@dataclass(frozen=True)
class Incident:
    """An event that is reported in one message with others of its kind.

    Attributes:
        key: What it is reported once an hour for.
        title: Of its kind, the first line of the message.
        line: What happened, to whom and when.
        step: What to do about its kind.
        command: Lists all of its kind.
    """

    key: str
    title: str
    at: datetime
    line: str
    step: str
    command: str


class Acknowledged(msgspec.Struct, frozen=True):
    """A problem that is acknowledged.

    Attributes:
        month: The first day of the month; None of a list without days.
    """

    dataset: str
    account: str
    month: date | None


_ACKNOWLEDGE = text("""
    INSERT INTO platform.acknowledgements (kind, dataset, account, month, message, is_error, rows, amount, currency,
                                           until, note)
    SELECT kind, dataset, account, month, message, bool_or(severity = 'error'), max(rows), max(abs(amount)),
           max(currency), CAST(:until AS date), CAST(:note AS text)
    FROM platform.problems
    WHERE kind = :kind AND (CAST(:dataset AS text) IS NULL OR dataset = :dataset)
      AND (CAST(:accounts AS text[]) IS NULL OR account = ANY (CAST(:accounts AS text[])))
      AND (CAST(:month AS date) IS NULL OR month = :month)
    GROUP BY kind, dataset, account, month, message
    ON CONFLICT (kind, dataset, account, month, md5(message)) DO UPDATE
    SET is_error = excluded.is_error, rows = excluded.rows, amount = excluded.amount, currency = excluded.currency,
        until = excluded.until, note = excluded.note, by = excluded.by, at = now()
    RETURNING dataset, account, month
""")


def acknowledge(
    database: Database,
    kind: str,
    *,
    dataset: str | None = None,
    account: str | None = None,
    accounts: Collection[str] | None = None,
    month: date | None = None,
    until: date | None = None,
    note: str | None = None,
) -> tuple[Acknowledged, ...]:
    """Note that a person knows the problems of a kind, and return their datasets, accounts and months.

    Args:
        account: The key or the title of an account, or the name of a connection; None for all.
        accounts: The keys of accounts and names of connections whose problems may be acknowledged; None for all.
        until: The last day; without it, until the problem ends or gets worse.

    Raises:
        RequestError: There is no such problem, or several accounts have the title.
        UnknownAccountError: No account has that key or title.
    """
    if account is not None:
        is_connection = any(each.name == account for each in connections(database))
        key = account if is_connection else account_named(database, account).key
        accounts = [key] if accounts is None or key in accounts else []
    chosen = None if accounts is None else list(accounts)
    bound = {"kind": kind, "dataset": dataset, "accounts": chosen, "month": month, "until": until, "note": note}
    with database.begin() as connection:
        known = tuple(Acknowledged(*row) for row in connection.execute(_ACKNOWLEDGE, bound))
        kinds = connection.execute(text("SELECT DISTINCT kind FROM platform.problems ORDER BY 1")).scalars().all()
    if not known:
        of = "".join(f" of {each}" for each in (dataset, account, month and f"{month:%Y-%m}") if each)
        now = f"; what is wrong now is {', '.join(kinds)}" if kinds else "; nothing is wrong now"
        raise errors.RequestError(f"there is no problem {kind!r}{of}{now}", step="Run `seller-platform status`.")
    return known


def end_acknowledgements(database: Database) -> None:
    """Delete the acknowledgements of what has ended or got worse, so that its next time is not known."""
    database.execute(_END)


_END = text("""
    DELETE FROM platform.acknowledgements AS known
    WHERE NOT EXISTS (
        SELECT FROM platform.problems AS problem
        WHERE acknowledged_by IS NOT NULL AND problem.kind = known.kind AND problem.dataset = known.dataset
          AND problem.account = known.account AND problem.month IS NOT DISTINCT FROM known.month
          AND problem.message = known.message)
""")
