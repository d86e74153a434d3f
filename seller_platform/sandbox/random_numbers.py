"""Random numbers that repeat for a seed, and arithmetic in whole cents."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Objects = npt.NDArray[np.object_]

_SEEDS = 2**64


def generator(seed: int, *scope: int) -> Generator:
    """Return an independent generator for one scope: an account, a purpose, a day."""
    return np.random.default_rng([seed % _SEEDS, *scope])


def drawn(rng: Generator, shares: tuple[float, ...], count: int) -> Ints:
    """Return numbers from 1 up, drawn by their shares."""
    return 1 + np.searchsorted(np.cumsum(shares)[:-1], rng.random(count), side="right")


def share(cents: Ints, basis_points: Ints | int) -> Ints:
    """Return basis points of non-negative amounts, rounded half up to the cent."""
    return (cents * basis_points + 5_000) // 10_000


def money(cents: int) -> str:
    """Return an amount as text with two decimals, computed without floats."""
    sign, cents = ("-", -cents) if cents < 0 else ("", cents)
    return f"{sign}{cents // 100}.{cents % 100:02d}"


def amounts(cents: Iterable[int]) -> list[str]:
    """Return many amounts as text."""
    return [money(each) for each in cents]


def listed(values: Iterable[str]) -> Objects:
    """Return texts as an array, so that numpy selects many at once."""
    return np.array(list(values), dtype=object)
