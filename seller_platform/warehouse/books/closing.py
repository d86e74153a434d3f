"""Closes months: the lines of `marts.journal_entries` become those that were booked.

What was booked never changes, and a month is not opened again: rows that come or go after the closing are an adjusting
entry of the open month, which is the first one after the closed ones.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec
import psycopg
from psycopg import sql
from psycopg.rows import class_row
from sqlalchemy import Connection

from seller_platform.clocks import utc_now
from seller_platform.contract import Window
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.contract.window import read_month
from seller_platform.errors import CheckFailedError, InputProblemError, RequestError
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.history.settledness import lookbacks
from seller_platform.warehouse.marts import Mart
from seller_platform.warehouse.marts.builds import Build, build_partition, hold_partition
from seller_platform.warehouse.marts.due import Derived, partition_states
from seller_platform.warehouse.marts.journal_entries import journal_of
from seller_platform.warehouse.marts.rules.formulas import PAYOUTS
from seller_platform.warehouse.marts.rules.journal_accounts import BALANCE, JournalAccounts
from seller_platform.warehouse.marts.tables import CONTRADICTED
from seller_platform.warehouse.postgres.advisory_locks import hold, releasing
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.tables import BOOKED_LINES

_READ_AFTER_DAYS = """
SELECT read_after_days FROM platform.slices WHERE dataset = %(dataset)s AND account = %(account)s AND month = %(month)s
"""
_BOOKED_BY_ANOTHER = """
SELECT other FROM platform.repeated_ledgers AS repeated
JOIN platform.bookings ON bookings.account = other AND bookings.ledger_month = repeated.month
WHERE repeated.account = %(account)s AND repeated.month = %(month)s LIMIT 1
"""
_FAILED_CHECK = f"""
SELECT month, concat_ws(' ', message, next_step) FROM platform.causes
WHERE dataset = %(table)s AND account = %(account)s AND month = ANY (%(months)s) AND kind = '{CONTRADICTED}'
  AND severity = 'error'
ORDER BY month LIMIT 1
"""  # noqa: S608  # a constant

# A partition has the rows of loads up to the newest one that its build read. One that was built with other accounts is
# adjusted in a later month.
_BOOK = """
INSERT INTO platform.bookings (account, ledger_month, month, load_id, accounts, booked_at, booked_by)
SELECT account, window_start, %(month)s, CAST(loads ->> %(dataset)s AS bigint), %(accounts)s, clock_timestamp(), %(by)s
FROM (
    SELECT DISTINCT ON (window_start) * FROM platform.mart_builds
    WHERE mart = %(mart)s AND account = %(account)s AND window_start <= %(month)s
    ORDER BY window_start, id DESC
) AS build
WHERE version = %(version)s AND (window_start = %(month)s OR EXISTS (
    SELECT FROM marts.journal_entries AS line
    WHERE line.account = build.account AND line.ledger_month = window_start AND line.booked_month = %(month)s
))
"""
_BOOK_LINES = sql.SQL("""
INSERT INTO platform.booked_lines ({columns})
SELECT {columns} FROM (SELECT *, booked_month AS month FROM marts.journal_entries) AS entry
JOIN platform.bookings USING (account, ledger_month, month)
WHERE account = %(account)s AND month = %(month)s
""").format(columns=sql.SQL(", ").join(sql.Identifier(column.name) for column in BOOKED_LINES.columns))

_CLOSED = """
WITH sums AS (
    SELECT account, month, currency, coalesce(sum(debit - credit) FILTER (WHERE line = %(payouts)s), 0) AS paid_out,
           sum(coalesce(sum(debit - credit) FILTER (WHERE line = %(balance)s), 0))
               OVER (PARTITION BY account, currency ORDER BY month) AS balance
    FROM platform.booked_lines
    WHERE %(accounts)s::text[] IS NULL OR account = ANY (%(accounts)s)
    GROUP BY account, month, currency
)
SELECT closed.account, to_char(closed.month, 'YYYY-MM') AS month, closed.booked_at AS closed_at,
       closed.booked_by AS closed_by, coalesce(line.entries, 0) AS entries,
       coalesce(line.adjusting_entries, 0) AS adjusting_entries,
       coalesce(sum.paid_out, '{}') AS paid_out, coalesce(sum.balance, '{}') AS balance
