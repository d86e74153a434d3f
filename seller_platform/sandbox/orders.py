"""One day's orders in one sales channel, as order lines and as daily product sales."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.random import Generator

from seller_platform.sandbox.catalogue import Product
from seller_platform.sandbox.demand import LINES_PER_ORDER, UNITS_PER_LINE, Demand, seconds_of_day
from seller_platform.sandbox.late_changes import CANCELLED, SETTLED_AFTER
from seller_platform.sandbox.local_days import DAY_SECONDS, LocalDay, stamps
from seller_platform.sandbox.random_numbers import Flags, Ints, Objects, amounts, drawn, listed, share
from seller_platform.warehouse.loads.copy_format import Row

_PAID_SHIPPING = 0.2
_COUPON = 0.04
_COUPON_BASIS_POINTS = 500
_NUMBERS = 10**14
_SCATTER = 61_803_398_877  # has no factor in common with _NUMBERS, so that equal numbers come from equal counts only

Grant = Callable[[Ints, Ints], Ints]
"""Takes units of products from the stock, in the order of the sales, and returns the units granted."""


@dataclass(frozen=True)
class Texts:
    """The texts of a catalogue as arrays with the catalogue's indexes."""

    skus: Objects
    asins: Objects
    names: Objects

    @classmethod
    def of(cls, products: Sequence[Product]) -> "Texts":
        return cls(*map(listed, zip(*((each.sku, each.asin, each.name) for each in products), strict=True)))


@dataclass(frozen=True)
class Sales:
    """The orders of one day in one channel. Arrays of orders first, then arrays of their lines, in cents.

    Attributes:
        seconds: When each order was placed.
        cancelled: Whether each order ends as cancelled.
        settled: The index of the day on which each order is cancelled, or shipped and paid.
        settled_seconds: The second of that day.
        order: The order of each line.
        product: The index in the catalogue of each line's product.
    """

    ids: Objects
    seconds: Ints
    cancelled: Flags
    settled: Ints
    settled_seconds: Ints
    order: Ints
    product: Ints
    quantity: Ints
    product_sales: Ints
    taxes: Ints
    shipping_credits: Ints
    rebates: Ints

    @property
    def totals(self) -> Ints:
        """What the buyer pays for each line."""
        return self.product_sales + self.taxes + self.shipping_credits - self.rebates

    def is_open(self, today: int) -> Flags:
        """Return whether each line is neither shipped nor cancelled before a day."""
        return (self.settled >= today)[self.order]

    def is_sale(self, today: int) -> Flags:
        """Return whether each line counts: it is not cancelled before a day."""
        return ~self.cancelled[self.order] | self.is_open(today)

    @property
    def is_paid(self) -> Flags:
        """Whether each line is shipped and paid at last."""
        return ~self.cancelled[self.order]


def order_ids(prefix: str, before: int, count: int) -> Objects:
    """Return the ids of so many orders after those before."""
    numbers = (np.arange(before + 1, before + 1 + count, dtype=np.int64) * _SCATTER) % _NUMBERS
    halves = (half.tolist() for half in np.divmod(numbers, 10**7))
    return listed(f"{prefix}-{high:07d}-{low:07d}" for high, low in zip(*halves, strict=True))


def draw_sales(
    rng: Generator, demand: Demand, day: LocalDay, day_number: int, *, ids: Objects, tax: int, grant: Grant
) -> Sales:
    """Return a day's orders.

    Args:
        day_number: The index of the day among the account's days.
        ids: Those of the orders that buyers try to place; an order without any unit in stock has no lines.
        tax: In basis points.
    """
    demanded = len(ids)
    seconds = seconds_of_day(rng, demanded)
    cancelled = rng.random(demanded) < CANCELLED
    order = np.repeat(np.arange(demanded), drawn(rng, LINES_PER_ORDER, demanded))
    product = np.searchsorted(demand.chances(day.date, day_number), rng.random(len(order)), side="right")
    # A product is on one line of an order only.
    pairs = np.unique(order * len(demand.popularity) + product)
    order, product = np.divmod(pairs, len(demand.popularity))
    asked = drawn(rng, UNITS_PER_LINE, len(pairs))
    granted = grant(product, asked)
    has_units = granted > 0
    order, product, granted = order[has_units], product[has_units], granted[has_units]
    settled = day_number + drawn(rng, SETTLED_AFTER, demanded)
    product_sales = demand.prices_on(day_number)[product] * granted
    promoted = demand.rebates_on(day_number)[product]  # in basis points; other lines may have a coupon
    return Sales(
        ids=ids,
        seconds=seconds,
        cancelled=cancelled,
        settled=settled,
        settled_seconds=rng.integers(0, DAY_SECONDS, demanded),
        order=order,
        product=product,
        quantity=granted,
        product_sales=product_sales,
        taxes=share(product_sales, tax),
        shipping_credits=np.where(
            rng.random(len(product)) < _PAID_SHIPPING, demand.fulfilment_fees[product] // 2 + 149, 0
        ),
        rebates=share(
            product_sales,
            np.where((promoted == 0) & (rng.random(len(product)) < _COUPON), _COUPON_BASIS_POINTS, promoted),
        ),
    )


def order_rows(
    sales: Sales, texts: Texts, days: Sequence[LocalDay], day_number: int, currency: str, *, today: int
) -> list[Row]:
    """Return a row for each line, with its status of today.

    Args:
        today: The index of the day on which the list is read.
    """
    placed = listed(stamps(days, repeat(day_number, len(sales.seconds)), sales.seconds.tolist()))
    status = np.where(sales.cancelled, "Cancelled", "Shipped")
    status = np.where(sales.settled < today, status, "Pending")
    return list(
        zip(
            sales.ids[sales.order].tolist(),
            placed[sales.order].tolist(),
            status[sales.order].tolist(),
            amounts(sales.totals.tolist()),
            repeat(currency),
            sales.quantity.tolist(),
            texts.skus[sales.product].tolist(),
            texts.asins[sales.product].tolist(),
            texts.names[sales.product].tolist(),
            repeat(days[day_number].text),
            strict=False,
        )
    )


def daily_rows(sales: Sales, texts: Texts, day: LocalDay, *, today: int) -> list[Row]:
    """Return the sales of each product: sums of the lines that are not cancelled before today."""
    counted = sales.is_sale(today)
    sold, indexes = np.unique(sales.product[counted], return_inverse=True)

    def total(values: Ints) -> list[int]:
        sums = np.zeros(len(sold), dtype=np.int64)
        np.add.at(sums, indexes, values[counted])
        return [int(each) for each in sums.tolist()]

    return list(
        zip(
            repeat(day.text),
            texts.skus[sold].tolist(),
            texts.names[sold].tolist(),
            texts.asins[sold].tolist(),
            total(sales.quantity),
            amounts(total(sales.product_sales)),
            amounts(total(sales.taxes)),
            amounts(total(sales.shipping_credits)),
            amounts(total(sales.rebates)),
            repeat(day.text),
            strict=False,
        )
    )
