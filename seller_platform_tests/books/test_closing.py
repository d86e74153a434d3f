"""Tests that what was booked never changes, and that later changes are adjusting entries of the open month."""

import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import time_machine
from sqlalchemy import text

from seller_platform.books.closing import Closing, close_month
from seller_platform.books.journal_accounts import BALANCE, DEFAULT_ACCOUNTS, BookAccount
from seller_platform.books.journal_entries import journal_of
from seller_platform.books.line_rows import explain_entry
from seller_platform.books.months import BookMonth, NextPayout, book_months
from seller_platform.clocks import using_clock, utc_now
from seller_platform.contract import Account, Window
from seller_platform.errors import (
    CheckFailedError,
    InputProblemError,
    ReadingHeldError,
    RequestError,
    SellerPlatformError,
)
from seller_platform.ingest.loads.acceptance import accept_load
from seller_platform.ingest.loads.comparing import SliceComparer
from seller_platform.ingest.loads.loading import load_each
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.marts.rules.files import EntryPattern
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.monitoring.problems import slice_problems
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform_tests.support.http_upstream import api_of
from seller_platform_tests.support.ledgers import TRANSACTIONS, BookedAccount, Entry
from seller_platform_tests.support.moving_ledger import Installation
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.statements import interrupted
from seller_platform_tests.support.stored_rows import connect_accounts

JANUARY, FEBRUARY, MARCH = (Window.month_of(date(2026, month, 1)) for month in (1, 2, 3))
JOURNAL = journal_of(DEFAULT_ACCOUNTS)
OTHER_ACCOUNTS = replace(
    DEFAULT_ACCOUNTS,
    lines=tuple(
        replace(line, account=BookAccount("Amazon fees", "6999", "No VAT")) if line.name == "selling_fees" else line
        for line in DEFAULT_ACCOUNTS.lines
    ),
)
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


def _close(
    books: BookedAccount, month: Window, accounts: Any = DEFAULT_ACCOUNTS, *, unsettled: bool = False
) -> Closing:
    return close_month(books.database, books.known, month, accounts, closed_by="a test", unsettled=unsettled)[0]


def _rows(books: BookedAccount, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in books.database.execute(text(query))]


def _months(books: BookedAccount, accounts: Any = DEFAULT_ACCOUNTS) -> list[BookMonth]:
    with books.database.begin() as connection:
        return book_months(connection, accounts)


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
    assert _months(books)[0] == first.closed

    second = _close(books, FEBRUARY)

    of_first = (first.result, first.unsettled, first.closed.entries, first.closed.balance)
    assert of_first == ("closed", None, 1, {"USD": "5.00"})
    assert pending == [
        ("7-2601A2602USD", "2026-02-01", "balance", "Marketplace balance", Decimal("-2.00")),
        ("7-2601A2602USD", "2026-02-01", "selling_fees", "Selling fees", Decimal("2.00")),
    ]
    assert _lines(books, "kind = 'adjusting'") == pending
    assert _rows(books, "SELECT rows FROM marts.journal_entries WHERE kind = 'adjusting'") == [(2,), (2,)]
    (causes,) = _rows(books, "SELECT causes FROM marts.journal_entries WHERE causes IS NOT NULL")
    assert causes[0].splitlines() == [
        f"came: 2026-01-05 Fee Fee O-1 -17.00 (load {load})",
        f"went: 2026-01-05 Fee Fee O-1 -15.00 (load {load})",
    ]
    assert _booked(books, JANUARY) == booked
    assert len(_booked(books, FEBRUARY)) == 2
    assert (second.closed.adjusting_entries, second.closed.paid_out, second.closed.balance) == (
        1,
        {"USD": "0.00"},
        {"USD": "3.00"},
    )


