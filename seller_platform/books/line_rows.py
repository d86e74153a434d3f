"""The rows of the ledger from which a line of a journal entry was summed, with their requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from psycopg import sql
from psycopg.rows import dict_row

from seller_platform.books.journal_accounts import BALANCE, JournalAccounts
from seller_platform.books.journal_entries import JOURNAL_ENTRIES, NOTHING_BOOKED, rows_of_ledger
from seller_platform.contract import Window
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.errors import RequestError
from seller_platform.warehouse.history.provenance import ROWS_AT_MOST, Provenance, origins_of
from seller_platform.warehouse.postgres.database import Database, driver_of

# A line that is not booked was summed by the newest build of its partition.
_LINES = """
SELECT line.*, booking.load_id IS NOT NULL AS is_booked,
       coalesce(booking.load_id, CAST(build.loads ->> %(dataset)s AS bigint)) AS upto,
       coalesce((SELECT max(former.load_id) FROM platform.bookings AS former
                 WHERE former.account = line.account AND former.ledger_month = line.ledger_month
                   AND (booking.month IS NULL OR former.month < booking.month)), {nothing_booked}) AS after
FROM marts.journal_entries AS line
LEFT JOIN platform.bookings AS booking
    ON (booking.account, booking.ledger_month, booking.month) = (line.account, line.ledger_month, line.booked_month)
LEFT JOIN platform.mart_builds AS build ON build.id = line.build_id
WHERE number = %(number)s AND (%(line)s::text IS NULL OR line = %(line)s)
  AND (%(account)s::text IS NULL OR line.account = %(account)s)
ORDER BY line, account_name, account_code, tax_rate
"""

_ROWS = """
WITH span AS MATERIALIZED (SELECT %(after)s::bigint AS after, %(upto)s::bigint AS upto),
{rows}
SELECT * FROM posted
WHERE currency = %(currency)s AND sign <> 0
  AND CASE %(kind)s::text WHEN 'payout' THEN %(number)s LIKE concat('%%-', payout, currency)
                          WHEN 'month end' THEN payout IS NULL ELSE true END
  AND (%(line)s::text IS NULL OR line = %(line)s)
ORDER BY abs(amount) DESC NULLS LAST, posted_date, sign DESC, load_id, page
"""


@dataclass(frozen=True)
class ExplainedEntry:
    """Lines of a journal entry, and the rows that they were summed from.

    Attributes:
        lines: As `marts.journal_entries` has them.
        is_booked: Whether their month is closed.
        rows: All of them, the largest amounts first. The sign of one is 1 if it came; -1 if it went after its month was
            booked, and its amount is taken back.
        origins: Where the first 20 rows came from.
    """

    lines: Sequence[Mapping[str, Any]]
    is_booked: bool
    rows: Sequence[Mapping[str, Any]]
    origins: tuple[Provenance, ...]

    @property
    def amounts(self) -> list[Decimal]:
        """What each row adds to the line."""
        return [row["sign"] * (row["amount"] or Decimal(0)) for row in self.rows]


def explain_entry(
    database: Database, accounts: JournalAccounts, number: str, line: str | None = None, account: str | None = None
) -> ExplainedEntry:
    """Return the rows of the ledger that a journal entry, or a line of it, was summed from.

    The rows are those of then, also where they are gone since. Those of the line `balance` are all rows of the entry.

    Args:
        accounts: The accounts of the books, to which lines are posted that are not booked.
        account: The key of the account that has the entry; None if no other one has that number.

    Raises:
        RequestError: There is no such entry or line, or several accounts have one.
    """
    bound = {"number": number, "line": line, "account": account, "dataset": TRANSACTIONS.name}
    with database.begin() as connection:
        driver_of(connection).execute("SET LOCAL enable_nestloop = off")
        with driver_of(connection).cursor(row_factory=dict_row) as cursor:
            statement = sql.SQL(_LINES).format(nothing_booked=sql.Literal(NOTHING_BOOKED))
            lines = cursor.execute(statement, bound).fetchall()
            if not lines:
                raise RequestError(
                    f"{JOURNAL_ENTRIES.table} has no entry {number!r}" + (f" with a line {line!r}" if line else ""),
                    code="EntryNotFoundError",
                    step="Look at the numbers and lines in marts.journal_entries; "
                    "`seller-platform marts build journal_entries` builds it.",
                )
            if len(keys := sorted({each["account"] for each in lines})) > 1:
                raise RequestError(
                    f"entries of {', '.join(keys)} have the number {number}",
                    code="EntryAmbiguousError",
                    step="Name the account with --account.",
                )
            month = Window.month_of(lines[0]["ledger_month"])
            days = {"first_day": month.start, "end_day": month.end}
            query = sql.SQL(_ROWS).format(rows=rows_of_ledger(accounts))
            of_line = {**lines[0], **days, "line": None if line == BALANCE else line}
            rows = cursor.execute(query, of_line).fetchall()
    origins = origins_of(database, TRANSACTIONS, rows[:ROWS_AT_MOST])
    return ExplainedEntry(lines, lines[0]["is_booked"], rows, origins)
