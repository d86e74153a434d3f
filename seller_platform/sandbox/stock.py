"""The stock of one account, inbound shipments, and the lists of both.

Sales on the marketplace reduce the stock in its network; shipments and cancelled orders add to it.
Other sales leave from the seller's own warehouses. Returned units are not put back.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate

import numpy as np
from numpy.random import Generator

from seller_platform.contract import Window
from seller_platform.sandbox.catalogue import Product
from seller_platform.sandbox.local_days import DAY_SECONDS, LocalDay
from seller_platform.sandbox.random_numbers import Floats, Ints, money
from seller_platform.warehouse.loads.copy_format import Row

VELOCITY_DAYS = 30
_ADVISED_DAYS = 30
_WAREHOUSES = (("Main warehouse", 0.85), ('Depot "Süd", Halle 2', 0.35))
_LATEST_COUNT_DAYS = 5
_SHELF_UNITS = 400
_STATUSES = ("WORKING", "SHIPPED", "IN_TRANSIT", "DELIVERED", "CHECKED_IN", "RECEIVING", "CLOSED")

_NAMES = ("Refill", "Nachschub", 'Pallet "B"', "Supplier, direct", "Überhang\tLager 2", "Boxes 1/2 + 2/2", "補充")
_CENTRES = ("NRT-1", "STH-2", "EST-4", "WST-7")
_STAGE_DAYS = ((2, 5), (5, 9), (1, 3), (2, 5), (3, 6))
_LATE = 0.12
_MOST_PRODUCTS = 20
_LEAST_UNITS = 10
_COVER_DAYS = 45
_REORDER_DAYS = 22
_NEGLECTED = 0.12
_NEGLECTED_REORDER_DAYS = 5


@dataclass(frozen=True)
class Shipment:
    """One shipment. Days are indexes of the account's days; those before the first are negative.

    Attributes:
        starts: The day on which each status begins; units can be sold from the last of them on.
        expected: The planned day of arrival.
        products: Indexes in the catalogue, without duplicates.
        quantities: The units of each.
    """

    number: int
    starts: tuple[int, ...]
    expected: int
    products: Ints
    quantities: Ints


class Stock:
    """The units of each product, and the shipments that brought or bring them.

    Attributes:
        sellable: Units that can be sold now.
        reserved: Units of orders that are still open.
        incoming: Units in shipments that are not closed.
    """

    def __init__(self, rng: Generator, forecast: Floats) -> None:
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
            sent = -int(rng.integers(28, 45))  # so that it arrived before the first day
            shipment = _sent(rng, len(self.shipments) + 1, sent, batch, units[batch])
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

    def reorder(self, rng: Generator, day_number: int) -> Ints:
        """Send shipments of products that run low, and return these products."""
        position = self.sellable + self.incoming
        low = np.flatnonzero(position < np.ceil(self._forecast * self._reorder_days))
        for batch in _batches(low):
            units = np.maximum(_LEAST_UNITS, np.ceil(self._forecast[batch] * _COVER_DAYS)).astype(np.int64)
            shipment = _sent(rng, len(self.shipments) + 1, day_number, batch, units)
            self.shipments.append(shipment)
            self._arrivals.setdefault(shipment.starts[-1], []).append(shipment)
            self.incoming[batch] += units
        return low


def _batches(products: Ints) -> list[Ints]:
    return [products[start : start + _MOST_PRODUCTS] for start in range(0, len(products), _MOST_PRODUCTS)]


def _sent(rng: Generator, number: int, created: int, products: Ints, quantities: Ints) -> Shipment:
    """Return a shipment that leaves on a day; now and then one is late."""
    pack, travel, unload, check, receive = (int(rng.integers(*bounds)) for bounds in _STAGE_DAYS)
    delay = int(rng.integers(5, 16)) if rng.random() < _LATE else 0
    stages = (0, pack, 1, travel + delay, unload, check, receive)
    starts = tuple(accumulate(stages, initial=created))[1:]
    delivered = starts[_STATUSES.index("DELIVERED")]
    return Shipment(number, starts, delivered - delay, products, quantities)


def inventory_rows(products: Sequence[Product], stock: Stock, sold: Ints, today: date) -> list[Row]:
    """Return a row for each product.

    New stock is due when the sellable units last as long as the product's lead time. The suggested quantity covers the
    lead time and 30 days more.

    Args:
        sold: Units of each product ordered in the last 30 days, in all channels.
    """
    rows: list[Row] = []
    numbers = (each.tolist() for each in (stock.sellable, stock.reserved, stock.incoming, sold))
    for product, sellable, reserved, incoming, ordered in zip(products, *numbers, strict=True):
        velocity = (ordered * 200 + VELOCITY_DAYS) // (2 * VELOCITY_DAYS)  # hundredths of a unit a day, rounded half up
        lasts = sellable * 100 // velocity if velocity else None
        lead = product.lead_time_days
        due = None if lasts is None else today + timedelta(days=max(0, lasts - lead))
        needed = max(0, -(-velocity * (lead + _ADVISED_DAYS) // 100) - sellable - incoming)
        identity = (product.sku, product.name, product.asin, product.fnsku)
        units = (sellable, reserved, incoming, sellable + reserved + incoming)
        rows.append((*identity, *units, money(velocity), lasts, due, needed, today))
    return rows


def warehouse_rows(
    rng: Generator, products: Sequence[Product], sold: Ints, days: Sequence[LocalDay], today: date
) -> list[Row]:
    """Return the stock of the seller's own warehouses. Suppliers refill them without a trace in the data.

    Args:
        sold: Units of each product that left the warehouses since the first day.
        days: The account's days until yesterday.
    """
    rows: list[Row] = []
    for warehouse, odds in _WAREHOUSES:
        stocked = np.flatnonzero(rng.random(len(products)) < odds).tolist()
        numbers = rng.integers(0, 10**6, (len(stocked), 4)).tolist()
        rows += [
            (
                products[product].sku,
                warehouse,
                (quantity - int(sold[product])) % _SHELF_UNITS,
                f"{'ABCDEF'[rack % 6]}-{rack % 40:02d}-{rack % 5}",
                "reserved" if rack % 10 == 0 else "available",
                days[-1 - age % min(_LATEST_COUNT_DAYS, len(days))].stamp(second % DAY_SECONDS),
                today,
            )
            for product, (quantity, rack, age, second) in zip(stocked, numbers, strict=True)
        ]
    return rows


def shipment_rows(shipments: Sequence[Shipment], period: Window, *, prefix: str) -> list[Row]:
    """Return a row for each shipment, with its status on the day after a period."""
    first, today = period.start, period.end
    return [
        (
            f"{prefix}{shipment.number:06d}",
            f"{_NAMES[shipment.number % len(_NAMES)]} {shipment.number}",
            _STATUSES[bisect_right(shipment.starts, (today - first).days) - 1],
            _CENTRES[shipment.number % len(_CENTRES)],
            int(shipment.quantities.sum()),
            len(shipment.products),
            first + timedelta(days=shipment.expected),
            first + timedelta(days=shipment.starts[0]),
            today,
        )
        for shipment in shipments
    ]
