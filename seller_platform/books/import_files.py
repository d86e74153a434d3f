"""Booked lines as CSV files, in the forms that QuickBooks Online and Xero import.

Both forms have one row for each line, and neither program joins an entry from two files.

- Xero (https://help.xero.com/nz/ManualJournalsImport): lines of one narration and day are a journal; it takes the code
  of an account and the whole name of a tax rate, signs a credit, has no currency, and reads at most 300 lines of a
  file. Days are dd/mm/yyyy or `dd mmm yyyy`; an organisation in the US reads mm/dd/yyyy, and none misreads the latter.
- QuickBooks Online (https://quickbooks.intuit.com/learn-support/en-au/help-article/import-export-files/
  import-journal-entries-quickbooks-online/L4tQBwbs7_AU_en_AU): lines of one number are an entry; it takes the name of
  an account, `Parent account:Subaccount` for one below another, and has a column for the currency. A file has at most
  1,000 rows (https://www.importcsv.com/blog/quickbooks-csv-import); days are in the order of the company's region.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from psycopg.rows import namedtuple_row

from seller_platform.books.chart_of_accounts import ChartOfAccounts
from seller_platform.books.journal_accounts import BALANCE
from seller_platform.contract import Window
from seller_platform.contract.currencies import minor_digits
from seller_platform.errors import RequestError
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.postgres.database import Database, driver_of

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_BOOKED = """
SELECT * FROM platform.booked_lines
WHERE account = ANY (%(accounts)s) AND month = %(month)s AND debit <> credit
ORDER BY entry_date, number, debit DESC, credit DESC, line
"""
_NOT_CLOSED = """
SELECT key FROM unnest(%(accounts)s::text[]) AS chosen (key)
WHERE NOT EXISTS (SELECT FROM platform.bookings WHERE account = key AND ledger_month = %(month)s AND month = %(month)s)
"""

_Line = Any
"""A row of `platform.booked_lines`."""


@dataclass(frozen=True)
class ImportFile:
    """A file for a program of accounting.

    Attributes:
        text: CSV with a header.
        lines: How many lines of entries it has.
    """

    name: str
    text: str
    lines: int


def import_files(
    database: Database,
    accounts: Sequence[KnownAccount],
    month: Window,
    program: str,
    *,
    name: str = "",
    day_first: bool = False,
    chart: ChartOfAccounts | None = None,
) -> list[ImportFile]:
    """Return the lines of a month that was closed, as files that a program imports.

    Args:
        program: One of PROGRAMS.
        name: What the names of the files end with, to tell them from those of other accounts.
        day_first: Write the day before the month for QuickBooks; Xero gets the name of the month.
        chart: The accounts that Xero has; None if it does not matter.

    Raises:
        RequestError: An account has not closed the month, an entry is too large, or Xero would refuse a line.
    """
    bound = {"accounts": [each.key for each in accounts], "month": month.start}
    with database.begin() as connection:
        driver = driver_of(connection)
        if unclosed := [key for (key,) in driver.execute(_NOT_CLOSED, bound)]:
            raise RequestError(
                f"{month.start:%Y-%m} is not closed for {', '.join(unclosed)}",
                code="MonthNotClosedError",
                step="Close it with `seller-platform month close MONTH`, or choose accounts with --account.",
            )
        with driver.cursor(row_factory=namedtuple_row) as cursor:
            lines = cursor.execute(_BOOKED, bound).fetchall()
    form = PROGRAMS[program]
    if chart and program == "xero":
        chart.expect(lines)
    titles = {each.key: each.account.title for each in accounts}
    suffix = f"-{name}" if name else ""
    files = []
    for part_name, part in _parts(f"{program}-{month.start:%Y-%m}{suffix}", lines, form):
        text = io.StringIO(newline="")
        csv.writer(text).writerows([form.header, *(form.row_of(line, titles, day_first) for line in part)])
        files.append(ImportFile(f"{part_name}.csv", text.getvalue(), len(part)))
    return files


@dataclass(frozen=True)
class _Form:
    """The form of a program.

    Attributes:
        row_of: Returns the row of a line; takes the titles of accounts by key, and whether the day stands first.
        most_rows: How many rows a file may have, with its header.
        has_currencies: Whether a file may have entries in several currencies.
    """

    header: tuple[str, ...]
    row_of: Callable[[_Line, Mapping[str, str], bool], tuple[str, ...]]
    most_rows: int
    has_currencies: bool


def _quickbooks(line: _Line, titles: Mapping[str, str], day_first: bool) -> tuple[str, ...]:
    debit, credit = (_amount(line, amount) if amount else "" for amount in (line.debit, line.credit))
    day = f"{line.entry_date:%d/%m/%Y}" if day_first else f"{line.entry_date:%m/%d/%Y}"
    account = ":".join(part.strip() for part in line.account_name.split(":"))
    return (line.number, day, account, debit, credit, _described(line, titles), "", line.currency, "", "")


def _xero(line: _Line, titles: Mapping[str, str], _day_first: bool) -> tuple[str, ...]:
    if not line.account_code:
        raise RequestError(
            f"the account {line.account_name!r} of the books has no code, and Xero takes codes",
            code="AccountCodeMissingError",
            step="Give each account a code in the file that SELLER_PLATFORM_JOURNAL_ACCOUNTS names: months that are "
            "closed afterwards have it.",
        )
    day = f"{line.entry_date.day:02} {_MONTHS[line.entry_date.month - 1]} {line.entry_date.year}"
    narration, amount = f"{line.number} {line.kind}", _amount(line, line.debit - line.credit)
    return (narration, day, _described(line, titles), line.account_code, line.tax_rate, amount, "", "", "", "")


def _parts(name: str, lines: Sequence[_Line], form: _Form) -> Iterator[tuple[str, Sequence[_Line]]]:
    """Yield the lines of each file; none divides an entry.

    Raises:
        RequestError: An entry has more lines than a file may have.
    """
    by_currency = attrgetter("currency")
    groups = [("", lines)] if form.has_currencies else groupby(sorted(lines, key=by_currency), key=by_currency)
    for currency, group in groups:
        parts: list[list[_Line]] = []
        for number, entry in groupby(group, key=attrgetter("number")):
            added = list(entry)
            if len(added) >= form.most_rows:
                raise RequestError(
                    f"the entry {number} has {len(added):,} lines, and a file has at most {form.most_rows:,} with its "
                    "header; neither program joins an entry from two files",
                    code="EntryTooLargeError",
                    step="Enter it by hand from platform.booked_lines, and post to fewer accounts in later months.",
                )
            if not parts or len(parts[-1]) + len(added) >= form.most_rows:
                parts.append([])
            parts[-1] += added
        for place, part in enumerate(parts, start=1):
            yield "-".join([name, *filter(None, [currency]), *([str(place)] if len(parts) > 1 else [])]), part


def _described(line: _Line, titles: Mapping[str, str]) -> str:
    if line.line == BALANCE:
        what = "Balance carried forward" if line.debit else "Balance brought forward"
    else:
        what = line.line.replace("_", " ").capitalize()
    adjusted = f", adjusts {line.ledger_month:%Y-%m}" if line.kind == "adjusting" else ""
    return f"{what}{adjusted}: {titles[line.account]} ({line.account})"


def _amount(line: _Line, amount: Any) -> str:
    return f"{amount:.{minor_digits(line.currency)}f}"


PROGRAMS = {
    "quickbooks": _Form(
        (
            *("*JournalNo", "*JournalDate", "*AccountName", "*Debits", "*Credits"),
            *("Description", "Name", "Currency", "Location", "Class"),
        ),
        _quickbooks,
        most_rows=1_000,
        has_currencies=True,
    ),
    "xero": _Form(
        (
            *("*Narration", "*Date", "Description", "*AccountCode", "*TaxRate", "*Amount"),
            *("TrackingName1", "TrackingOption1", "TrackingName2", "TrackingOption2"),
        ),
        _xero,
        most_rows=300,
        has_currencies=False,
    ),
}
"""The programs that import files, with the form of each."""
