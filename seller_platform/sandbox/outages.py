"""Outages: lists that are empty or short for a day, as they are when something is down at a marketplace."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeVar
from zlib import crc32

from seller_platform.sandbox.random_numbers import generator

_Row = TypeVar("_Row")

_PURPOSE = 10
_EMPTY = 0.5
_LISTED = 0.4


@dataclass(frozen=True)
class Outages:
    """Which lists are empty or short on which days.

    Attributes:
        share: The share of the lists of all accounts and days.
    """

    share: float
    seed: int

    def listed(self, rows: Sequence[_Row], *, account: int, dataset: str, day: date) -> Sequence[_Row]:
        """Return the rows that a list has on a day: all of them, without an outage.

        Args:
            account: The number of the account.
        """
        rng = generator(self.seed, account, _PURPOSE, day.toordinal(), crc32(dataset.encode()))
        if rng.random() >= self.share:
            return rows
        listed = 0.0 if rng.random() < _EMPTY else _LISTED
        return [row for row, is_listed in zip(rows, rng.random(len(rows)) < listed, strict=True) if is_listed]
