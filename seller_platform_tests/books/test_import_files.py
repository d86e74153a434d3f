"""Tests that QuickBooks and Xero read the files of a month as it was booked, in three regions."""

import csv
from collections import defaultdict
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.books.chart_of_accounts import chart_of
from seller_platform.books.closing import close_month
from seller_platform.books.import_files import ImportFile, import_files
from seller_platform.books.journal_accounts import DEFAULT_ACCOUNTS, BookAccount, JournalAccounts
from seller_platform.contract import Account, Window
from seller_platform.errors import RequestError, SettingsError
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.books.importers import Region, read_by_quickbooks, read_by_xero
from seller_platform_tests.support.ledgers import BookedAccount, Entry
from seller_platform_tests.support.stored_rows import connect_accounts

FEBRUARY = Window.month_of(date(2026, 2, 1))
CODES = {line.account.code: line.account.name for line in DEFAULT_ACCOUNTS.lines} | {"1250": "Marketplace balance"}
CHART = dict.fromkeys(CODES, "Current Asset") | {"610": "Accounts Receivable", "090": "Bank"}
REGIONS = [
    Region("US", "%m/%d/%Y", CHART, {"Tax Exempt", "Tax on Sales"}),
    Region("UK", "%d/%m/%Y", CHART, {"No VAT", "20% (VAT on Income)"}),
    Region("AU", "%d/%m/%Y", CHART, {"BAS Excluded", "GST on Income"}),
]


@pytest.fixture
def books(database: Database) -> BookedAccount:
    """An account with a ledger of February whose days may be read as those of other months."""
    account = Account(10_420_001, '=Böhm, "North" & Sons', "US", "USD", "America/Los_Angeles", "US", "S1")
    connect_accounts(database, [("us-1", account)])
    opened = BookedAccount(database, "us-1", account)
    entries = [
        Entry.on("2026-02-01", "Order", "1234567.80"),
        Entry.on("2026-02-02", "Fee", "-1234.56"),
        Entry.on("2026-02-10", "Transfer", "-50000.00"),
        Entry.on("2026-02-10", "Transfer", "-7.00"),
        Entry.on("2026-02-11", "Order", "0.01"),
        Entry.on("2026-02-12", "Refund", "-3000", currency="JPY"),
    ]
    opened.load(FEBRUARY, entries)
    return opened


def _accounts(tax_rate: str) -> JournalAccounts:
    """Return the default accounts with a tax rate of a region, below accounts of the books."""

    def of_region(account: BookAccount) -> BookAccount:
        return replace(account, tax_rate=tax_rate, name=account.name.replace("Marketplace ", "Marketplace : "))

    lines = tuple(replace(line, account=of_region(line.account)) for line in DEFAULT_ACCOUNTS.lines)
    return replace(DEFAULT_ACCOUNTS, balance=of_region(DEFAULT_ACCOUNTS.balance), lines=lines)


def _chart(folder: Path, region: Region, tax_rate: str) -> Path:
    """Write the chart of accounts as Xero exports it."""
    path = folder / "ChartOfAccounts.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["*Code", "*Name", "*Type", "*Tax Code", "Description", "Dashboard", "Balance"])
        rows.writerows([code, CODES.get(code, "A name"), kind, tax_rate, "", "No", ""] for code, kind in CHART.items())
    return path


def _files(books: BookedAccount, program: str, **options: Any) -> list[ImportFile]:
    return import_files(books.database, [books.known], FEBRUARY, program, **options)


def _booked(books: BookedAccount) -> dict[str, list[tuple[str, str, Decimal]]]:
    entries: dict[str, list[tuple[str, str, Decimal]]] = defaultdict(list)
    query = "SELECT number, account_name, account_code, debit - credit FROM platform.booked_lines ORDER BY 1, 2, 3, 4"
    for number, name, code, amount in books.database.execute(text(query)):
        if amount:
            entries[number].append((name.replace(" : ", ":"), code, amount))
    return entries


def _book(books: BookedAccount, entries: int, lines: int) -> None:
    """Book entries with a number of lines each, half of them debits."""
    statement = """
    WITH entries AS (SELECT format('1-2602%sP%sUSD', 10 + number % 18, number) AS name, number
                     FROM generate_series(1, :entries) AS number)
    INSERT INTO platform.booked_lines
    SELECT 'us-1', '2026-02-01', '2026-02-01', name, DATE '2026-02-10' + number % 18, 'payout', 'USD',
           'line_' || line, 'Marketplace sales', '4000', 'Tax Exempt',
           CASE WHEN line < :lines THEN 1 ELSE 0 END, CASE WHEN line < :lines THEN 0 ELSE :lines - 1 END, 1, NULL
    FROM entries CROSS JOIN generate_series(1, :lines) AS line
    """
    booking = "INSERT INTO platform.bookings VALUES ('us-1', '2026-02-01', '2026-02-01', 1, '{}', now(), 'a test')"
    with books.database.begin() as connection:
        connection.execute(text(booking))
        connection.execute(text(statement), {"entries": entries, "lines": lines})


