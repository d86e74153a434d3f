"""Random sellers whose accounts have ledgers of their own, some of them with another account's entries planted."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from math import ceil
from zoneinfo import ZoneInfo

from seller_platform.contract import Account, Window
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import add_rows, connect_accounts, execute

MARCH, APRIL = (Window.month_of(date(2026, month, 1)) for month in (3, 4))
_EUROPE = ("Europe/Berlin", "Europe/London", "Europe/Istanbul", "Europe/Helsinki")


@dataclass(frozen=True)
class Entry:
    """One entry of a ledger."""

    posted: datetime
    kind: str
    order: str | None
    sku: str | None
    quantity: int | None
    cents: int
    currency: str = "EUR"


@dataclass
class Seller:
    """A seller with the ledgers of a month, by account."""

    name: str
    month: Window
    zones: dict[str, str]
    ledgers: dict[str, list[Entry]] = field(default_factory=dict)


def random_seller(number: int, rng: random.Random, *, least: int = 0) -> Seller:
    """Return a seller whose ledgers have nothing in common but what chance and equal fees bring.

    Args:
        least: The fewest orders of a ledger.
    """
    accounts = [f"{country}-{number}" for country in ("de", "fr", "it", "es", "uk")[: rng.randint(2, 5)]]
    zones = {account: rng.choice(_EUROPE) for account in accounts}
    seller = Seller(f"S{number}", rng.choice((MARCH, APRIL)), zones)
    fee, spelling, placeholder = rng.randint(100, 9_999), rng.choice(("long", "short", "counted")), rng.random() < 0.2
    for account in accounts:
        orders = max(least, int(rng.lognormvariate(4.5, 1.2)))
        seller.ledgers[account] = list(_ledger(rng, seller.month, orders, spelling))
        # Each account pays the same fees at the same moment, and has entries without an amount.
        moments = [_midday(seller.month.start + timedelta(days=day)) for day in (0, 7, 14, 21)]
        order = "-" if placeholder else rng.choice((None, ""))
        seller.ledgers[account] += [Entry(moment, "Subscription", order, None, None, -fee) for moment in moments]
        seller.ledgers[account] += [Entry(moment, "Adjustment", order, None, 0, 0) for moment in moments * 3]
    return seller


def planted(seller: Seller, share: float, rng: random.Random) -> tuple[Seller, str, str]:
    """Return a seller of whose first ledger a share is in the second one, too, with both accounts.

    The orders are any of the ledger, or those that follow one another by number.
    """
    account, other = list(seller.ledgers)[:2]
    own = seller.ledgers[account]
    orders = sorted({each.order for each in own if each.order and each.order != "-"})
    if rng.random() < 0.5:
        rng.shuffle(orders)
    chosen = set(orders[: ceil(share * len(orders))])
    copied = [each for each in own if each.order in chosen]
    return replace(seller, ledgers={**seller.ledgers, other: [*seller.ledgers[other], *copied]}), account, other


def store(database: Database, sellers: Sequence[Seller]) -> None:
    """Store the accounts, the receipts and the entries of sellers."""
    owners = [(account, seller) for seller in sellers for account in seller.ledgers]
    connect_accounts(
        database,
        [
            (account, Account(number, "Shop", None, None, seller.zones[account], "M", seller.name))
            for number, (account, seller) in enumerate(owners)
        ],
    )
    for account, seller in owners:
        rows = list(_rows(account, seller))
        add_rows(database, TRANSACTIONS, rows, account=account)
        store_receipt(database, TRANSACTIONS, account, seller.month, rows=len(rows))
    execute(database, "ANALYZE seller.transactions, platform.loads")


def _ledger(rng: random.Random, month: Window, orders: int, spelling: str) -> Iterator[Entry]:
    prices = [rng.randint(100, 5_000) for _ in range(6)]
    last = _midday(month.end - timedelta(days=1))
    for number in range(orders):
        order = {
            "long": f"305-{rng.randrange(10**7):07}-{rng.randrange(10**7):07}",
            "short": f"{rng.randrange(10_000)}",
            "counted": f"{1_000 + number}",
        }[spelling]
        moment = _midday(month.start) + timedelta(minutes=rng.randrange((month.days - 1) * 1_440))
        sku, quantity = f"SKU-{rng.randrange(6)}", rng.choice((1, 1, 1, 2))
        cents = rng.choice(prices) * quantity
        yield Entry(moment, "Order", order, sku, quantity, cents)
        yield Entry(moment, "Fee", order, sku, None, -cents * 15 // 100)
        if rng.random() < 0.05:
            yield Entry(moment, "Order", order, sku, quantity, cents)
        if rng.random() < 0.05:
            yield Entry(min(moment + timedelta(days=3), last), "Refund", order, sku, quantity, -cents)


def _rows(account: str, seller: Seller) -> Iterator[Row]:
    zone = ZoneInfo(seller.zones[account])
    for each in seller.ledgers[account]:
        day = each.posted.astimezone(zone).date()
        if seller.month.start <= day < seller.month.end:
            amount = each.cents / 100
            yield each.posted, each.kind, each.order, each.sku, None, each.quantity, amount, each.currency, None, day


def _midday(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
