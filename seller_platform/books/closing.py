"""Closes months: the lines of `marts.journal_entries` become those that were booked.

What was booked never changes, and a month is not opened again: what its ledger has after the closing, less what was
booked of it, is an adjusting entry of the open month, which is the first one after the closed ones.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Literal

import msgspec
import psycopg
from psycopg import sql
from psycopg.rows import class_row, namedtuple_row
from sqlalchemy import Connection

from seller_platform.books.chart_of_accounts import ChartOfAccounts
from seller_platform.books.journal_accounts import JournalAccounts
from seller_platform.books.journal_entries import journal_of
from seller_platform.books.months import BookMonth, book_months
from seller_platform.books.problems import OPENING_LOADS, UNBOOKED_OPENING
from seller_platform.books.tables import BOOKED_LINES
from seller_platform.clocks import utc_now
from seller_platform.contract import Window
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.counts import count_of
from seller_platform.errors import CheckFailedError, InputProblemError, RequestError
from seller_platform.marts.common_queries import NO_CURRENCY
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.derived.builds import Build, build_partition, lock_name
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.due import Derived, partition_states
from seller_platform.warehouse.derived.tables import CONTRADICTED, PROBLEMS
from seller_platform.warehouse.history.settledness import lookbacks
from seller_platform.warehouse.loads.receipts import joined
from seller_platform.warehouse.postgres.advisory_locks import hold, holding
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.currencies import digits_of

# A day has settled when it was read after its last expected change.
_UNSETTLED = sql.SQL("""
WITH days AS (
    SELECT day, read_on FROM generate_series(1, %(last_day)s::date - %(month)s::date + 1) AS number
    LEFT JOIN platform.slices AS slice ON (dataset, account, month) = (%(dataset)s, %(account)s, %(month)s)
    CROSS JOIN LATERAL (
        SELECT %(month)s::date + number - 1 AS day,
               CAST(days_read[number] AT TIME ZONE coalesce(slice.time_zone, 'UTC') AS date) AS read_on
    ) AS reading
    WHERE coalesce(read_on <= day + %(lookback)s::integer, true)
),
sums AS (
    SELECT coalesce(stored.currency, own.currency_code, %(no_currency)s) AS currency, count(*) AS rows,
           coalesce(sum(amount), 0) AS amount
    FROM seller.transactions AS stored JOIN platform.accounts AS own ON own.key = account
    JOIN days ON day = local_day WHERE account = %(account)s GROUP BY 1
)
SELECT bool_and(coalesce(read_on > day, false)) AS are_over, array_agg(day ORDER BY day) AS days,
       (SELECT CAST(coalesce(sum(rows), 0) AS bigint) FROM sums) AS rows,
       (SELECT coalesce(jsonb_object_agg(currency, round(amount, {digits})::text), '{{}}') FROM sums) AS amounts
FROM days HAVING count(*) > 0
""").format(digits=digits_of(sql.Identifier("currency")))
_BOOKED_BY_ANOTHER = """
SELECT other FROM platform.repeated_ledgers AS repeated
JOIN platform.bookings ON bookings.account = other AND bookings.ledger_month = repeated.month
WHERE repeated.account = %(account)s AND repeated.month = %(month)s LIMIT 1
"""
_FAILED_CHECK = f"""
SELECT month, concat_ws(' ', message, next_step) FROM ({PROBLEMS.select}) AS problem
WHERE dataset = %(table)s AND account = %(account)s AND month = ANY (%(months)s) AND kind = '{CONTRADICTED}'
  AND severity = 'error'
ORDER BY month LIMIT 1
"""  # noqa: S608  # a constant

_POSTED = """
SELECT DISTINCT account_name, account_code, tax_rate FROM marts.journal_entries
WHERE account = %(account)s AND ledger_month = ANY (%(months)s) AND booked_month = %(month)s AND debit <> credit
ORDER BY account_code, account_name
"""

# A partition has the rows of loads up to the newest one that its build read. One that was built with other accounts is
# adjusted in a later month.
_BOOK = f"""
INSERT INTO platform.bookings (account, ledger_month, month, load_id, accounts, booked_at, booked_by, ledger_begins,
                               opening_change, opening_loads)