@pytest.mark.parametrize("region", REGIONS, ids=lambda region: region.name)
def test_each_program_reads_what_was_booked(books: BookedAccount, tmp_path: Path, region: Region) -> None:
    (tax_rate, *_) = (rate for rate in region.tax_rates if rate in {"Tax Exempt", "No VAT", "BAS Excluded"})
    chart = chart_of(_chart(tmp_path, region, f"{tax_rate} (0%)"))
    close_month(books.database, books.known, FEBRUARY, _accounts(tax_rate), closed_by="a test", chart=chart)

    (quickbooks,) = _files(books, "quickbooks", day_first=region.name != "US")
    xero = _files(books, "xero", chart=chart)

    booked, names = _booked(books), {name.replace("Marketplace ", "Marketplace:") for name in CODES.values()}
    entries, days = read_by_quickbooks(quickbooks.text, region, names, {"USD", "JPY"})
    journals = [read_by_xero(file.text, region) for file in xero]
    assert {number: sorted(lines) for number, lines in entries.items()} == {
        number: sorted((name, amount) for name, _, amount in lines) for number, lines in booked.items()
    }
    assert {day for _, of_file in journals for day in of_file.values()} == {*days.values()}
    assert {date(2026, 2, 10), date(2026, 2, 28)} == {*days.values()}
    assert {number.split()[0]: sorted(lines) for of_file, _ in journals for number, lines in of_file.items()} == {
        number: sorted((code, amount) for _, code, amount in lines) for number, lines in booked.items()
    }
    assert [file.name for file in xero] == ["xero-2026-02-JPY.csv", "xero-2026-02-USD.csv"]


@pytest.mark.parametrize(
    ("entries", "of_quickbooks", "of_xero"), [(111, [999], [297, 297, 297, 108]), (112, [999, 9], [297, 297, 297, 117])]
)
def test_no_file_is_too_long_or_divides_an_entry(
    books: BookedAccount, entries: int, of_quickbooks: list[int], of_xero: list[int]
) -> None:
    _book(books, entries, lines=9)

    quickbooks, xero = _files(books, "quickbooks"), _files(books, "xero")

    read = [read_by_quickbooks(file.text, REGIONS[0], {"Marketplace sales"}, {"USD"})[0] for file in quickbooks]
    assert [file.lines for file in quickbooks] == of_quickbooks
    assert [file.lines for file in xero] == of_xero
    assert sum(map(len, read)) == len({number for journal in read for number in journal}) == entries
    assert sum(len(read_by_xero(file.text, REGIONS[0])[0]) for file in xero) == entries
    names = [file.name for file in quickbooks]
    assert names == (["quickbooks-2026-02.csv"] if len(names) == 1 else [f"quickbooks-2026-02-{n}.csv" for n in (1, 2)])


def test_an_entry_that_no_file_can_have_is_refused(books: BookedAccount) -> None:
    _book(books, 1, lines=300)

    with pytest.raises(
        RequestError, match="the entry 1-260211P1USD has 300 lines, and a file has at most 300"
    ) as error:
        _files(books, "xero")

    assert error.value.code == "EntryTooLargeError"
    assert [file.lines for file in _files(books, "quickbooks")] == [300]


def test_what_xero_would_refuse_is_refused_before_it_is_booked(books: BookedAccount, tmp_path: Path) -> None:
    path = _chart(tmp_path, REGIONS[1], "No VAT")
    path.write_text(
        path.read_text().replace("6010,", "6011,").replace("4000,Marketplace sales,Current Asset", "4000,X,Bank")
    )

    with pytest.raises(RequestError) as error:
        close_month(books.database, books.known, FEBRUARY, DEFAULT_ACCOUNTS, closed_by="a test", chart=chart_of(path))

    assert error.value.code == "ChartOfAccountsError"
    assert "no account has the code '6010' (Selling fees)" in str(error.value)
    assert "no manual journal can be posted to '4000' (Marketplace sales), of type Bank" in str(error.value)
    assert "no account has the tax rate 'Tax Exempt'" in str(error.value)
    assert "6011 Selling fees" in str(error.value)
    assert "the tax rates No VAT" in str(error.value)
    assert "4060" not in str(error.value).partition("It has")[0]  # no line of the month is posted there
    assert _booked(books) == {}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"Code,Name\n1,A\n", r"has no column \*Type, \*Tax Code; export it in Xero"),
        (b"\xff\xfe", "cannot be read: it is not text in UTF-8"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_no_chart_of_accounts_is_refused(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "chart.csv"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(SettingsError, match=rf"^SELLER_PLATFORM_CHART_OF_ACCOUNTS: .*chart\.csv: {problem}"):
        chart_of(path)
