"""`seller-platform month`: closing, listing, and the files for programs of accounting."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from seller_platform.contract import Account, Window
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.ledgers import BookedAccount, Entry
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import document, environment
from seller_platform_tests.support.stored_rows import connect_accounts

pytestmark = pytest.mark.slow

JANUARY, FEBRUARY = (Window.month_of(date(2026, month, 1)) for month in (1, 2))


@pytest.fixture(scope="module")
def variables(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A shell over two accounts, one of which has a ledger of January and February."""
    with databases.lent() as database:
        accounts = {
            "us-1": Account(7, "=North, Pine US", "US", "USD", "America/Los_Angeles", "US", "S1"),
            "de-2": Account(8, "North Pine DE", "DE", "EUR", "Europe/Berlin", "DE", "S2"),
        }
        connect_accounts(database, accounts.items())
        books = BookedAccount(database, "us-1", accounts["us-1"])
        sale, foreign = Entry.on("2026-01-05", "Order", "100.00"), Entry.on("2026-01-06", "Fee", "-20", currency="JPY")
        books.load(JANUARY, [sale, foreign, Entry.on("2026-01-14", "Transfer", "-80.00")])
        books.load(FEBRUARY, [])
        yield environment(tmp_path_factory.mktemp("home"), SELLER_PLATFORM_DATABASE_URL=database.url)


def test_a_month_is_closed_listed_and_refused_where_it_was_never_loaded(variables: dict[str, str]) -> None:
    none = run_here(["month", "list"], variables)
    closed = run_here(["month", "close", "2026-01", "--json"], variables)
    again = document(run_here(["month", "close", "2026-01", "--account", "us-1", "--json"], variables))
    neither = run_here(["month", "close", "2026-03"], variables)
    listed = document(run_here(["month", "list", "--json"], variables))
    shown = run_here(["month", "list"], variables)

    assert "No month is closed" in none.stderr
    assert (closed.returncode, '"error": "MonthIncompleteError"' in closed.stdout) == (2, True)
    assert "2 months were not closed:\n" in neither.stderr
    assert [each["entries"] is None for each in listed["months"]][:2] == [False, True]
    assert [(each["result"], each["unsettled"]) for each in again["months"]] == [("closed before", None)]
    assert listed["months"][0] == again["months"][0]["closed"]
    assert listed["months"][0]["balance"] == {"JPY": "-20", "USD": "20.00"}
    assert "USD: 20.00" in shown.stdout
    assert "ledger begins" in shown.stdout


def test_a_closed_month_is_written_for_quickbooks_and_xero(variables: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "books" / "2026"
    words = ["--account", "us-1", "--folder", str(folder), "--json"]
    run_here(["month", "close", "2026-01", "--account", "us-1"], variables)

    quickbooks = document(run_here(["month", "export", "2026-01", "--for", "quickbooks", *words], variables))
    xero = document(run_here(["month", "export", "2026-01", "--for", "xero", *words], variables))
    refused = run_here(["month", "export", "2026-02", "--for", "xero", *words], variables)

    assert quickbooks["files"] == {str(folder / "quickbooks-2026-01-us-1.csv"): 5}
    assert (folder / "quickbooks-2026-01-us-1.csv").read_text().splitlines()[:3] == [
        "*JournalNo,*JournalDate,*AccountName,*Debits,*Credits,Description,Name,Currency,Location,Class",
        '7-260114PUSD,01/14/2026,Marketplace payouts,80.00,,"Payouts: =North, Pine US (us-1)",,USD,,',
        '7-260114PUSD,01/14/2026,Marketplace balance,20.00,,"Balance carried forward: =North, Pine US (us-1)",,USD,,',
    ]
    assert [Path(each).name for each in xero["files"]] == ["xero-2026-01-us-1-JPY.csv", "xero-2026-01-us-1-USD.csv"]
    assert (folder / "xero-2026-01-us-1-JPY.csv").read_text().splitlines() == [
        "*Narration,*Date,Description,*AccountCode,*TaxRate,*Amount,TrackingName1,TrackingOption1,TrackingName2,"
        "TrackingOption2",
        '7-260131CJPY month end,31 Jan 2026,"Selling fees: =North, Pine US (us-1)",6010,Tax Exempt,20,,,,',
        '7-260131CJPY month end,31 Jan 2026,"Balance brought forward: =North, Pine US (us-1)",1250,Tax Exempt,-20,,,,',
    ]
    assert (refused.returncode, "MonthNotClosedError" in refused.stdout) == (2, True)


def test_the_rows_of_a_line_are_shown_with_their_requests(variables: dict[str, str]) -> None:
    run_here(["month", "close", "2026-01", "--account", "us-1"], variables)

    explained = document(run_here(["explain", "journal_entries", "7-260114PUSD", "payments", "--json"], variables))
    shown = run_here(["explain", "marts.journal_entries", "7-260114PUSD"], variables)

    assert (explained["found"], explained["is_booked"], explained["lines"][0]["credit"]) == (1, True, "100.00")
    assert "start_date=2026-01-01" in explained["rows"][0]["request"]["url"]
    assert "2 rows of the ledger; they add up to 20.00." in shown.stdout