class Story(Installation):
    """An account whose ledger is restated by the upstream, and changed by another program, while months are closed."""

    def _entries(self, key: str, month: date) -> Iterator[dict[str, Any]]:
        for number in range(self.rng.randint(8, 25)):
            kind, most = self.rng.choice([("Order", 9_000), ("Fee", -900), ("Refund", -4_000), ("Transfer", -20_000)])
            currency, unit = self.rng.choice([("USD", 100), ("USD", 100), ("USD", 100), ("JPY", 1)])
            moment = datetime.combine(month, time(self.rng.randrange(24)), UTC) + timedelta(self.rng.randrange(28))
            yield {
                "posted_date": moment.isoformat(),
                "transaction_type": kind,
                "sku": f"{month:%y%m}-{number}",
                "amount": most * self.rng.randint(1, 100) // 100 / unit,
                "currency": currency,
            }

    @property
    def books(self) -> BookedAccount:
        (known,) = accounts(self.database)
        return BookedAccount(self.database, known.key, known.account)

    def restate(self) -> None:
        slice_, share = self.rng.choice([*self.rows]), self.rng.choice([0.05, 0.05, 0.3, 1])
        kept = [each for each in self.rows[slice_] if self.rng.random() > share / 2]
        for each in kept:
            change = self.rng.choice([-300, -7, 1, 45]) * (self.rng.random() < share)
            each["amount"] = round(each["amount"] + change, 2)
        new = [each | {"sku": f"new {self.rng.random()}"} for each in self._entries(*slice_)]
        self.rows[slice_] = sorted(kept + new[: round(share * len(new))], key=lambda each: each["posted_date"][:10])

    def damage(self) -> None:
        month, percent = self.rng.choice(self.months), self.rng.choice([3, 10, 50, 100])
        change = self.rng.choice(
            [
                *("UPDATE {} SET amount = amount * -3 WHERE {}", "UPDATE {} SET amount = amount + 1 WHERE {}"),
                *("UPDATE {} SET transaction_type = 'Order' WHERE {}", "DELETE FROM {} WHERE {}"),
                "UPDATE {} SET local_day = date_trunc('month', local_day + interval '32 days') WHERE {}",
                "INSERT INTO {0} (posted_date, transaction_type, amount, currency, local_day, account, load_id, page) "
                "SELECT posted_date, 'Fee', 1, currency, local_day, account, load_id, page FROM {0} WHERE {1}",
            ]
        )
        rows = f"date_trunc('month', local_day) = '{month}' AND abs(hashtext(sku)) % 100 < {percent}"
        self.database.execute(text(change.format("seller.transactions", rows)))

    def read(self) -> None:
        self._read(self.rng.choice(self.months), self.rng.choice([None, "a comparison at random"]))

    def _read(self, month: date, by_value: str | None) -> None:
        with api_of(self.answer) as api:
            request = SliceRequest(TRANSACTIONS, self.keys[0], Window.month_of(month), by_value=by_value)
            list(load_each([request], self.loader(api), second_reading_seconds=0))

    def verify(self) -> None:
        with api_of(self.answer) as api:
            request = SliceRequest(TRANSACTIONS, self.keys[0], Window.month_of(self.rng.choice(self.months)))
            list(SliceComparer(self.database, lambda _: api, self.now, repairs="Ada").compare_each([request]))

    def accept(self) -> None:
        for held in open_holds(self.database):
            with api_of(self.answer) as api, suppress(ReadingHeldError):
                accept_load(self.loader(api), held.id)

    def wait(self) -> None:
        self.now += timedelta(hours=21)

    def close(self) -> None:
        """Close the open month; only a reading that is held stops that."""
        with suppress(InputProblemError):
            month, accounts = self.months[len(_closed(self.books))], self.rng.choice([DEFAULT_ACCOUNTS, OTHER_ACCOUNTS])
            _close(self.books, Window.month_of(month), accounts, unsettled=True)

    def settle(self) -> None:
        """Make what is stored equal to what is listed, and close every month."""
        for month in self.months:
            self._read(month, "a comparison at random")
        self.accept()
        while len(_closed(self.books)) < len(self.months):
            self.close()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 100))])
