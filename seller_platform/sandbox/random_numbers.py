"""Chance that repeats itself: generators that depend on a seed and a place, and arithmetic in whole cents."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_SEEDS = 2**64


def generator(seed: int, *place: int) -> np.random.Generator:
    """Return the generator of one place: an account, a purpose, a day. Places do not disturb one another."""
    return np.random.default_rng([seed % _SEEDS, *place])


def share(cents: Ints, basis_points: Ints | int) -> Ints:
    """Return so many hundredths of a percent of amounts that are not negative, rounded half up to the cent."""
    return (cents * basis_points + 5_000) // 10_000


def money(cents: int) -> str:
    """Return an amount as text with two decimals; no float comes near it."""
    sign, cents = ("-", -cents) if cents < 0 else ("", cents)
    return f"{sign}{cents // 100}.{cents % 100:02d}"


def amounts(cents: Iterable[int]) -> list[str]:
    """Return many amounts as text."""
    return [money(each) for each in cents]


def listed(values: Iterable[str]) -> npt.NDArray[np.object_]:
    """Return texts as an array, so that a selection of them is one lookup."""
    return np.array(list(values), dtype=object)
