"""`seller-platform month`, and `explain` of a line; `books` has the tests of what is booked and written."""

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


def test_a_month_is_closed_listed_written_and_explained(variables: dict[str, str], tmp_path: Path) -> None:
    words = ["--for", "xero", "--account", "us-1", "--folder", str(tmp_path / "books"), "--json"]
    none = run_here(["month", "list"], variables)
    closed = run_here(["month", "close", "2026-01", "--json"], variables)
    again = document(run_here(["month", "close", "2026-01", "--account", "us-1", "--json"], variables))
    neither = run_here(["month", "close", "2026-03"], variables)
    listed = document(run_here(["month", "list", "--json"], variables))
    shown = run_here(["month", "list"], variables)
    written = document(run_here(["month", "export", "2026-01", *words], variables))
    refused = run_here(["month", "export", "2026-02", *words], variables)
    explained = document(run_here(["explain", "journal_entries", "7-260114PUSD", "payments", "--json"], variables))

    assert "No month is closed" in none.stderr
    assert (closed.returncode, '"error": "MonthIncompleteError"' in closed.stdout) == (2, True)
    assert "2 months were not closed:\n" in neither.stderr
    assert [each["entries"] is None for each in listed["months"]][:2] == [False, True]
    assert [(each["result"], each["unsettled"]) for each in again["months"]] == [("closed before", None)]
    assert listed["months"][0] == again["months"][0]["closed"]
    assert listed["months"][0]["balance"] == {"JPY": "-20", "USD": "20.00"}
    assert "USD: 20.00" in shown.stdout
    assert "ledger begins" in shown.stdout
    files = [f"xero-2026-01-us-1-{currency}.csv" for currency in ("JPY", "USD")]
    assert [*written["files"]] == [str(tmp_path / "books" / name) for name in files]
    assert (refused.returncode, "MonthNotClosedError" in refused.stdout) == (2, True)
    assert (explained["found"], explained["is_booked"], explained["lines"][0]["credit"]) == (1, True, "100.00")