def test_what_was_booked_is_the_ledger_after_every_damage_and_restatement(database: Database, seed: int) -> None:
    rng = random.Random(seed)
    story, booked = Story(database, accounts=1, number_of_months=4, rng=rng), set[str]()
    happens = [story.restate, story.damage, story.read, story.verify, story.accept, story.wait, story.close]
    is_damaged = rng.random() < 0.8
    with using_clock(lambda: story.now):
        story.load()
        for _ in range(20):
            rng.choices(happens, [3, 3 * is_damaged, 3, 2, 2, 1, 2 * (len(_closed(story.books)) < 3)])[0]()
            now = {row for (row,) in _rows(story.books, "SELECT CAST(line AS text) FROM platform.booked_lines AS line")}
            assert booked <= now
            booked = now
        story.settle()

    assert len(_closed(story.books)) == len(story.months)
    sums: dict[tuple[object, ...], Decimal] = defaultdict(Decimal)
    for (_, month), each in ((slice_, each) for slice_, entries in story.rows.items() for each in entries):
        sums[month, each["currency"], each["transaction_type"] == "Transfer"] += Decimal(str(each["amount"]))
    of_months = (
        "SELECT ledger_month, currency, line = 'payouts', sum(credit - debit) FROM platform.booked_lines "
        f"WHERE line <> '{BALANCE}' GROUP BY 1, 2, 3 HAVING sum(credit - debit) <> 0"
    )
    journal = {tuple(key): amount for *key, amount in _rows(story.books, of_months)}
    assert journal == {key: amount for key, amount in sums.items() if amount}
    of_entries = "SELECT number FROM platform.booked_lines GROUP BY number HAVING sum(debit) <> sum(credit)"
    assert _rows(story.books, of_entries) == []
    lines = _rows(story.books, "SELECT DISTINCT number, line FROM platform.booked_lines ORDER BY number, line")
    for number, line in rng.sample(lines, min(8, len(lines))):
        explained = explain_entry(database, DEFAULT_ACCOUNTS, number, line)
        amount = sum(each["credit"] - each["debit"] for each in explained.lines)
        if not is_damaged:
            assert sum(explained.amounts) == (-amount if line == BALANCE else amount)
            assert explained.origins
            assert all(each.request for each in explained.origins)


def _closed(books: BookedAccount) -> list[BookMonth]:
    return [each for each in _months(books) if each.closed_at]


def test_a_currency_that_the_account_has_now_is_adjusted(books: BookedAccount) -> None:
    entries = [replace(each, currency=None) for each in (SALE, FEE)]
    books.load(JANUARY, entries)
    _close(books, JANUARY)
    connect_accounts(books.database, [(books.key, replace(books.account, currency_code="EUR"))])

    closed = _close(books, FEBRUARY).closed

    assert closed.balance == {"EUR": "85.00", "USD": "0.00"}


def test_two_payouts_on_a_day_are_two_entries(books: BookedAccount) -> None:
    payouts = [
        replace(PAYOUT, amount=Decimal(amount), hour=hour) for amount, hour in (("-60", 9), ("-20", 9), ("-5", 18))
    ]
    books.load(JANUARY, [SALE, *payouts, replace(FEE, day=PAYOUT.day, hour=12)])

    _close(books, JANUARY)

    assert [(row[0], *row[3:]) for row in _lines(books, "line IN ('payouts', 'selling_fees')")] == [
        ("7-260114P2USD", "Marketplace payouts", Decimal("20")),
        ("7-260114P3USD", "Marketplace payouts", Decimal("5")),
        ("7-260114P3USD", "Selling fees", Decimal("15.00")),
        ("7-260114PUSD", "Marketplace payouts", Decimal("60")),
    ]
    explained = [
        explain_entry(books.database, DEFAULT_ACCOUNTS, f"7-260114{number}USD") for number in ("P", "P2", "P3")
    ]
    assert [each.amounts for each in explained] == [
        [Decimal("100.00"), Decimal("-60")],
        [Decimal("-20")],
        [Decimal("-15.00"), Decimal("-5")],
    ]


