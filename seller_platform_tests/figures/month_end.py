"""Closes months of accounts whose ledgers are restated, and compares what was booked with the ledgers.

Each month the newest ledger is loaded, months before it are restated (amounts change, entries come and go, payouts too,
and a restatement may be undone), and the month is closed. The ledgers as they should be are kept beside the database.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import text

from seller_platform.contract import Account, Window
from seller_platform.warehouse.books.closing import close_month
from seller_platform.warehouse.books.line_rows import explain_entry
from seller_platform.warehouse.history.reverts import revert
from seller_platform.warehouse.marts.rules.journal_accounts import BALANCE, DEFAULT_ACCOUNTS
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support.installation import temporary_warehouse
from seller_platform_tests.support.ledgers import BookedAccount, Entry
from seller_platform_tests.support.stored_rows import connect_accounts

_FIRST_MONTH = date(2024, 1, 1)
_COUNTRIES = (
    ("USD", "America/Los_Angeles", Decimal("0.01")),
    ("EUR", "Europe/Berlin", Decimal("0.01")),
    ("JPY", "Asia/Tokyo", Decimal(1)),
    ("GBP", "Europe/London", Decimal("0.01")),
)
_PAYOUT_DAYS = 14
_KINDS = (
    ("Order", 1, 9_000),
    ("Fee", -1, 900),
    ("Refund", -1, 4_000),
    ("Advertising", -1, 700),
    ("Reimbursement", 1, 500),
)


@dataclass
class Ledger:
    """The ledger of an account as it should be: the entries of each month."""

    books: BookedAccount
    unit: Decimal
    rng: random.Random
    months: dict[Window, list[Entry]] = field(default_factory=dict)

    def add(self, month: Window) -> None:
        """Add a month: entries of its own currency and now and then of another, and a payout every two weeks."""
        entries = [self._entry(month) for _ in range(self.rng.randint(8, 25))]
        for day in month.each_day():
            if day.toordinal() % _PAYOUT_DAYS == 3:
                earned = sum(
                    (each.amount for each in entries if each.day < day and each.currency == self._own), Decimal(0)
                )
                if earned > 0:
                    reserve = self.unit * self.rng.randint(0, 500)
                    entries.append(Entry(day, "Transfer", min(-self.unit, reserve - earned), self._own, hour=9))
        self.months[month] = entries
        self._load(month)

    def restate(self, month: Window) -> None:
        """Change, remove and add entries of a month that was loaded before; some restatements are undone."""
        former, entries = self.months[month], list(self.months[month])
        for _ in range(self.rng.randint(1, 4)):
            match self.rng.randrange(3):
                case 0 if entries:
                    place = self.rng.randrange(len(entries))
                    more = self.unit * self.rng.choice([-300, -7, 1, 45])
                    entries[place] = replace(entries[place], amount=entries[place].amount + more)
                case 1 if entries:
                    entries.pop(self.rng.randrange(len(entries)))
                case _:
                    entries.append(self._entry(month))
        self.months[month] = entries
        load_id = self._load(month)
        if self.rng.random() < 0.15 and Counter(entries) != Counter(former):
            revert(self.books.database, load_id)
            self.months[month] = former

    @property
    def _own(self) -> str:
        return str(self.books.account.currency_code)

    def _entry(self, month: Window) -> Entry:
        kind, sign, most = self.rng.choice(_KINDS)
        currency = "SEK" if self.rng.random() < 0.1 else self._own
        unit = Decimal("0.01") if currency == "SEK" else self.unit
        day = month.start + timedelta(days=self.rng.randrange(month.days))
        order = f"{self.rng.randrange(10**6):06}"
        return Entry(
            day, kind, sign * unit * self.rng.randint(1, most), currency, order=order, hour=self.rng.randrange(24)
        )

    def _load(self, month: Window) -> int:
        return self.books.load(month, self.months[month], read_on=month.end + timedelta(days=20))


def measure(*, months: int = 24, accounts: int = 20, seed: int = 7) -> Promises:
    """Options: months that are closed, accounts, and the seed of their ledgers."""
    with temporary_warehouse() as (url, _), Database(url) as database:
        return close_months(database, months=months, accounts=accounts, seed=seed)


def close_months(database: Database, *, months: int, accounts: int, seed: int) -> Promises:
    """Close the months of new accounts one after another, and compare what was booked with their ledgers."""
    rng = random.Random(seed)
    ledgers = list(_ledgers(database, accounts, rng))
    connect_accounts(database, [(each.books.key, each.books.account) for each in ledgers])
    booked: dict[Any, Any] = {}
    changed, different, restatements = 0, 0, 0
    windows = list(Window(_FIRST_MONTH, _FIRST_MONTH + timedelta(days=31 * months)).months())[:months]
    for number, month in enumerate(Window.month_of(each.start) for each in windows):
        for ledger in ledgers:
            ledger.add(month)
            for former in rng.sample(list(ledger.months)[:number], min(number, rng.randint(0, 2))):
                ledger.restate(former)
                restatements += 1
            close_month(database, ledger.books.known, month, DEFAULT_ACCOUNTS, closed_by="the figure")
        now = _booked(database)
        changed += sum(now.get(key) != line for key, line in booked.items())
        booked = now
        different += sum(_different(database, ledger) for ledger in ledgers)
    unexplained, lines, without_request = _unexplained(database)
    return Promises(
        f"{months} months of {accounts} accounts, closed one after another",
        [
            Figure("months that were closed", months * accounts),
            Figure("restatements of closed months", restatements),
            Figure("lines that were booked", len(booked)),
            Figure("of these, in adjusting entries", sum(line.kind == "adjusting" for line in booked.values())),
            Figure(
                "sums by account, month, currency and kind that differ from the ledger", different, "0", different == 0
            ),
            Figure("booked lines that changed", changed, "0", changed == 0),
            Figure(
                "entries whose debits and credits differ", unbalanced := _unbalanced(database), "0", unbalanced == 0
            ),
            Figure("lines that were explained", lines),
            Figure("lines that do not follow from their rows", unexplained, "0", unexplained == 0),
            Figure("explained rows without a request", without_request, "0", without_request == 0),
        ],
    )


def _ledgers(database: Database, accounts: int, rng: random.Random) -> Iterator[Ledger]:
    for number in range(1, accounts + 1):
        currency, zone, unit = _COUNTRIES[number % len(_COUNTRIES)]
        account = Account(number, f"Account {number}", "US", currency, zone, "US", f"S{number}")
        yield Ledger(BookedAccount(database, f"S{number}.US", account), unit, random.Random(rng.random()))


def _booked(database: Database) -> dict[Any, Any]:
    with database.begin() as connection:
        rows = connection.execute(text("SELECT * FROM platform.booked_lines")).all()
    return {(row.number, row.line, row.account_name): row for row in rows}


def _different(database: Database, ledger: Ledger) -> int:
    """Return how many sums of what was booked differ from those of the ledger: payouts, and all that is earned."""
    with database.begin() as connection:
        rows = connection.execute(
            text(
                "SELECT ledger_month, currency, line = 'payouts', sum(credit - debit) FROM platform.booked_lines "
                "WHERE account = :account AND line <> :balance GROUP BY 1, 2, 3"
            ),
            {"account": ledger.books.key, "balance": BALANCE},
        ).all()
    sums: dict[tuple[date, str | None, bool], Decimal] = defaultdict(Decimal)
    for month, entries in ledger.months.items():
        for entry in entries:
            sums[month.start, entry.currency, entry.kind == "Transfer"] += entry.amount
    found = {(month, currency, is_payout): amount for month, currency, is_payout, amount in rows}
    return sum(sums.get(key, Decimal(0)) != found.get(key, Decimal(0)) for key in sums.keys() | found.keys())


def _unbalanced(database: Database) -> int:
    with database.begin() as connection:
        statement = "SELECT number FROM platform.booked_lines GROUP BY number HAVING sum(debit) <> sum(credit)"
        return len(connection.execute(text(statement)).all())


def _unexplained(database: Database) -> tuple[int, int, int]:
    """Return how many lines do not follow from their rows, how many there are, and how many rows have no request."""
    with database.begin() as connection:
        statement = "SELECT DISTINCT number, line FROM platform.booked_lines ORDER BY 1, 2"
        lines: Sequence[Any] = connection.execute(text(statement)).all()
    unexplained = without_request = 0
    for number, line in lines:
        entry = explain_entry(database, DEFAULT_ACCOUNTS, number, line)
        amount = sum(each["credit"] - each["debit"] for each in entry.lines)
        summed = sum((row.amount for row in entry.rows), Decimal(0))
        unexplained += summed != (-amount if line == BALANCE else amount)
        without_request += sum(each.request is None for each in entry.origins) + (not entry.origins)
    return unexplained, len(lines), without_request
