"""The catalogue: products, their parents and variants, and a few with names and SKUs that break programs.

All accounts offer the same products, as sellers do, so a SKU alone does not identify an account.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from random import Random

_STYLES = ("", "Classic ", "Everyday ", "Handmade ", "Nordic ", "Compact ", "Premium ", "Travel ")
_SIZES = ("Small", "Medium", "Large", "Extra Large")
_COLOURS = ("Black", "White", "Sand", "Forest Green", "Ocean Blue", "Rosé")
_PACKS = ("Set of 2", "Set of 4", "Set of 6")
_TYPES = (
    ("Cutting Board", ("Bamboo", "Walnut", "Acacia Wood"), _SIZES),
    ("Coffee Mug", ("Stoneware", "Porcelain", "Enamel"), _COLOURS),
    ("Water Bottle", ("Stainless Steel", "Glass", "Aluminium"), _COLOURS),
    ("Throw Blanket", ("Wool", "Cotton", "Fleece"), _COLOURS),
    ("Table Lamp", ("Oak", "Ceramic", "Brass"), _COLOURS),
    ("Storage Basket", ("Seagrass", "Cotton Rope", "Wicker"), _SIZES),
    ("Bath Towel", ("Cotton", "Linen", "Bamboo"), _COLOURS),
    ("Yoga Mat", ("Cork", "Natural Rubber"), _COLOURS),
    ("Plant Pot", ("Terracotta", "Ceramic", "Concrete"), _SIZES),
    ("Salad Bowl", ("Olive Wood", "Glass", "Ceramic"), _SIZES),
    ("Candle Holder", ("Brass", "Glass", "Marble"), _PACKS),
    ("Coaster", ("Cork", "Slate", "Felt"), _PACKS),
    ("Kitchen Apron", ("Linen", "Cotton", "Denim"), _COLOURS),
    ("Wall Clock", ("Oak", "Steel", "Bamboo"), _COLOURS),
    ("Teapot", ("Cast Iron", "Glass", "Porcelain"), _SIZES),
    ("Door Mat", ("Coir", "Rubber", "Jute"), _SIZES),
    ("Notebook", ("Leather", "Kraft Paper", "Cork"), _PACKS),
    ("Lunch Box", ("Stainless Steel", "Bamboo", "Glass"), _SIZES),
    ("Pillow Cover", ("Linen", "Velvet", "Cotton"), _COLOURS),
    ("Serving Tray", ("Walnut", "Marble", "Bamboo"), _SIZES),
    ("Baking Mould", ("Silicone", "Cast Iron", "Glass"), _PACKS),
    ("Dog Bed", ("Fleece", "Cotton", "Corduroy"), _SIZES),
    ("Backpack", ("Canvas", "Leather", "Recycled Nylon"), _COLOURS),
    ("Desk Organizer", ("Bamboo", "Steel", "Felt"), _COLOURS),
)
_UNUSUAL = (
    ("=SUM(1+1)", '=HYPERLINK("https://shop.example")'),
    ("C:\\TRAY 100%", "Tray C:\\home\\new, anti-slip \\N\tset of 2"),
    ("PARTY-🎉", "Party set 🎉👩‍👩‍👧 with balloons\n(two lines, as it was pasted)"),
    ("A&B?C=D#1", "<b>Pen & Ink</b> 'Duo'; 50% off -- today"),
    ("Größe/ЧАЙ", "Чай чёрный 250 г\r\n茶 листовой"),
    ("None", "None"),
    ("LONG-1", f"Storage box, 40 x 30 x 20 cm, {'stackable, with lid, ' * 20}grey"),
)
_FEWEST_TO_ONE_UNUSUAL = 6
_TWINS = 0.04


@dataclass(frozen=True)
class Product:
    """One product as it is offered, under one SKU.

    Attributes:
        parent_asin: The listing of which it is a variant; None for a product without variants. A second offer
            of one product has its ASIN and a SKU of its own.
    """

    sku: str
    asin: str
    parent_asin: str | None
    name: str
    fnsku: str
    lead_time_days: int


@lru_cache(maxsize=4)
def generate_catalogue(size: int, seed: int) -> tuple[Product, ...]:
    """Return the products of a catalogue. The last of them, at most one in six, are unusual.

    A longer catalogue has the same usual products, and others after them.
    """
    unusual = min(len(_UNUSUAL), size // _FEWEST_TO_ONE_UNUSUAL)
    usual = islice(_products(Random(f"catalogue {seed}")), size - unusual)
    rng = Random(f"unusual products {seed}")
    return (*usual, *(_product(rng, sku, _code(rng, "B0"), None, name) for sku, name in _UNUSUAL[:unusual]))


def unusual_products(products: Sequence[Product]) -> int:
    """Return how many of a catalogue's products are unusual."""
    names = {name for _, name in _UNUSUAL}
    return sum(product.name in names for product in products)


def _products(rng: Random) -> Iterator[Product]:
    """Yield an endless series of product families."""
    names = [(style, material, thing) for style in _STYLES for thing in _TYPES for material in thing[1]]
    for number in count():
        if number % len(names) == 0:
            rng.shuffle(names)
        style, material, thing = names[number % len(names)]
        edition = f" {number // len(names) + 1}" if number >= len(names) else ""
        name = f"{style}{material} {thing[0]}{edition}"
        stem = "-".join((*(word[:3] for word in name.split()[-3:]), f"{number + 1:04d}")).upper()
        variants = thing[2][: rng.choice((1, 1, 2, 3, 4, 6))]
        parent = _code(rng, "B0") if len(variants) > 1 else None
        for variant in variants:
            ending = f"-{''.join(word[:3] for word in variant.split())}".upper() if parent else ""
            product = _product(rng, stem + ending, _code(rng, "B0"), parent, f"{name}, {variant}" if parent else name)
            yield product
            if rng.random() < _TWINS:
                yield _product(rng, f"{product.sku} (2)", product.asin, parent, product.name)


def _product(rng: Random, sku: str, asin: str, parent_asin: str | None, name: str) -> Product:
    return Product(sku, asin, parent_asin, name, _code(rng, "X0"), rng.randint(10, 45))


def _code(rng: Random, start: str) -> str:
    return start + "".join(rng.choices("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=8))
