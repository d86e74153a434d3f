"""Tests that what was booked never changes, and that later changes are adjusting entries of the open month."""

import random
from collections import defaultdict
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import psycopg
import pytest
import time_machine
from sqlalchemy import text

from seller_platform.clocks import utc_now
from seller_platform.contract import Account, Window
from seller_platform.errors import CheckFailedError, RequestError, SellerPlatformError
from seller_platform.warehouse.books.closing import Closing, close_month, closed_months
from seller_platform.warehouse.books.line_rows import explain_entry
from seller_platform.warehouse.history.reverts import revert
from seller_platform.warehouse.marts.builds import build_partition
from seller_platform.warehouse.marts.journal_entries import journal_of
from seller_platform.warehouse.marts.rules.journal_accounts import BALANCE, DEFAULT_ACCOUNTS, BookAccount
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform_tests.support.ledgers import TRANSACTIONS, BookedAccount, Entry
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.statements import interrupted
from seller_platform_tests.support.stored_rows import connect_accounts

JANUARY, FEBRUARY, MARCH = (Window.month_of(date(2026, month, 1)) for month in (1, 2, 3))
JOURNAL = journal_of(DEFAULT_ACCOUNTS)
SALE, FEE, PAYOUT = (
    Entry.on("2026-01-05", "Order", "100.00", order="O-1"),
    Entry.on("2026-01-05", "Fee", "-15.00", order="O-1"),
    Entry.on("2026-01-14", "Transfer", "-80.00"),
)


@pytest.fixture
def books(database: Database) -> BookedAccount:
    """An account with a ledger of January and an empty one of February and March."""
    account = Account(7, "North Pine US", "US", "USD", "America/Los_Angeles", "US", "S1")
    connect_accounts(database, [("us-1", account)])
    opened = BookedAccount(database, "us-1", account)
    opened.load(JANUARY, [SALE, FEE, PAYOUT])
    for month in (FEBRUARY, MARCH):
        opened.load(month, [])
    return opened


def _close(books: BookedAccount, month: Window, accounts: Any = DEFAULT_ACCOUNTS) -> Closing:
    return close_month(books.database, books.known, month, accounts, closed_by="a test")


def _rows(books: BookedAccount, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in books.database.execute(text(query))]


def _booked(books: BookedAccount, month: Window) -> list[tuple[Any, ...]]:
    return _rows(books, f"SELECT * FROM platform.booked_lines WHERE month = '{month.start}' ORDER BY number, line")


def _lines(books: BookedAccount, condition: str = "true") -> list[tuple[Any, ...]]:
    return _rows(
        books,
        "SELECT number, booked_month::text, line, account_name, debit - credit FROM marts.journal_entries "
        f"WHERE {condition} ORDER BY number, line, account_name",
    )


def _error(books: BookedAccount, month: Window) -> SellerPlatformError:
    with pytest.raises(SellerPlatformError) as refused:
        _close(books, month)
    return refused.value


def test_a_closed_month_stays_and_changes_are_adjusted_in_the_open_one(books: BookedAccount) -> None:
    first = _close(books, JANUARY)
    booked = _booked(books, JANUARY)
    load = books.load(JANUARY, [SALE, replace(FEE, amount=Decimal("-17.00")), PAYOUT], read_on=date(2026, 3, 20))
    build_partition(books.database, JOURNAL, books.key, JANUARY)
    pending = _lines(books, "kind = 'adjusting'")

    second = _close(books, FEBRUARY)

    assert (first.is_new, first.is_settled, first.closed.entries, first.closed.balance) == (
        True,
        True,
        1,
        {"USD": "5.00"},
    )
    assert pending == [
        ("7-2601A2602USD", "2026-02-01", "balance", "Marketplace balance", Decimal("-2.00")),
        ("7-2601A2602USD", "2026-02-01", "selling_fees", "Selling fees", Decimal("2.00")),
    ]
    assert _lines(books, "kind = 'adjusting'") == pending
    (causes,) = _rows(books, "SELECT causes FROM marts.journal_entries WHERE causes IS NOT NULL")
    assert causes[0].splitlines() == [
        f"came: 2026-01-05 Fee Fee O-1 -17.00 (load {load})",
        f"went: 2026-01-05 Fee Fee O-1 -15.00 (load {load})",
    ]
    assert _booked(books, JANUARY) == booked
    assert len(_booked(books, FEBRUARY)) == 2
    assert (second.closed.adjusting_entries, second.closed.paid_out, second.closed.balance) == (
        1,
        {"USD": "0"},
        {"USD": "3.00"},
    )