def test_what_is_owed_follows_from_the_whole_ledger(books: BookedAccount) -> None:
    december = Window.month_of(date(2025, 12, 1))
    before = [Entry.on("2025-12-05", "Order", "40.00"), Entry.on("2025-12-06", "Order", "900", currency="JPY")]
    books.load(december, before)
    with time_machine.travel(datetime(2026, 2, 20, tzinfo=UTC), tick=False):
        unclosed = _months(books)
        first = _close(books, JANUARY).closed
    books.load(FEBRUARY, [Entry.on("2026-02-05", "Transfer", "6.00"), Entry.on("2026-02-05", "Fee", "-6.00")])
    books.load(MARCH, [Entry.on("2026-03-05", "Order", "7.00")])
    second = _close(books, FEBRUARY).closed
    march = _months(books)[2]
    books.load(FEBRUARY, [Entry.on("2026-02-05", "Transfer", "5.00")])
    february = _months(books)[1]

    opening = {"JPY": "900", "USD": "40.00"}
    assert [(each.month, each.closed_at, each.balance["USD"]) for each in unclosed] == [
        ("2026-01", None, "45.00"),
        ("2026-02", None, "45.00"),
    ]
    assert unclosed[0].opening_balance == first.opening_balance == opening
    assert (
        first.balance == second.opening_balance == second.balance == march.opening_balance == opening | {"USD": "45.00"}
    )
    assert (march.month, march.closed_at, march.balance) == ("2026-03", None, opening | {"USD": "52.00"})
    assert (march.ledger_begins, second.ledger_begins) == ("2025-12", "2025-12")
    assert second.paid_out == february.paid_out == {"JPY": "0", "USD": "-6.00"}
    assert _rows(books, "SELECT count(*) FROM platform.bookings") == [(2,)]


def test_a_change_before_the_first_closed_month_is_named_and_booked(books: BookedAccount) -> None:
    def changes() -> list[str]:
        return [each.sentence for each in slice_problems(books.database) if each.kind == "unbooked"]

    november, december = (Window.month_of(date(2025, month, 1)) for month in (11, 12))
    books.load(december, [Entry.on("2025-12-05", "Order", "40.00")])
    first = _close(books, JANUARY).closed
    books.load(december, [Entry.on("2025-12-05", "Order", "40.00")], read_on=date(2026, 3, 20))
    assert not changes()
    books.load(december, [Entry.on("2025-12-05", "Order", "41.00")], read_on=date(2026, 3, 20))
    books.load(
        november, [Entry.on("2025-11-05", "Order", "30.00"), Entry.on("2025-11-06", "Fee", "-3", currency="JPY")]
    )
    named, listed = changes(), _months(books)
    second = _close(books, FEBRUARY).closed
    assert not changes()
    books.load(november, [], read_on=date(2026, 3, 20))
    third = _close(books, MARCH).closed

    assert named == [
        "After the opening balance was booked, the ledger before the first closed month changed by -3 JPY, 31.00 USD. "
        "Book that in the open month, on the accounts of the opening balance; the closing of the month adds it to what "
        "is owed (`seller-platform docs month-end`)."
    ]
    assert (first.ledger_begins, first.opening_balance, first.opening_change) == ("2025-12", {"USD": "40.00"}, {})
    assert (listed[1].month, listed[1].ledger_begins, listed[1].entries) == ("2026-02", "2025-11", None)
    assert _months(books)[:3] == [listed[0], second, third] == [first, second, third]
    assert (second.ledger_begins, second.opening_balance, second.entries) == (
        "2025-11",
        {"JPY": "0", "USD": "45.00"},
        0,
    )
    assert (second.opening_change, second.balance) == ({"JPY": "-3", "USD": "31.00"}, {"JPY": "-3", "USD": "76.00"})
    assert third.opening_balance == second.balance
    assert (third.opening_change, third.balance) == ({"JPY": "3", "USD": "-30.00"}, {"JPY": "0", "USD": "46.00"})
    assert not changes()


def test_days_that_may_still_change_are_named_with_their_money(books: BookedAccount) -> None:
    books.load(JANUARY, [SALE, PAYOUT, replace(FEE, day=date(2026, 1, 20))], read_on=date(2026, 2, 2))

    refused = _error(books, JANUARY)
    closed = _close(books, JANUARY, unsettled=True)

    assert refused.code == "MonthUnsettledError"
    assert "days of it may still change, 2026-01-18..2026-01-31 (1 row, -15.00 USD)" in str(refused)
    assert "on 2026-02-15 or later" in str(refused)
    assert "--unsettled" in refused.next_step
    assert closed.unsettled is not None
    assert (closed.unsettled.rows, closed.unsettled.amounts) == (1, {"USD": "-15.00"})


