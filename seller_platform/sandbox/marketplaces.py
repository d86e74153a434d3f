"""The marketplaces of the sandbox, the accounts on them, and the exchange rates of currencies."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from random import Random

from seller_platform.contract import Account

CONNECTION = "sandbox"
"""The value of `connection` in `seller.accounts` for the sandbox's rows."""

_SIZES = (1.0, 0.6, 0.05)

_PER_EURO = {
    "USD": 1.09, "GBP": 0.85, "JPY": 163.0, "AUD": 1.65, "CAD": 1.48, "SEK": 11.3, "INR": 91.0, "MXN": 19.8,
    "PLN": 4.29, "SGD": 1.45, "BRL": 5.9, "CHF": 0.95, "CZK": 24.9, "DKK": 7.46, "NOK": 11.6, "CNY": 7.85,
    "TRY": 38.0, "AED": 4.0,
}  # fmt: skip
_SWING = 0.03
_WIGGLE = 0.004


@dataclass(frozen=True)
class Marketplace:
    """A country's marketplace.

    Attributes:
        tax: Tax on top of sales, in hundredths of a percent.
        price_level: Factor on all prices, for the level of prices and the currency.
    """

    country: str
    currency: str
    timezone: str
    identifier: str
    tax: int
    price_level: float

    @property
    def domain(self) -> str:
        return f"{self.country.lower()}.platform.example"


MARKETPLACES = (
    Marketplace("US", "USD", "America/Los_Angeles", "A1SBX4US70Q2KD", 825, 1.0),
    Marketplace("DE", "EUR", "Europe/Berlin", "A2SBX9DE31M7TB", 1900, 0.95),
    Marketplace("AU", "AUD", "Australia/Sydney", "A3SBX2AU58W4NR", 1000, 1.5),
    Marketplace("GB", "GBP", "Europe/London", "A1SBX6GB92F8HC", 2000, 0.8),
    Marketplace("CA", "CAD", "America/Toronto", "A2SBX1CA46V3LP", 1300, 1.35),
    Marketplace("SE", "SEK", "Europe/Stockholm", "A3SBX8SE17D5GY", 2500, 11.0),
    Marketplace("IN", "INR", "Asia/Kolkata", "A1SBX5IN63K9ZW", 1800, 85.0),
    Marketplace("MX", "MXN", "America/Mexico_City", "A2SBX3MX84J6QE", 1600, 18.0),
    Marketplace("PL", "PLN", "Europe/Warsaw", "A3SBX7PL29T1XV", 2300, 4.0),
    Marketplace("FR", "EUR", "Europe/Paris", "A1SBX9FR05R4UM", 2000, 1.0),
    Marketplace("SG", "SGD", "Asia/Singapore", "A2SBX4SG71B8JA", 900, 1.35),
    Marketplace("BR", "BRL", "America/Sao_Paulo", "A3SBX2BR38H7CS", 1700, 5.5),
)

_TITLES = (
    "North Pine",
    'Köhler "Haus & Hof"',
    "Tiny Shop, Sydney",
    "O'Hara + Sons",
    "Érable 100% / Québec",
    "Fika Ö",
    "चाय घर",
    "Niñas & Niños #1",
    "Żółw <Warszawa>",
    "L’Atelier de l’Été",
    "獅子 Store 🦁",
    "Pão\\Mel",
)


@dataclass(frozen=True)
class SandboxAccount:
    """One generated account.

    Attributes:
        number: Its number among the sandbox's accounts, from 0. With the seed it determines the account.
        size: Its orders, measured against the largest account.
    """

    number: int
    account: Account
    marketplace: Marketplace
    size: float

    @property
    def key(self) -> str:
        return self.account.key


def account_at(number: int, seed: int) -> SandboxAccount:
    """Return the account of a number. It does not depend on the number of accounts."""
    marketplace = MARKETPLACES[number % len(MARKETPLACES)]
    rng = Random(f"seller {seed} {number}")
    title = f"{_TITLES[number % len(_TITLES)]} {marketplace.country}"
    account = Account(
        id=1001 + number,
        title=title if number < len(_TITLES) else f"{title} {number + 1}",
        country_code=marketplace.country,
        currency_code=marketplace.currency,
        timezone=marketplace.timezone,
        marketplace=marketplace.identifier,
        seller_id="A" + "".join(rng.choices("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=13)),
    )
    return SandboxAccount(number, account, marketplace, _SIZES[number % len(_SIZES)])


def rates(first: date, last: date) -> Iterator[tuple[date, str, Decimal]]:
    """Yield day, currency and units of the currency for one euro, both days included; they depend on the day only."""
    for offset in range((last - first).days + 1):
        day = first + timedelta(days=offset)
        yield day, "EUR", Decimal(1)
        for number, (currency, middle) in enumerate(_PER_EURO.items()):
            turn = day.toordinal() + 37 * number
            wave = _SWING * math.sin(turn / 61) + _WIGGLE * math.sin(turn * 1.7)
            yield day, currency, Decimal(f"{middle * (1 + wave):.6f}")
