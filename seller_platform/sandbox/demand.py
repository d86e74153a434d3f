"""The demand: orders a day, the share of each product, and prices."""

import math
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.random import Generator

from seller_platform.sandbox.marketplaces import Marketplace
from seller_platform.sandbox.random_numbers import Flags, Floats, Ints

LINES_PER_ORDER = (0.78, 0.15, 0.05, 0.02)
UNITS_PER_LINE = (0.82, 0.11, 0.04, 0.02, 0.006, 0.004)
UNITS_PER_ORDER = sum(n * p for n, p in enumerate(LINES_PER_ORDER, 1)) * sum(
    n * p for n, p in enumerate(UNITS_PER_LINE, 1)
)
"""Units that an order asks for on average."""

_WEEKDAYS = (0.98, 0.94, 0.95, 0.97, 1.0, 1.06, 1.10)
_HOURS = (3, 2, 1, 1, 1, 2, 4, 7, 10, 12, 13, 13, 13, 13, 13, 13, 14, 16, 19, 22, 24, 21, 14, 7)
_MONTHS = (0.86, 0.84, 0.90, 0.93, 0.95, 0.92, 0.94, 0.92, 0.96, 1.02, 1.28, 1.48)
_SALE_DAYS = range(20, 31)  # of November
_SALE, _AFTER_CHRISTMAS_ORDERS = 1.5, 0.7
_CHRISTMAS_ORDERS_END = 21  # of December
_NEVER = -1
_YEAR = 365
_REPRICED = 0.5


@dataclass(frozen=True)
class Demand:
    """The demand of one account's buyers.

    Attributes:
        orders: The orders of each day.
        popularity: The share of each product, averaged over the year; adds up to 1.
        season: The day of the year on which each product sells best.
        swing: How much each product depends on its season, from 0 to 1.
        prices: Prices in cents before and after the change of price: two rows, one column for each product.
        price_change: The day on which the price of each product changes, and each year changes back; -1 for never.
        promotions: First and last day of each product's yearly promotion, and its rebate in basis points: three rows.
        commissions: The marketplace's share of the sales of each product, in basis points.
        fulfilment_fees: The marketplace's fee for a unit of each product, in cents.
    """

    orders: tuple[int, ...]
    popularity: Floats
    season: Ints
    swing: Floats
    prices: Ints
    price_change: Ints
    promotions: Ints
    commissions: Ints
    fulfilment_fees: Ints

    def chances(self, day: date, day_number: int) -> Floats:
        """Return the running sum of the products' probabilities on a day, up to 1."""
        angle = 2 * math.pi * (day.timetuple().tm_yday - self.season) / 365
        weights = self.popularity * (1 + self.swing * np.cos(angle)) * (1 + (self.rebates_on(day_number) > 0) * 1.5)
        running = np.cumsum(weights)
        chances: Floats = running / running[-1]
        return chances

    def prices_on(self, day_number: int) -> Ints:
        """Return the price of each product on a day, in cents."""
        changes = (day_number - self.price_change) // _YEAR + 1
        has_changed = (self.price_change != _NEVER) & (changes % 2 == 1) & (self.price_change <= day_number)
        prices: Ints = np.where(has_changed, self.prices[1], self.prices[0])
        return prices

    def price_changes_on(self, day_number: int) -> Flags:
        """Return whether the price of each product changes on a day."""
        is_due = (day_number - self.price_change) % _YEAR == 0
        changes: Flags = is_due & (self.price_change != _NEVER) & (self.price_change <= day_number)
        return changes

    def rebates_on(self, day_number: int) -> Ints:
        """Return the rebate on each product on a day, in basis points."""
        starts, ends, rebates = self.promotions
        day = day_number % _YEAR
        return np.where((starts <= day) & (day <= ends), rebates, 0)


def generate_demand(
    rng: Generator, days: Sequence[date], *, products: int, rarely_sold: int, per_month: float, market: Marketplace
) -> Demand:
    """Return the demand for an account's products. Days that are added at the end leave it as it is for the others.

    Args:
        rarely_sold: How many of the last products sell less than all others.
        per_month: The orders of an average month.
    """
    ranks = np.concatenate((rng.permutation(products - rarely_sold), np.arange(products - rarely_sold, products)))
    popularity = rng.lognormal(0, 0.3, products) / (ranks + 3) ** 0.9
    cents = 100 * rng.lognormal(3.0, 0.6, products) * market.price_level
    before = (cents.astype(np.int64) // 100 + 3) * 100 - 1
    after = before * rng.choice((90, 95, 105, 110), products) // 100
    starts = rng.integers(0, _YEAR, products)
    promoted = rng.choice((0, 500, 1000, 2000), products, p=(0.6, 0.1, 0.2, 0.1))
    return Demand(
        popularity=popularity / popularity.sum(),
        season=rng.integers(1, 366, products),
        swing=rng.choice((0.0, 0.2, 0.8), products, p=(0.5, 0.3, 0.2)),
        prices=np.stack((before, after)),
        price_change=np.where(rng.random(products) < _REPRICED, rng.integers(1, _YEAR, products), _NEVER),
        promotions=np.stack((starts, starts + rng.integers(3, 15, products), promoted)),
        commissions=rng.choice((800, 1_000, 1_200, 1_500), products, p=(0.2, 0.2, 0.2, 0.4)),
        fulfilment_fees=280 * int(100 * market.price_level) // 100 + before * 5 // 100,
        orders=_orders(rng, days, per_month),  # at last, because it draws a number for each day
    )


def seconds_of_day(rng: Generator, count: int) -> Ints:
    """Return `count` seconds of a day in ascending order, more of them in busy hours."""
    hours = np.searchsorted(_HOUR_CHANCES, rng.random(count), side="right")
    return np.sort(hours * 3_600 + rng.integers(0, 3_600, count))


def _orders(rng: Generator, days: Sequence[date], per_month: float) -> tuple[int, ...]:
    """Return the orders of each day.

    Rounding is carried over, so that a few orders a month are neither none nor many.
    """
    expected = []
    for day in days:
        factor = _WEEKDAYS[day.weekday()] * _MONTHS[day.month - 1]
        if day.month == 11 and day.day in _SALE_DAYS:
            factor *= _SALE
        elif day.month == 12 and day.day >= _CHRISTMAS_ORDERS_END:
            factor *= _AFTER_CHRISTMAS_ORDERS
        expected.append(per_month / monthrange(day.year, day.month)[1] * factor)
    running = np.ceil(np.cumsum(np.array(expected) * rng.lognormal(0, 0.12, len(days)))).astype(np.int64)
    return tuple(np.diff(running, prepend=0).tolist())


_HOUR_CHANCES = np.cumsum(_HOURS)[:-1] / sum(_HOURS)