def test_a_number_that_two_accounts_have_is_explained_of_one(books: BookedAccount) -> None:
    other = BookedAccount(books.database, "us-2", replace(books.account, seller_id="S2"))
    connect_accounts(books.database, [(books.key, books.account), (other.key, other.account)])
    other.load(JANUARY, [SALE, replace(PAYOUT, amount=Decimal("-1.00"))])
    for key in (books.key, other.key):
        build_partition(books.database, JOURNAL, key, JANUARY)

    with pytest.raises(RequestError, match="entries of us-1, us-2 have the number 7-260114PUSD") as refused:
        explain_entry(books.database, DEFAULT_ACCOUNTS, "7-260114PUSD")

    assert "--account" in refused.value.next_step
    explained = explain_entry(books.database, DEFAULT_ACCOUNTS, "7-260114PUSD", "payouts", other.key)
    assert (explained.is_booked, explained.amounts) == (False, [Decimal("-1.00")])


def test_each_line_is_explained_to_its_rows_also_where_they_are_gone(books: BookedAccount) -> None:
    _close(books, JANUARY)
    changed = [replace(SALE, order="O-2"), replace(FEE, amount=Decimal("-17.00")), replace(FEE, currency="JPY"), PAYOUT]
    load = books.load(JANUARY, changed, read_on=date(2026, 3, 20))
    _close(books, FEBRUARY)

    booked = explain_entry(books.database, DEFAULT_ACCOUNTS, "7-260114PUSD", "selling_fees")
    whole = explain_entry(books.database, DEFAULT_ACCOUNTS, "7-260114PUSD", "balance")
    adjusted = explain_entry(books.database, DEFAULT_ACCOUNTS, "7-2601A2602USD")

    assert [(row["sign"], row["amount"], row["gone_load_id"]) for row in booked.rows] == [(1, Decimal("-15.00"), load)]
    assert whole.amounts == [Decimal("100.00"), Decimal("-80.00"), Decimal("-15.00")]
    assert adjusted.amounts == [Decimal("100.00"), Decimal("-100.00"), Decimal("-17.00"), Decimal("15.00")]
    requests = [each.request for each in (*booked.origins, *whole.origins, *adjusted.origins)]
    assert all(each is not None and "2026-01-01" in each.params.values() for each in requests)
    with pytest.raises(RequestError, match="has no entry '7-260114PUSD' with a line 'refunds'"):
        explain_entry(books.database, DEFAULT_ACCOUNTS, "7-260114PUSD", "refunds")


def test_other_accounts_of_the_books_are_used_from_the_open_month_on(books: BookedAccount) -> None:
    _close(books, JANUARY)
    booked = _booked(books, JANUARY)
    books.load(JANUARY, [SALE, replace(FEE, amount=Decimal("-17.00")), PAYOUT])

    _close(books, FEBRUARY, OTHER_ACCOUNTS)

    assert _booked(books, JANUARY) == booked
    assert [row[3:] for row in _lines(books, "kind = 'adjusting'")] == [
        ("Marketplace balance", Decimal("-2.00")),
        ("Amazon fees", Decimal("17.00")),
        ("Selling fees", Decimal("-15.00")),  # as it was booked
    ]


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM seller.transactions WHERE transaction_type = 'Fee'",
        "UPDATE seller.transactions SET amount = amount * -3",
        "UPDATE seller.transactions SET transaction_type = 'Refund' WHERE transaction_type = 'Fee'",
        "INSERT INTO seller.transactions (posted_date, transaction_type, amount, local_day, account, load_id, page) "
        "SELECT posted_date, 'Order', 9, local_day, account, load_id, page FROM seller.transactions",
    ],
)
def test_a_repaired_difference_adjusts_nothing_also_under_other_accounts(books: BookedAccount, damage: str) -> None:
    _close(books, JANUARY)
    books.database.execute(text(damage))
    build_partition(books.database, JOURNAL, books.key, JANUARY)
    books.load(JANUARY, [SALE, FEE, PAYOUT], by_value="Ada")

    repaired = _close(books, FEBRUARY, OTHER_ACCOUNTS)
    books.load(JANUARY, [SALE, FEE, replace(PAYOUT, amount=Decimal("-79.00"))])
    restated = _close(books, MARCH, OTHER_ACCOUNTS)

    assert (repaired.closed.adjusting_entries, restated.closed.adjusting_entries) == (0, 1)