SELECT build.account, window_start, %(month)s, build.load_id, %(accounts)s, clock_timestamp(), %(by)s, opening.*
FROM (
    SELECT DISTINCT ON (window_start) *, CAST(loads ->> %(dataset)s AS bigint) AS load_id
    FROM platform.mart_builds
    WHERE mart = %(mart)s AND account = %(account)s AND window_start = ANY (%(months)s)
    ORDER BY window_start, id DESC
) AS build
LEFT JOIN (
    SELECT (SELECT min(month) FROM platform.slices WHERE dataset = %(dataset)s AND account = %(account)s AND rows > 0),
           (SELECT coalesce(jsonb_object_agg(currency, CAST(change AS text)), '{{}}') FROM ({UNBOOKED_OPENING}) AS own),
           ({OPENING_LOADS})
    FROM (SELECT %(account)s AS account, CAST(%(first_closed)s AS date) AS first_closed) AS books
) AS opening ON window_start = %(month)s
WHERE version = %(version)s AND (
    build.load_id > coalesce((SELECT max(former.load_id) FROM platform.bookings AS former
                              WHERE former.account = build.account AND ledger_month = window_start), -1)
    OR EXISTS (SELECT FROM marts.journal_entries AS line
               WHERE line.account = build.account AND line.ledger_month = window_start
                 AND line.booked_month = %(month)s)
)
"""  # noqa: S608  # constants
_BOOK_LINES = sql.SQL("""
INSERT INTO platform.booked_lines ({columns})
SELECT {columns} FROM (SELECT *, booked_month AS month FROM marts.journal_entries) AS entry
JOIN platform.bookings USING (account, ledger_month, month)
WHERE account = %(account)s AND month = %(month)s
""").format(columns=sql.SQL(", ").join(sql.Identifier(column.name) for column in BOOKED_LINES.columns))


class UnsettledDays(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Days of a month whose entries of the ledger may still change.

    Attributes:
        are_over: Whether each was read after it ended.
        rows: How many entries are stored of them.
        amounts: What these add up to, by currency.
    """

    are_over: bool
    days: list[date]
    rows: int
    amounts: dict[str, str]

    def __str__(self) -> str:
        money = [f"{amount} {currency}" for currency, amount in self.amounts.items()]
        days = joined([Window.day(day) for day in self.days])
        return f"{', '.join(map(str, days))} ({', '.join([count_of(self.rows, 'row'), *money])})"


