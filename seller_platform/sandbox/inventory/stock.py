"""The stock of one account in the marketplace's network.

Sales on the marketplace reduce it; shipments and cancelled orders add to it.
Other sales leave from the seller's own warehouses. Returned units are not put back.
"""

from copy import copy

import numpy as np

from seller_platform.sandbox.inventory.shipments import Shipment, send
from seller_platform.sandbox.random_numbers import Floats, Ints

_MOST_PRODUCTS = 20
_LEAST_UNITS = 10
_COVER_DAYS = 45
_REORDER_DAYS = 22
_NEGLECTED = 0.12
_NEGLECTED_REORDER_DAYS = 5
_OPENING_LEAD_DAYS = (28, 45)


class Stock:
    """The units of each product, and the shipments that brought or bring them.

    Attributes:
        sellable: Units that can be sold now.
        reserved: Units of orders that are still open.
        incoming: Units in shipments that are not closed.
    """

    def __init__(self, rng: np.random.Generator, forecast: Floats) -> None:
        """Stock the products before the first day.

        Args:
            forecast: Units of each product that should sell in a day.
        """
        products = len(forecast)
        self.sellable: Ints = np.zeros(products, dtype=np.int64)
        self.reserved: Ints = np.zeros(products, dtype=np.int64)
        self.incoming: Ints = np.zeros(products, dtype=np.int64)
        self.shipments: list[Shipment] = []
        self._arrivals: dict[int, list[Shipment]] = {}
        self._given_back: dict[int, list[tuple[Ints, Ints]]] = {}
        self._forecast = forecast
        is_neglected = rng.random(products) < _NEGLECTED
        self._reorder_days = np.where(is_neglected, _NEGLECTED_REORDER_DAYS, _REORDER_DAYS)
        units = _LEAST_UNITS + np.ceil(forecast * rng.integers(15, 60, products)).astype(np.int64)
        for batch in _batches(np.arange(products)):
            sent = -int(rng.integers(*_OPENING_LEAD_DAYS))  # so that it arrived before the first day
            shipment = send(rng, len(self.shipments) + 1, sent, batch, units[batch])
            self.shipments.append(shipment)
            self.sellable[batch] += shipment.quantities

    def receive(self, day_number: int) -> None:
        """Add the units that arrive on a day."""
        for shipment in self._arrivals.pop(day_number, ()):
            self.sellable[shipment.products] += shipment.quantities
            self.incoming[shipment.products] -= shipment.quantities
        for products, units in self._given_back.pop(day_number, ()):
            np.add.at(self.sellable, products, units)

    def give_back(self, day_number: int, products: Ints, units: Ints) -> None:
        """Let the units of cancelled orders be sold again from a day on."""
        self._given_back.setdefault(day_number, []).append((products, units))

    def fork(self) -> "Stock":
        """Return a copy that continues by itself."""
        other = copy(self)
        other.sellable, other.reserved, other.incoming = (
            each.copy() for each in (self.sellable, self.reserved, self.incoming)
        )
        other.shipments = [*self.shipments]
        other._arrivals = {day: [*each] for day, each in self._arrivals.items()}
        other._given_back = {day: [*each] for day, each in self._given_back.items()}
        return other

    def grant(self, products: Ints, units: Ints) -> Ints:
        """Take units in the order of the lines, and return the units of each line."""
        by_product = np.argsort(products, kind="stable")
        sorted_products, sorted_units = products[by_product], units[by_product]
        running = np.cumsum(sorted_units)
        is_first = np.diff(sorted_products, prepend=-1) != 0
        before_product = np.maximum.accumulate(np.where(is_first, running - sorted_units, 0))
        taken_before = running - sorted_units - before_product
        granted = np.empty_like(units)
        granted[by_product] = np.clip(self.sellable[sorted_products] - taken_before, 0, sorted_units)
        np.subtract.at(self.sellable, products, granted)
        return granted

    def reorder(self, rng: np.random.Generator, day_number: int) -> Ints:
        """Send shipments of products that run low, and return these products."""
        position = self.sellable + self.incoming
        low = np.flatnonzero(position < np.ceil(self._forecast * self._reorder_days))
        for batch in _batches(low):
            units = np.maximum(_LEAST_UNITS, np.ceil(self._forecast[batch] * _COVER_DAYS)).astype(np.int64)
            shipment = send(rng, len(self.shipments) + 1, day_number, batch, units)
            self.shipments.append(shipment)
            self._arrivals.setdefault(shipment.closed, []).append(shipment)
            self.incoming[batch] += units
        return low


def _batches(products: Ints) -> list[Ints]:
    return [products[start : start + _MOST_PRODUCTS] for start in range(0, len(products), _MOST_PRODUCTS)]
