"""Notifications that follow from stock and prices, day by day."""

from collections.abc import Iterator, Sequence
from datetime import date

import numpy as np
from numpy.random import Generator

from seller_platform.counts import count_of
from seller_platform.sandbox.catalogue import Product
from seller_platform.sandbox.demand import Demand
from seller_platform.sandbox.local_days import LocalDay
from seller_platform.sandbox.random_numbers import Ints, money
from seller_platform.sandbox.stock import Stock
from seller_platform.warehouse.loads.copy_format import Row

IDS_OF_AN_ACCOUNT = 10_000_000
_LOW_DAYS = 7
_OLD_DAYS = 7
_STRANDED = 0.0005
_RAISED_FROM, _RAISED_UNTIL = 6 * 3_600, 22 * 3_600


class Notifications:
    """Watches the stock and the prices of one account and keeps the notifications."""

    def __init__(self, products: Sequence[Product], demand: Demand, currency: str, first_id: int) -> None:
        self._rows: list[Row] = []
        self._products, self._demand, self._currency = products, demand, currency
        self._next_id = first_id
        self._was_out = np.zeros(len(products), dtype=np.bool_)
        self._was_low = np.zeros(len(products), dtype=np.bool_)

    def watch(
        self, rng: Generator, day: LocalDay, day_number: int, *, stock: Stock, weekly: Ints, reordered: Ints, today: int
    ) -> None:
        """Raise what the end of a day gives reason for.

        Args:
            weekly: Units of each product that should sell in a week.
            reordered: Products that were reordered this day.
            today: The index of the day on which the list is read.
        """
        notices = list(self._notices(rng, day_number, stock=stock, weekly=weekly, reordered=reordered))
        seconds = np.sort(rng.integers(_RAISED_FROM, _RAISED_UNTIL, len(notices))).tolist()
        read_odds = 0.9 if today - day_number > _OLD_DAYS else 0.3
        read = (rng.random(len(notices)) < read_odds).tolist()
        for second, (texts, product), is_read in zip(seconds, notices, read, strict=True):
            sku, raised_at = self._products[product].sku, day.stamp(second)
            self._rows.append((self._next_id, *texts, sku, raised_at, is_read))
            self._next_id += 1

    def rows(self, today: date) -> list[Row]:
        """Return a row for each notification, as the list of a day."""
        return [(*row, today) for row in self._rows]

    def _notices(
        self, rng: Generator, day_number: int, *, stock: Stock, weekly: Ints, reordered: Ints
    ) -> Iterator[tuple[tuple[str, str, str, str], int]]:
        """Yield kind, title, message and severity of each notification, and its product."""
        is_out = stock.sellable == 0
        is_low = ~is_out & (stock.sellable < weekly)
        for product in np.flatnonzero(is_out & ~self._was_out).tolist():
            message = f"{self._name(product)} is out of stock. Buyers cannot order it until a shipment arrives."
            yield ("inventory_alerts", "Out of stock", message, "high"), product
        for product in np.flatnonzero(is_low & ~self._was_low & ~self._was_out).tolist():
            units = int(stock.sellable[product])
            message = (
                f"{self._name(product)}: {count_of(units, 'unit', 'is')} left, less than {_LOW_DAYS} days usually need."
            )
            yield ("inventory_alerts", "Low stock", message, "medium"), product
        for product in reordered.tolist():
            units, lead = int(stock.sellable[product]), self._products[product].lead_time_days
            message = (
                f"{self._name(product)}: {count_of(units, 'unit', 'is')} left and the supplier needs "
                f"{count_of(lead, 'day')}. Order now."
            )
            severity = "high" if units == 0 else "medium"
            yield ("restock_alerts", "Time to restock", message, severity), product
        for product in np.flatnonzero(self._demand.price_changes_on(day_number)).tolist():
            before, after = (int(self._demand.prices_on(day)[product]) for day in (day_number - 1, day_number))
            verb = "rose" if after > before else "fell"
            severity = "medium" if after < before else "low"
            change = f"{verb} from {money(before)} to {money(after)} {self._currency}"
            message = f"The featured offer of {self._name(product)} {change}."
            yield ("price_alerts", f"The featured offer {verb}", message, severity), product
        for product in np.flatnonzero(~is_out & (rng.random(len(is_out)) < _STRANDED)).tolist():
            message = f"{self._name(product)} has units in stock but its offer was inactive for some hours."
            yield ("inventory_alerts", "Stranded inventory", message, "low"), product
        self._was_out, self._was_low = is_out, is_low

    def _name(self, product: int) -> str:
        return f"{self._products[product].name} ({self._products[product].sku})"