@pytest.mark.parametrize("seed", [7, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(8, 28))])
def test_what_was_booked_is_the_ledger_after_every_restatement(database: Database, seed: int) -> None:
    """Amounts change, entries and payouts come and go, and a restatement may be undone; what was booked stays."""
    rng = random.Random(seed)
    currency, zone, unit = rng.choice(
        [("USD", "America/Los_Angeles", "0.01"), ("JPY", "Asia/Tokyo", "1"), ("GBP", "Europe/London", "0.01")]
    )
    account = Account(7, "North Pine", "US", currency, zone, "US", "S1")
    connect_accounts(database, [("us-1", account)])
    books, months, booked = BookedAccount(database, "us-1", account), dict[Window, list[Entry]](), set[str]()

    def entry(month: Window) -> Entry:
        kind, most = rng.choice([("Order", 9_000), ("Fee", -900), ("Refund", -4_000), ("Transfer", -20_000)])
        paid, cent = ("SEK", "0.01") if rng.random() < 0.1 else (currency, unit)
        day, amount = month.start + timedelta(days=rng.randrange(month.days)), Decimal(cent) * rng.randint(1, 100)
        return Entry(day, kind, amount * most / 100, paid, order=f"O-{rng.randrange(10**6)}", hour=rng.randrange(24))

    for month in Window(date(2024, 1, 1), date(2024, 5 if seed == 7 else 12, 1)).months():
        for former in rng.sample(list(months), min(len(months), 2)):
            entries = [each for each in months[former] if rng.random() < 0.95]
            entries += [entry(former) for _ in range(rng.randrange(3))]
            entries[0] = replace(entries[0], amount=entries[0].amount + Decimal(rng.choice([-300, -7, 1, 45])))
            load_id = books.load(former, entries)
            if rng.random() < 0.15:
                revert(database, load_id)
            else:
                months[former] = entries
        months[month] = [entry(month) for _ in range(rng.randint(8, 25))]
        books.load(month, months[month])
        build = build_partition(database, JOURNAL, books.key, month)
        _close(books, month)

        assert [result.check.name for result in build.check_results if not result.passed] == []
        now = {row for (row,) in _rows(books, "SELECT CAST(line AS text) FROM platform.booked_lines AS line")}
        assert booked <= now
        booked = now
        sums: dict[tuple[object, ...], Decimal] = defaultdict(Decimal)
        for start, each in ((window.start, each) for window, entries in months.items() for each in entries):
            sums[start, each.currency, each.kind == "Transfer"] += each.amount
        of_months = (
            "SELECT ledger_month, currency, line = 'payouts', sum(credit - debit) FROM platform.booked_lines "
            f"WHERE line <> '{BALANCE}' GROUP BY 1, 2, 3 HAVING sum(credit - debit) <> 0"
        )
        assert {tuple(key): amount for *key, amount in _rows(books, of_months)} == {k: v for k, v in sums.items() if v}

    of_entries = "SELECT number FROM platform.booked_lines GROUP BY number HAVING sum(debit) <> sum(credit)"
    assert _rows(books, of_entries) == []
    assert "adjusting" in {kind for (kind,) in _rows(books, "SELECT kind FROM platform.booked_lines")}
    for number, line in _rows(books, "SELECT DISTINCT number, line FROM platform.booked_lines"):
        explained = explain_entry(database, DEFAULT_ACCOUNTS, number, line)
        amount = sum(each["credit"] - each["debit"] for each in explained.lines)
        assert sum(row.amount for row in explained.rows) == (-amount if line == BALANCE else amount)
        assert explained.origins
        assert all(each.request for each in explained.origins)