FROM platform.bookings AS closed
LEFT JOIN LATERAL (
    SELECT count(DISTINCT number) AS entries,
           count(DISTINCT number) FILTER (WHERE kind = 'adjusting') AS adjusting_entries
    FROM platform.booked_lines AS line WHERE line.account = closed.account AND line.month = closed.month
) AS line ON true
LEFT JOIN LATERAL (
    SELECT jsonb_object_agg(currency, paid_out::text) AS paid_out, jsonb_object_agg(currency, balance::text) AS balance
    FROM sums WHERE sums.account = closed.account AND sums.month = closed.month
) AS sum ON true
WHERE closed.ledger_month = closed.month AND (%(accounts)s::text[] IS NULL OR closed.account = ANY (%(accounts)s))
ORDER BY closed.account, closed.month
"""


class ClosedMonth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A month of an account that is closed.

    Attributes:
        month: As 2026-03.
        entries: How many journal entries were booked, those that adjust earlier months among them.
        paid_out: What was posted to the account of payouts, by currency; a debit is positive.
        balance: What the marketplace owes after the month, by currency, since the first month that was closed. A
            currency without a line in the month is left out.
    """

    account: str
    month: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}$")]
    closed_at: Annotated[datetime, msgspec.Meta(tz=True)]
    closed_by: str
    entries: int
    adjusting_entries: int
    paid_out: dict[str, str]
    balance: dict[str, str]

    @property
    def window(self) -> Window:
        return Window.month_of(read_month(self.month))


@dataclass(frozen=True)
class Closing:
    """The result of closing a month.

    Attributes:
        is_new: False where the month was closed before.
        is_settled: Whether each of its days was read so long after it that no change is expected.
        builds: The partitions of `marts.journal_entries` that were built for it.
    """

    closed: ClosedMonth
    is_new: bool
    is_settled: bool
    builds: Sequence[Build] = ()


def closed_months(database: Database, accounts: Sequence[str] | None = None) -> list[ClosedMonth]:
    """Return the months that were closed, by account and month.

    Args:
        accounts: The keys of the accounts; None for all.
    """
    with database.begin() as connection:
        return _closed(connection, accounts)


def close_month(
    database: Database,
    account: KnownAccount,
    month: Window,
    accounts: JournalAccounts,
    *,
    closed_by: str,
    adaptive: bool = True,
) -> Closing:
    """Book the lines of a month, with adjusting entries for what changed in earlier ones. Twice is once.

    Args:
        month: A calendar month of the account's time zone.
        accounts: The accounts of the books.
        adaptive: As in `lookbacks`, for whether the month is settled.

    Raises:
        RequestError: The month is not over, an earlier one is not closed, or it was never read whole.
        RequestError: Another account has the same ledger, and its month is closed.
        InputProblemError: The slice of the ledger has a problem.
        CheckFailedError: A check of the entries fails.
    """
    mart = journal_of(accounts)
    of_month = {"dataset": TRANSACTIONS.name, "account": account.key, "month": month.start}
    with database.connect() as connection, releasing(connection):
        hold(connection, f"books|{account.key}")
        connection.commit()
        with connection.begin():
            former = _closed(connection, [account.key])
            is_settled = _is_settled(database, connection, account, of_month, adaptive=adaptive)
        for each in former:
            if each.window == month:
                return Closing(each, is_new=False, is_settled=is_settled)
        _expect_turn(account, month, former)
        with connection.begin():
            _expect_ledger(connection, account, month, of_month)
        months = [*(each.window for each in former), month]
        builds = _built(database, connection, mart, account, months)
        for each_month in months:  # a build that saw nothing booked would be stored after it
            hold_partition(connection, mart, account.key, each_month)
        connection.commit()
        with connection.begin():
            bound = {
                **of_month,
                "mart": mart.name,
                "table": mart.table,
                "version": mart.version,
                "accounts": json.dumps(accounts.document),
                "by": closed_by,
            }
            _expect_checks(connection, account, bound | {"months": [each.start for each in months]})
            _book(connection, account, month, bound)
            closed = _closed(connection, [account.key])[-1]
    return Closing(closed, is_new=True, is_settled=is_settled, builds=builds)


def _closed(connection: Connection, accounts: Sequence[str] | None) -> list[ClosedMonth]:
    bound = {"accounts": None if accounts is None else list(accounts), "payouts": PAYOUTS, "balance": BALANCE}
    with driver_of(connection).cursor(row_factory=class_row(ClosedMonth)) as cursor:
        return cursor.execute(_CLOSED, bound).fetchall()


