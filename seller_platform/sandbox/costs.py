"""Cost periods of the products, without gaps, each with its elements."""

import json
from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np

from seller_platform.sandbox.catalogue import Product
from seller_platform.sandbox.random_numbers import Ints, money
from seller_platform.warehouse.loads.copy_format import Row

_UNKNOWN = 0.05
_ELEMENTS = (
    ("Manufacturing", (3_000, 5_200), "Tsubaki Works 椿", "Ex works; see the \"frame contract\""),
    ("Freight", (400, 900), "Möller & Søn", ""),
    ("Packaging", (100, 300), "Papier, Pappe + Co.", "2 parts,\nglued"),
)  # fmt: skip
_RISE_BASIS_POINTS = 10_400


def cost_period_rows(
    rng: np.random.Generator, products: Sequence[Product], prices: Ints, *, currency: str, first: date, today: date
) -> list[Row]:
    """Return two adjoining periods for most products.

    The second begins in the first year of sales and ends with the year after today's.

    Args:
        prices: The price of each product, in cents; its cost is a share of the price.
        first: The first day of the sales.
    """
    start, turn = first.replace(month=1, day=1), first + timedelta(days=45)
    end = today.replace(year=today.year + 1, month=12, day=31)
    has_costs = rng.random(len(products)) >= _UNKNOWN
    shares = np.stack([rng.integers(*bounds, len(products)) for _, bounds, _, _ in _ELEMENTS], axis=1)
    costs = np.maximum(1, prices[:, np.newaxis] * shares // 10_000)
    rows: list[Row] = []
    for product in np.flatnonzero(has_costs).tolist():
        sku, cents = products[product].sku, costs[product].tolist()
        risen = [each * _RISE_BASIS_POINTS // 10_000 + 1 for each in cents]
        rows.append((sku, start, turn, _elements(cents, currency), today))
        rows.append((sku, turn + timedelta(days=1), end, _elements(risen, currency), today))
    return rows


def _elements(cents: Sequence[int], currency: str) -> str:
    """Return the elements as JSON. Amounts keep two decimals, which floats would lose."""
    elements = []
    for (name, _, provider, notes), amount in zip(_ELEMENTS, cents, strict=True):
        details = json.dumps({"currency": currency, "provider": provider, "notes": notes}, ensure_ascii=False)
        elements.append(f'{{"cost_element": {json.dumps(name)}, "amount": {money(amount)}, {details[1:]}')
    return f"[{', '.join(elements)}]"