class Closing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of closing a month.

    Attributes:
        unsettled: Its days that may still change; null where each was read so long after it that no change is expected.
    """

    closed: BookMonth
    result: Literal["closed", "closed before"]
    unsettled: UnsettledDays | None


def close_month(
    database: Database,
    account: KnownAccount,
    month: Window,
    accounts: JournalAccounts,
    *,
    closed_by: str,
    chart: ChartOfAccounts | None = None,
    adaptive: bool = True,
    unsettled: bool = False,
) -> tuple[Closing, Sequence[Build]]:
    """Book the lines of a month, with adjusting entries for what changed in earlier ones. Twice is once.

    Args:
        month: A calendar month of the account's time zone.
        accounts: The accounts of the books.
        chart: The accounts that Xero has; None if it does not matter.
        adaptive: As in `lookbacks`, for which days have settled.
        unsettled: Book days, too, that may still change.

    Returns:
        The result, and the partitions of `marts.journal_entries` that were built for it.

    Raises:
        RequestError: The month is not over, an earlier one is not closed, it was never read whole, or may still change.
        RequestError: Another account has the same ledger, and its month is closed; or Xero would refuse a line.
        InputProblemError: The slice of the ledger has a problem.
        CheckFailedError: A check of the entries fails.
    """
    mart = journal_of(accounts)
    of_month = {"dataset": TRANSACTIONS.name, "account": account.key, "month": month.start}
    lookback = lookbacks(database, [TRANSACTIONS], [account.key], adaptive=adaptive)[TRANSACTIONS.name, account.key]
    with holding(database, f"books|{account.key}") as connection:
        with connection.begin():
            former = [each for each in book_months(connection, accounts, [account.key]) if each.closed_at]
            of_days = of_month | {"lookback": lookback, "last_day": month.last_day, "no_currency": NO_CURRENCY}
            with driver_of(connection).cursor(row_factory=class_row(UnsettledDays)) as cursor:
                days = cursor.execute(_UNSETTLED, of_days).fetchone()
            for each in former:
                if each.window == month:
                    return Closing(closed=each, result="closed before", unsettled=days), ()
            _expect_turn(account, month, former)
            _expect_ledger(connection, account, month, of_month, days)
        if days and not unsettled:
            settled = days.days[-1] + timedelta(days=lookback + 1)
            raise RequestError(
                f"{month.start:%Y-%m} of {account.key} cannot be closed: days of it may still change, {days}. "
                f"They have settled once they are loaded on {settled} or later",
                code="MonthUnsettledError",
                step="Load the month again then, and close it; or close it now with --unsettled: what changes is "
                "adjusted in the month that is open then.",
            )
        months = [*(each.window for each in former), month]
        current, builds = _built(database, connection, mart, account, months)
        for each_month in months:  # a build that saw nothing booked would be stored after it
            hold(connection, lock_name(mart, account.key, each_month))
        connection.commit()
        with connection.begin():
            bound = {
                **of_month,
                "mart": mart.name,
                "table": mart.table,
                "version": mart.version,
                "accounts": json.dumps(accounts.document),
                "by": closed_by,
                "months": [each.start for each in current],
                "first_closed": months[0].start,
            }
            if failed := driver_of(connection).execute(_FAILED_CHECK, bound).fetchone():
                raise CheckFailedError(
                    f"{month.start:%Y-%m} of {account.key} cannot be closed: a check of marts.journal_entries fails "
                    f"for {failed[0]:%Y-%m}. {failed[1]}",
                    code="JournalCheckError",
                    step="Correct what the message names, and close the month again.",
                )
            if chart:
                with driver_of(connection).cursor(row_factory=namedtuple_row) as cursor:
                    chart.expect(cursor.execute(_POSTED, bound))
            _book(connection, account, month, bound)
            (closed,) = (each for each in book_months(connection, accounts, [account.key]) if each.window == month)
    return Closing(closed=closed, result="closed", unsettled=days), builds


def _expect_turn(account: KnownAccount, month: Window, former: Sequence[BookMonth]) -> None:
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


def _expect_ledger(
    connection: Connection,
    account: KnownAccount,
    month: Window,
    of_month: Mapping[str, Any],
    days: UnsettledDays | None,
) -> None:
    """Raise an error if the ledger of a month is not complete, or is booked by another account."""
    driver, what = driver_of(connection), f"{month.start:%Y-%m} of {account.key} cannot be closed"
    if days and not days.are_over:
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
) -> tuple[list[Window], list[Build]]:
    """Build what changed of the month to be closed, the last one, and of those before it.

    Returns:
        The months whose partition is as their ledger, and what was built. The others are adjusted later.

    Raises:
        InputProblemError: The slice of the last month has a problem.
    """
    with connection.begin():
        states = partition_states(connection, Derived.of(mart), [account.key], months)
    current, builds = list[Window](), list[Build]()
    for state, month in zip(states, months, strict=True):
        try:
            if month == months[-1] and (problem := state.input_problem()):
                raise problem
            if not state.is_current:
                builds.append(build_partition(database, mart, account.key, month))
            current.append(month)
        except InputProblemError:
            if month == months[-1]:
                raise
    return current, builds


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
