"""The catalogue: products, their parents and variants, some with names and SKUs that break programs.

All accounts offer the same products, as sellers do, so a SKU alone does not identify an account.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from random import Random

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MATERIALS = ("Oak", "Steel", "Linen", "Bamboo", "Ceramic", "Wool", "Glass", "Cork", "Cotton", "Copper")
_THINGS = (
    "Cup", "Lamp", "Blanket", "Bottle", "Cutting Board", "Pillow", "Vase", "Brush", "Tray", "Notebook", "Apron", "Bowl",
    "Planter", "Candle Holder", "Towel", "Clock", "Basket", "Coaster Set", "Teapot", "Door Mat",
)  # fmt: skip
_USES = ("for Home", "for the Kitchen", "for Travel", "Gift Edition", "Classic", "Pro", "Mini", "for Two")
_VARIANTS = ("Black", "White", "Sand", "Forest Green", "Ocean Blue", "Rosé")
_UNUSUAL = (
    ("MUG 12oz/BLUE", 'Mug "Good Morning", 12 oz – blue'),
    ("TEE+SOCKS", "T-Shirt & socks\tset of 2"),
    ("Größe L/42", "Größentabelle: Hausschuh „Wärme“, Filz"),
    ("BOX 100%", "Storage box\n(two lines, as it was pasted)"),
    ("C:\\TRAY", "Tray C:\\home\\new, anti-slip \\N"),
    ("PARTY-🎉", "Party set 🎉👩‍👩‍👧 with balloons"),
    ("=SUM(1+1)", '=HYPERLINK("https://shop.example")'),
    ("None", "None"),
    ("茶-001", "抹茶碗 手作り (matcha bowl)"),
    ("A&B?C=D#1", "<b>Pen & Ink</b> 'Duo'; 50% off -- today"),
    ("-25 DISC", "  Sanding disc, leading spaces"),
    ("ЧАЙ/250", "Чай чёрный 250 г\r\nлистовой"),
)
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
def invent_catalogue(size: int, seed: int) -> tuple[Product, ...]:
    """Return the first products of the catalogue; a longer one begins with a shorter one."""
    return tuple(islice(_products(Random(f"catalogue {seed}")), size))


def _products(rng: Random) -> Iterator[Product]:
    """Yield an endless series of product families. An unusual product follows each of the first families."""
    for family in count():
        yield from _family(rng, family)
        if family < len(_UNUSUAL):
            sku, name = _UNUSUAL[family]
            yield _product(rng, sku, _code(rng, "B0"), None, name)


def _family(rng: Random, number: int) -> Iterator[Product]:
    material, thing, use = rng.choice(_MATERIALS), rng.choice(_THINGS), rng.choice(_USES)
    name, stem = f"{material} {thing} {use}", f"{material[:2]}{thing[:3]}-{number + 1:04d}".upper()
    variants = rng.choice((1, 1, 2, 3, 4, 6))
    parent = _code(rng, "B0") if variants > 1 else None
    for variant in _VARIANTS[:variants]:
        ending = f"-{variant[:3].upper()}" if parent else ""
        product = _product(rng, stem + ending, _code(rng, "B0"), parent, f"{name}, {variant}" if parent else name)
        yield product
        if rng.random() < _TWINS:
            yield _product(rng, f"{product.sku} (2)", product.asin, parent, product.name)


def _product(rng: Random, sku: str, asin: str, parent_asin: str | None, name: str) -> Product:
    return Product(sku, asin, parent_asin, name, _code(rng, "X0"), rng.randint(10, 45))


def _code(rng: Random, start: str) -> str:
    return start + "".join(rng.choices(_ALPHABET, k=8))