def test_lines_that_were_one_when_they_were_booked_adjust_nothing(books: BookedAccount) -> None:
    line = {each.name: each for each in DEFAULT_ACCOUNTS.lines}
    former = replace(  # payments had shipping, tax and promotions in them, and reserves were adjustments
        DEFAULT_ACCOUNTS,
        lines=(
            *(line[name] for name in ("payments", "payouts", "selling_fees")),
            replace(line["adjustments"], entries=(EntryPattern("*eserve*"),)),
        ),
    )
    parts = [
        ("Order", "Shipping"),
        ("Order", "Tax"),
        ("Order", "Discount"),
        ("Reserve", "Held"),
        ("Reserve", "Release"),
    ]
    entries = [SALE, FEE, PAYOUT, *(Entry.on("2026-01-20", kind, "5.00", description=says) for kind, says in parts)]
    books.load(JANUARY, entries)
    _close(books, JANUARY, former)
    booked = _booked(books, JANUARY)
    books.database.execute(text("UPDATE seller.transactions SET amount = 6 WHERE description = 'Tax'"))
    books.load(JANUARY, entries, by_value="Ada")
    build_partition(books.database, JOURNAL, books.key, JANUARY)

    unchanged = _close(books, FEBRUARY)
    restated = [replace(each, amount=Decimal("7.00")) if each.description == "Shipping" else each for each in entries]
    books.load(JANUARY, restated)
    _close(books, MARCH)

    assert (unchanged.closed.adjusting_entries, unchanged.closed.balance) == (0, {"USD": "30.00"})
    assert _booked(books, JANUARY) == booked
    assert [row[2:] for row in _lines(books, "kind = 'adjusting'")] == [
        ("balance", "Marketplace balance", Decimal("2.00")),
        ("payments", "Marketplace sales", Decimal("5.00")),  # as it was booked
        ("shipping", "Shipping income", Decimal("-7.00")),
    ]


def test_the_next_payout_is_expected_after_the_usual_days(books: BookedAccount) -> None:
    days = ("2026-01-14", "2026-01-28", "2026-02-11", "2026-02-11", "2026-02-26")
    payouts = [replace(Entry.on(day, "Transfer", f"-{n}.00"), hour=8 + n) for n, day in enumerate(days, start=1)]
    foreign = [  # of which nothing is owed then
        Entry.on("2026-01-02", "Order", "2", currency="JPY"),
        *(Entry.on(day, "Transfer", "-1", currency="JPY") for day in days[:2]),
    ]
    back = Entry.on("2026-02-27", "Transfer", "0.50")
    former = [
        Entry.on(f"2025-12-{day}", "Transfer", "-1.00") for day in range(10, 22)
    ]  # each day, before the newest six
    books.load(Window.month_of(date(2025, 12, 1)), [Entry.on("2025-12-01", "Order", "12.00"), *former])
    books.load(JANUARY, [SALE, FEE, *payouts[:2], *foreign])
    books.load(FEBRUARY, [*payouts[2:], back])
    with time_machine.travel(datetime(2026, 3, 5, tzinfo=UTC), tick=False):
        months = _months(books)
        earlier = replace(DEFAULT_ACCOUNTS.lines[-1], entries=(EntryPattern("Trans*"),))
        others = _months(books, replace(DEFAULT_ACCOUNTS, lines=(earlier, DEFAULT_ACCOUNTS.lines[0])))

    february, march = months
    assert [(each.moment.isoformat(), each.currency, each.amount) for each in february.payouts] == [
        ("2026-02-11T19:00:00+00:00", "USD", "3.00"),
        ("2026-02-11T20:00:00+00:00", "USD", "4.00"),
        ("2026-02-26T21:00:00+00:00", "USD", "5.00"),
        ("2026-02-27T20:00:00+00:00", "USD", "-0.50"),
    ]
    assert (february.paid_out["USD"], february.next_payout) == ("11.50", {})
    assert march.next_payout == {"USD": NextPayout(amount="70.50", day=date(2026, 3, 12))}
    assert (march.opening_balance["USD"], march.balance["USD"], march.payouts) == ("70.50", "70.50", [])
    assert [(each.payouts, each.next_payout, each.paid_out["USD"]) for each in others] == [([], {}, "0.00")] * 2