def test_each_line_is_explained_to_its_rows_also_where_they_are_gone(books: BookedAccount) -> None:
    _close(books, JANUARY)
    load = books.load(JANUARY, [SALE, replace(FEE, amount=Decimal("-17.00")), PAYOUT], read_on=date(2026, 3, 20))
    _close(books, FEBRUARY)

    booked = explain_entry(books.database, DEFAULT_ACCOUNTS, "7-260114PUSD", "selling_fees")
    whole = explain_entry(books.database, DEFAULT_ACCOUNTS, "7-260114PUSD", "balance")
    adjusted = explain_entry(books.database, DEFAULT_ACCOUNTS, "7-2601A2602USD")

    assert [(row.sign, row.amount, row.row["gone_load_id"]) for row in booked.rows] == [(1, Decimal("-15.00"), load)]
    assert [row.amount for row in whole.rows] == [Decimal("100.00"), Decimal("-80.00"), Decimal("-15.00")]
    assert [row.amount for row in adjusted.rows] == [Decimal("-17.00"), Decimal("15.00")]
    requests = [each.request for each in (*booked.origins, *whole.origins, *adjusted.origins)]
    assert all(each is not None and "2026-01-01" in each.params.values() for each in requests)
    with pytest.raises(RequestError, match="has no entry '7-260114PUSD' with a line 'refunds'"):
        explain_entry(books.database, DEFAULT_ACCOUNTS, "7-260114PUSD", "refunds")


def test_other_accounts_of_the_books_are_used_from_the_open_month_on(books: BookedAccount) -> None:
    _close(books, JANUARY)
    booked = _booked(books, JANUARY)
    lines = tuple(
        replace(line, account=BookAccount("Amazon fees", "6999", "No VAT")) if line.name == "selling_fees" else line
        for line in DEFAULT_ACCOUNTS.lines
    )
    books.load(JANUARY, [SALE, replace(FEE, amount=Decimal("-17.00")), PAYOUT])

    _close(books, FEBRUARY, replace(DEFAULT_ACCOUNTS, lines=lines))

    assert _booked(books, JANUARY) == booked
    assert [row[3:] for row in _lines(books, "kind = 'adjusting'")] == [
        ("Marketplace balance", Decimal("-2.00")),
        ("Amazon fees", Decimal("17.00")),
        ("Selling fees", Decimal("-15.00")),  # as it was booked
    ]


def test_a_month_that_cannot_be_closed_says_why(books: BookedAccount) -> None:
    now = Window.month_of(utc_now().date())
    codes = {_error(books, now).code: "is not over"}
    books.load(FEBRUARY, [], read_on=date(2026, 2, 28))
    incomplete = _error(books, FEBRUARY)
    assert "--dataset transactions --from 2026-02 --to 2026-02`" in str(incomplete)
    codes[incomplete.code] = "was read after it ended"
    _close(books, JANUARY)
    order = _error(books, MARCH)

    assert list(codes) == ["MonthNotOverError", "MonthIncompleteError"]
    assert (order.code, "the open month is 2026-02" in str(order)) == ("MonthOrderError", True)
    assert _error(books, Window.month_of(date(2025, 12, 1))).code == "MonthOrderError"
    assert isinstance(order, RequestError)


def test_a_month_is_not_closed_while_its_ledger_has_a_problem(books: BookedAccount) -> None:
    store_receipt(
        books.database, TRANSACTIONS, books.key, JANUARY, verdict="held", notes={"held": {"reason": "rows are missing"}}
    )

    refused = _error(books, JANUARY)

    assert (refused.code, refused.exit_code) == ("InputProblemError", 5)
    assert "rows are missing" in str(refused)
    assert "seller-platform accept" in str(refused)


def test_a_month_is_not_closed_while_an_entry_has_no_account(books: BookedAccount) -> None:
    books.load(JANUARY, [SALE, Entry.on("2026-01-06", "Mystery", "-3.00")])

    refused = _error(books, JANUARY)

    assert isinstance(refused, CheckFailedError)
    assert (refused.code, "transaction_type Mystery" in str(refused)) == ("JournalCheckError", True)
    assert closed_months(books.database) == []


