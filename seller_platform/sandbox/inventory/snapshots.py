"""Snapshots of today's stock: the marketplace's inventory and the seller's warehouses.

Restock advice: new stock is due when the sellable units last as long as the product's lead time. The suggested
quantity covers the lead time and 30 days more.
"""

from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np

from seller_platform.sandbox.catalogue import Product
from seller_platform.sandbox.inventory.stock import Stock
from seller_platform.sandbox.local_days import DAY_SECONDS, LocalDay
from seller_platform.sandbox.random_numbers import Ints, money
from seller_platform.warehouse.loads.copy_format import Row

VELOCITY_DAYS = 30
COVER_DAYS = 30
_WAREHOUSES = (("Main warehouse", 0.85), ('Depot "Süd", Halle 2', 0.35))
_LATEST_COUNT_DAYS = 5
_SHELF_UNITS = 400


def inventory_rows(products: Sequence[Product], stock: Stock, sold: Ints, today: date) -> list[Row]:
    """Return a row for each product.

    Args:
        sold: Units of each product ordered in the last 30 days, in all channels.
    """
    quantities = zip(
        stock.sellable.tolist(), stock.reserved.tolist(), stock.incoming.tolist(), sold.tolist(), strict=True
    )
    return [_inventory_row(product, units, today) for product, units in zip(products, quantities, strict=True)]


def warehouse_rows(
    rng: np.random.Generator, products: Sequence[Product], sold: Ints, days: Sequence[LocalDay], today: date
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


def _inventory_row(product: Product, units: tuple[int, int, int, int], today: date) -> Row:
    sellable, reserved, incoming, sold = units
    velocity = (sold * 200 + VELOCITY_DAYS) // (2 * VELOCITY_DAYS)  # in hundredths of a unit a day, rounded half up
    lasts = sellable * 100 // velocity if velocity else None
    lead = product.lead_time_days
    needed = -(-velocity * (lead + COVER_DAYS) // 100) - sellable - incoming
    return (
        product.sku,
        product.name,
        product.asin,
        product.fnsku,
        sellable,
        reserved,
        incoming,
        sellable + reserved + incoming,
        money(velocity),
        lasts,
        None if lasts is None else today + timedelta(days=max(0, lasts - lead)),
        max(0, needed),
        today,
    )