def test_a_month_that_cannot_be_closed_says_why(books: BookedAccount) -> None:
    now, december = (Window.month_of(day) for day in (utc_now().date(), date(2025, 12, 1)))
    codes = {_error(books, now).code: "is not over", _error(books, december).code: "was never read"}
    books.load(FEBRUARY, [], read_on=date(2026, 3, 1))  # in Los Angeles the day before
    incomplete = _error(books, FEBRUARY)
    assert "--dataset transactions --from 2026-02 --to 2026-02`" in str(incomplete)
    codes[incomplete.code] = "was read after it ended"
    _close(books, JANUARY)
    order = _error(books, MARCH)

    assert list(codes) == ["MonthNotOverError", "MonthIncompleteError"]
    assert (order.code, "the open month is 2026-02" in str(order)) == ("MonthOrderError", True)
    assert _error(books, december).code == "MonthOrderError"
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
    assert not any(each.closed_at for each in _months(books))


def test_a_ledger_that_two_accounts_have_is_booked_once(books: BookedAccount) -> None:
    other = BookedAccount(books.database, "us-2", replace(books.account, id=8, seller_id="S2"))
    connect_accounts(books.database, [(books.key, books.account), (other.key, other.account)])
    other.load(JANUARY, [SALE, FEE, PAYOUT])
    _close(books, JANUARY)
    books.database.execute(
        text("INSERT INTO platform.repeated_ledgers VALUES ('us-2', '2026-01-01', 'us-1', 3, 3, '{}')")
    )

    assert _error(other, JANUARY).code == "LedgerBookedTwiceError"


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.nightly)])
def test_each_row_is_booked_once_whatever_happens_during_a_closing(books: BookedAccount, step: int) -> None:
    def closed_with_a_change(number: int) -> int:
        """Close February while the ledger of January is restated, and built with other accounts, at a statement.

        Then close March, and return how many statements February took.
        """

        def change() -> None:
            entries.append(replace(FEE, order="late"))
            with suppress(SellerPlatformError):
                BookedAccount(impatient, shop.key, shop.account).load(JANUARY, entries, read_on=date(2026, 3, 20))
                build_partition(impatient, journal_of(OTHER_ACCOUNTS), shop.key, JANUARY)

        shop = BookedAccount(books.database, f"us-{number}", replace(books.account, id=number, seller_id=f"{number}"))
        connect_accounts(books.database, [(shop.key, shop.account)])
        entries = [SALE, FEE, PAYOUT]
        shop.load(JANUARY, entries)
        _close(shop, JANUARY)
        entries.append(replace(FEE, order="later"))
        for month, of_month in ((JANUARY, entries), (FEBRUARY, []), (MARCH, [])):
            shop.load(month, of_month)
        with interrupted(shop.database, number, change) as interruption:
            _close(shop, FEBRUARY)
        _close(shop, MARCH)
        return interruption.statements

    with closing(Database(books.database.url, settings={"lock_timeout": "50ms"})) as impatient:
        statements = closed_with_a_change(0)
        # The last ones book the lines.
        for number in {*range(1, statements, step), *range(statements - 6, statements + 1)}:
            closed_with_a_change(number)

    assert statements > 20
    assert _rows(books, "SELECT number FROM platform.booked_lines WHERE account_name = 'Amazon fees'") == []
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
            assert _close(books, JANUARY).result == "closed"
        else:
            assert _error(books, JANUARY).code == "MonthNotOverError"


@pytest.mark.parametrize("statement", ["UPDATE {} SET month = month", "DELETE FROM {}", "TRUNCATE {}"])
@pytest.mark.parametrize("table", ["platform.bookings", "platform.booked_lines"])
def test_the_database_refuses_to_change_what_was_booked(database: Database, table: str, statement: str) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match="is append-only"), database.begin() as connection:
        driver_of(connection).execute(statement.format(table))
