"""What QuickBooks Online and Xero make of a file of journals, by the rules that they publish.

A rule that is broken fails an assertion, as the program refuses the file. Sources:

- Xero: https://help.xero.com/nz/ManualJournalsImport (columns, 300 lines, narration and date, forms of a day, signs),
  https://support.approvalmax.com/portal/en/kb/articles/troubleshooting-errors-during-manual-journal-creation-via-csv-file-upload
  (types of accounts).
- QuickBooks: https://quickbooks.intuit.com/learn-support/en-au/help-article/import-export-files/import-journal-entries-quickbooks-online/L4tQBwbs7_AU_en_AU
  (columns, names of accounts), https://www.importcsv.com/blog/quickbooks-csv-import (1,000 rows) and
  https://support.zed-systems.com/kb/a370/how-to-import-journal-entries-into-quickbooks-online-using-axis-online.aspx
  (21 characters of a number).
"""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

Journal = dict[str, list[tuple[str, Decimal]]]
"""The accounts of each entry with their amounts, of which debits are positive."""

_AMOUNT = re.compile(r"-?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?")
_OF_XERO = (
    "*Narration,*Date,Description,*AccountCode,*TaxRate,*Amount,"
    "TrackingName1,TrackingOption1,TrackingName2,TrackingOption2\r\n"
)
_OF_QUICKBOOKS = "*JournalNo,*JournalDate,*AccountName,*Debits,*Credits,Description,Name,Currency,Location,Class\r\n"


@dataclass(frozen=True)
class Region:
    """Where an organisation keeps its books; all three write 1,234.50 for an amount.

    Attributes:
        day: How a day is written in digits.
        chart: The chart of accounts of Xero: codes with their types.
        tax_rates: The names of tax rates.
    """

    name: str
    day: str
    chart: Mapping[str, str]
    tax_rates: Collection[str]

    def amount(self, text: str) -> Decimal:
        assert _AMOUNT.fullmatch(text), f"{text} is no amount in {self.name}"
        return Decimal(text.replace(",", ""))


def read_by_xero(text: str, region: Region) -> tuple[Journal, dict[str, date]]:
    """Return the manual journals that Xero makes of a file, and the day of each, by narration."""
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    journals: Journal = defaultdict(list)
    days: dict[str, date] = {}
    assert text.startswith(_OF_XERO)
    assert 0 < len(rows) <= 300
    for row in rows:
        assert all(value for name, value in row.items() if name.startswith("*")), row
        assert region.chart.get(row["*AccountCode"]) not in {None, "Bank", "Accounts Receivable", "Accounts Payable"}
        assert row["*TaxRate"] in region.tax_rates
        day = _day(row["*Date"], "%d %b %Y", region.day)
        assert days.setdefault(row["*Narration"], day) == day, "a narration of two days is two journals"
        journals[row["*Narration"]].append((row["*AccountCode"], region.amount(row["*Amount"])))
    _balanced(journals)
    return journals, days


def read_by_quickbooks(
    text: str, region: Region, names: Collection[str], currencies: Collection[str]
) -> tuple[Journal, dict[str, date]]:
    """Return the journal entries that QuickBooks makes of a file, and the day of each, by number.

    Args:
        names: The names of its accounts, with those of the accounts above them.
        currencies: Those of the company.
    """
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    journals: Journal = defaultdict(list)
    days: dict[str, date] = {}
    of_entries: dict[str, str] = {}
    assert text.startswith(_OF_QUICKBOOKS)
    assert 0 < len(rows) < 1_000
    for row in rows:
        number = row["*JournalNo"]
        assert 0 < len(number) <= 21
        day = _day(row["*JournalDate"], region.day)
        assert days.setdefault(number, day) == day
        assert of_entries.setdefault(number, row["Currency"]) == row["Currency"]
        assert row["Currency"] in currencies
        assert row["*AccountName"] in names, f"Line Account invalid: {row['*AccountName']}"
        assert bool(row["*Debits"]) != bool(row["*Credits"]), "a line is a debit or a credit"
        amount = region.amount(row["*Debits"] or row["*Credits"])
        assert amount > 0
        journals[number].append((row["*AccountName"], amount if row["*Debits"] else -amount))
    _balanced(journals)
    return journals, days


def _balanced(journals: Journal) -> None:
    for name, lines in journals.items():
        assert len(lines) > 1, f"{name} has one line"
        assert not sum(amount for _, amount in lines), f"{name} is out of balance"


def _day(text: str, *forms: str) -> date:
    for form in forms:
        with suppress(ValueError):
            return datetime.strptime(text, form).date()  # noqa: DTZ007  # a day
    raise AssertionError(f"{text} is no day")