def _is_settled(
    database: Database, connection: Connection, account: KnownAccount, of_month: Mapping[str, Any], *, adaptive: bool
) -> bool:
    row = driver_of(connection).execute(_READ_AFTER_DAYS, of_month).fetchone()
    after = lookbacks(database, [TRANSACTIONS], [account.key], adaptive=adaptive)[TRANSACTIONS.name, account.key]
    return row is not None and row[0] is not None and row[0] >= after


def _expect_turn(account: KnownAccount, month: Window, former: Sequence[ClosedMonth]) -> None:
    """Raise an error if a month is not over, or another one comes before it."""
    today = utc_now().astimezone(account.zone).date()
    if today < month.end:
        raise RequestError(
            f"{month.start:%Y-%m} of {account.key} is not over: there it is {today} ({account.zone})",
            code="MonthNotOverError",
            step="Close it from the first day of the next month on, in the time zone of the account.",
        )
    if former and month.start != former[-1].window.end:
        raise RequestError(
            f"{month.start:%Y-%m} of {account.key} cannot be closed: closed are {former[0].month} to "
            f"{former[-1].month}, and the open month is {former[-1].window.end:%Y-%m}",
            code="MonthOrderError",
            step="Months are closed one after another: close the open month first. Months before the first one that "
            "was closed are not booked.",
        )


def _expect_ledger(connection: Connection, account: KnownAccount, month: Window, of_month: Mapping[str, Any]) -> None:
    """Raise an error if the ledger of a month is not complete, or is booked by another account."""
    driver, what = driver_of(connection), f"{month.start:%Y-%m} of {account.key} cannot be closed"
    days = driver.execute(_READ_AFTER_DAYS, of_month).fetchone()
    if days is None or days[0] is None or days[0] < 1:
        raise RequestError(
            f"{what}: not each day of the transactions was read after it ended. Load the month with "
            f"`seller-platform sync --dataset transactions --from {month.start:%Y-%m} --to {month.start:%Y-%m}`, and "
            "close it again",
            code="MonthIncompleteError",
        )
    if other := driver.execute(_BOOKED_BY_ANOTHER, of_month).fetchone():
        raise RequestError(
            f"{what}: its ledger has the entries of account {other[0]}, whose month is closed",
            code="LedgerBookedTwiceError",
            step="Book one of the accounts only, and ask the upstream why it answers the same transactions for both.",
        )


def _built(
    database: Database, connection: Connection, mart: Mart, account: KnownAccount, months: Sequence[Window]
) -> list[Build]:
    """Build what changed of the month to be closed, the last one, and of those before it.

    Raises:
        InputProblemError: The slice of the last month has a problem. One of an earlier month is adjusted later.
    """
    with connection.begin():
        states = partition_states(connection, Derived.of(mart), [account.key], months)
    builds = []
    for state in states:
        if state.window == months[-1] and (problem := state.input_problem()):
            raise problem
        if not state.is_current:
            try:
                builds.append(build_partition(database, mart, account.key, state.window))
            except InputProblemError:
                if state.window == months[-1]:
                    raise
    return builds


def _expect_checks(connection: Connection, account: KnownAccount, bound: Mapping[str, Any]) -> None:
    if failed := driver_of(connection).execute(_FAILED_CHECK, bound).fetchone():
        raise CheckFailedError(
            f"{bound['month']:%Y-%m} of {account.key} cannot be closed: a check of marts.journal_entries fails for "
            f"{failed[0]:%Y-%m}. {failed[1]}",
            code="JournalCheckError",
            step="Correct what the message names, and close the month again.",
        )


def _book(connection: Connection, account: KnownAccount, month: Window, bound: Mapping[str, Any]) -> None:
    driver = driver_of(connection)
    driver.execute(_BOOK, bound)
    try:
        driver.execute(_BOOK_LINES, bound)
    except psycopg.errors.UniqueViolation as error:
        raise RequestError(
            f"{month.start:%Y-%m} of {account.key} cannot be closed: a number of its entries is booked already, of "
            "another account with the same number",
            code="JournalNumberTakenError",
            step="Keep the books of accounts of two upstreams in two installations.",
        ) from error