def test_a_ledger_that_two_accounts_have_is_booked_once(books: BookedAccount) -> None:
    other = BookedAccount(books.database, "us-2", replace(books.account, id=8, seller_id="S2"))
    connect_accounts(books.database, [(books.key, books.account), (other.key, other.account)])
    other.load(JANUARY, [SALE, FEE, PAYOUT])
    _close(books, JANUARY)
    books.database.execute(
        text("INSERT INTO platform.repeated_ledgers VALUES ('us-2', '2026-01-01', 'us-1', 3, 3, '{}')")
    )

    assert _error(other, JANUARY).code == "LedgerBookedTwiceError"


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.nightly)])
def test_each_row_is_booked_once_whatever_happens_during_a_closing(books: BookedAccount, step: int) -> None:
    def closed_with_a_change(shop: BookedAccount, number: int) -> bool:
        """Close February while the ledger of January is restated, and built, at a statement; then close March."""

        def change() -> None:
            entries.append(replace(FEE, order="late"))
            with suppress(SellerPlatformError):
                later = BookedAccount(impatient, shop.key, shop.account)
                later.load(JANUARY, entries, read_on=date(2026, 3, 20))
                build_partition(impatient, JOURNAL, shop.key, JANUARY)

        entries = [SALE, FEE, PAYOUT]
        shop.load(JANUARY, entries)
        _close(shop, JANUARY)
        for month in (FEBRUARY, MARCH):
            shop.load(month, [])
        with interrupted(shop.database, number, change) as interruption:
            _close(shop, FEBRUARY)
        _close(shop, MARCH)
        return interruption.statements >= number

    with closing(Database(books.database.url, settings={"lock_timeout": "50ms"})) as impatient:
        for number in count(1, step):
            shop = BookedAccount(
                books.database, f"us-{number}", replace(books.account, id=number, seller_id=f"{number}")
            )
            connect_accounts(books.database, [(shop.key, shop.account)])
            if not closed_with_a_change(shop, number):
                break

    assert number > 20
    differ = (
        "SELECT account, sum(amount) FROM seller.transactions GROUP BY account EXCEPT "
        "SELECT account, sum(credit - debit) FROM platform.booked_lines WHERE line <> 'balance' GROUP BY account"
    )
    assert _rows(books, differ) == []


def test_lines_of_former_accounts_are_not_booked(books: BookedAccount) -> None:
    _close(books, JANUARY)
    books.load(JANUARY, [SALE, replace(FEE, amount=Decimal("-17.00")), PAYOUT], read_on=date(2026, 3, 20))
    build_partition(books.database, JOURNAL, books.key, JANUARY)
    note = {"held": {"reason": "rows are missing"}}
    store_receipt(books.database, TRANSACTIONS, books.key, JANUARY, verdict="held", notes=note)

    second = _close(books, FEBRUARY, replace(DEFAULT_ACCOUNTS, content="others"))
    books.load(JANUARY, [SALE, replace(FEE, amount=Decimal("-17.00")), PAYOUT], read_on=date(2026, 4, 20))
    third = _close(books, MARCH)

    assert (second.closed.adjusting_entries, third.closed.adjusting_entries) == (0, 1)


@pytest.mark.parametrize(("hour", "is_over"), [(7, False), (8, True)])
def test_a_month_is_over_when_it_is_over_in_the_zone_of_the_account(
    books: BookedAccount, hour: int, is_over: bool
) -> None:
    with time_machine.travel(datetime(2026, 2, 1, hour, 30, tzinfo=UTC), tick=False):
        if is_over:
            assert _close(books, JANUARY).is_new
        else:
            assert _error(books, JANUARY).code == "MonthNotOverError"


@pytest.mark.parametrize("statement", ["UPDATE {} SET month = month", "DELETE FROM {}", "TRUNCATE {}"])
@pytest.mark.parametrize("table", ["platform.bookings", "platform.booked_lines"])
def test_the_database_refuses_to_change_what_was_booked(database: Database, table: str, statement: str) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match="is append-only"), database.begin() as connection:
        driver_of(connection).execute(statement.format(table))
