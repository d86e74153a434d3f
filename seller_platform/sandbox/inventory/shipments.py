"""Inbound shipments: their units, their stages and their rows."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate

import numpy as np

from seller_platform.sandbox.random_numbers import Ints
from seller_platform.warehouse.loads.copy_format import Row

STATUSES = ("WORKING", "SHIPPED", "IN_TRANSIT", "DELIVERED", "CHECKED_IN", "RECEIVING", "CLOSED")

_NAMES = ("Refill", "Nachschub", 'Pallet "B"', "Supplier, direct", "Überhang\tLager 2", "Boxes 1/2 + 2/2", "補充")
_CENTRES = ("NRT-1", "STH-2", "EST-4", "WST-7")
_STAGE_DAYS = ((2, 5), (5, 9), (1, 3), (2, 5), (3, 6))
_DELAY_DAYS = (5, 16)
_LATE = 0.12


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

    @property
    def created(self) -> int:
        return self.starts[0]

    @property
    def closed(self) -> int:
        return self.starts[-1]

    def status(self, today: int) -> str:
        return STATUSES[bisect_right(self.starts, today) - 1]


def send(rng: np.random.Generator, number: int, created: int, products: Ints, quantities: Ints) -> Shipment:
    """Return a shipment that leaves on a day; now and then one is late."""
    pack, travel, unload, check, receive = (int(rng.integers(*bounds)) for bounds in _STAGE_DAYS)
    delay = int(rng.integers(*_DELAY_DAYS)) if rng.random() < _LATE else 0
    stages = (0, pack, 1, travel + delay, unload, check, receive)
    starts = tuple(accumulate(stages, initial=created))[1:]
    delivered = starts[STATUSES.index("DELIVERED")]
    return Shipment(number, starts, delivered - delay, products, quantities)


def shipment_rows(shipments: Sequence[Shipment], *, first: date, today: date, prefix: str) -> list[Row]:
    """Return a row for each shipment, with its status of today.

    Args:
        prefix: The start of the shipment identifiers.
    """
    return [
        (
            f"{prefix}{shipment.number:06d}",
            f"{_NAMES[shipment.number % len(_NAMES)]} {shipment.number}",
            shipment.status((today - first).days),
            _CENTRES[shipment.number % len(_CENTRES)],
            int(shipment.quantities.sum()),
            len(shipment.products),
            first + timedelta(days=shipment.expected),
            first + timedelta(days=shipment.created),
            today,
        )
        for shipment in shipments
    ]
