"""Booked lines as CSV files, in the forms that QuickBooks Online and Xero import.

Both forms have one row for each line. QuickBooks takes the name of an account and has a column for the currency. Xero
takes the code, signs a credit, has no currency, and reads at most 300 lines of a file.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from psycopg.rows import namedtuple_row

from seller_platform.books.journal_accounts import BALANCE
from seller_platform.contract import Window
from seller_platform.contract.currencies import minor_digits
from seller_platform.errors import RequestError
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.postgres.database import Database, driver_of

_MOST_LINES_OF_XERO = 300

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
    database: Database, accounts: Sequence[KnownAccount], month: Window, program: str, *, name: str = ""
) -> list[ImportFile]:
    """Return the lines of a month that was closed, as files that a program imports.

    Args:
        program: One of PROGRAMS.
        name: What the names of the files end with, to tell them from those of other accounts.

    Raises:
        RequestError: An account has not closed the month, or Xero needs a code that an account of the books lacks.
    """
    bound = {"accounts": [each.key for each in accounts], "month": month.start}
    with database.begin() as connection:
        driver = driver_of(connection)
        if unclosed := [key for (key,) in driver.execute(_NOT_CLOSED, bound)]:
            raise RequestError(
                f"{month.start:%Y-%m} is not closed for {', '.join(unclosed)}",
                code="MonthNotClosedError",
                step="Close it with `seller-platform month close`, or choose accounts with --account.",
            )
        with driver.cursor(row_factory=namedtuple_row) as cursor:
            lines = cursor.execute(_BOOKED, bound).fetchall()
    titles = {each.key: each.account.title for each in accounts}
    suffix = f"-{name}" if name else ""
    files, form = [], PROGRAMS[program]
    for part_name, part in form.parts(f"{program}-{month.start:%Y-%m}{suffix}", lines):
        text = io.StringIO(newline="")
        csv.writer(text).writerows([form.header, *(form.row_of(line, titles) for line in part)])
        files.append(ImportFile(f"{part_name}.csv", text.getvalue(), len(part)))
    return files


@dataclass(frozen=True)
class _Form:
    """The columns of a program, and how lines are divided among files."""

    header: tuple[str, ...]
    row_of: Callable[[_Line, Mapping[str, str]], tuple[str, ...]]
    parts: Callable[[str, Sequence[_Line]], Iterator[tuple[str, Sequence[_Line]]]]


def _quickbooks(line: _Line, titles: Mapping[str, str]) -> tuple[str, ...]:
    debit, credit = (_amount(line, amount) if amount else "" for amount in (line.debit, line.credit))
    day = f"{line.entry_date:%m/%d/%Y}"
    return (line.number, day, line.account_name, debit, credit, _described(line, titles), "", line.currency, "", "")


def _xero(line: _Line, titles: Mapping[str, str]) -> tuple[str, ...]:
    if not line.account_code:
        raise RequestError(
            f"the account {line.account_name!r} of the books has no code, and Xero takes codes",
            code="AccountCodeMissingError",
            step="Give each account a code in the file that SELLER_PLATFORM_JOURNAL_ACCOUNTS names: months that are "
            "closed afterwards have it.",
        )
    day, amount = f"{line.entry_date:%d/%m/%Y}", _amount(line, line.debit - line.credit)
    narration = f"{line.number} {line.kind}"
    return (narration, day, _described(line, titles), line.account_code, line.tax_rate, amount, "", "", "", "")


def _by_currency(name: str, lines: Sequence[_Line]) -> Iterator[tuple[str, Sequence[_Line]]]:
    """Yield the lines of each currency, in files of at most 300 lines that divide no entry."""
    for currency, of_currency in groupby(sorted(lines, key=attrgetter("currency")), key=attrgetter("currency")):
        parts: list[list[_Line]] = [[]]
        for _, entry in groupby(of_currency, key=attrgetter("number")):
            added = list(entry)
            if parts[-1] and len(parts[-1]) + len(added) > _MOST_LINES_OF_XERO:
                parts.append([])
            parts[-1] += added
        for number, part in enumerate(parts, start=1):
            yield f"{name}-{currency}" + (f"-{number}" if len(parts) > 1 else ""), part


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
        lambda name, lines: iter([(name, lines)] if lines else []),
    ),
    "xero": _Form(
        (
            *("*Narration", "*Date", "Description", "*AccountCode", "*TaxRate", "*Amount"),
            *("TrackingName1", "TrackingOption1", "TrackingName2", "TrackingOption2"),
        ),
        _xero,
        _by_currency,
    ),
}
"""The programs that import files, with the columns of each."""
