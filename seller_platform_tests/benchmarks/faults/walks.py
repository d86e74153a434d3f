"""Reads lists whose rows change between two requests, and counts lost and doubled rows.

`python -m seller_platform_tests.benchmarks.faults.walks [--walks 10000]` prints one table.

Rows are added to lists of ten pages, and removed from them, while they are read. A row that was in the list from the
first request to the last must be read. If it is missing, the walk must end with an error or a verdict.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice, product
from typing import Any

import httpx

from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.slice_reader import read_slice
from seller_platform.contract import Dataset, dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import ListChangedError
from seller_platform_tests.benchmarks.faults.figures import Figure, print_figures
from seller_platform_tests.support.http_upstream import (
    BERLIN,
    MARCH,
    TODAY,
    KeptRows,
    MovingList,
    api_of,
    day_of_order,
    order,
    orders,
    stock,
)

ORDERS, STOCK = dataset_named("orders"), dataset_named("warehouse_stock")
ROWS, PAGE = 200, 20
CHANGES = (1, 2, 4, 10)
_FIRST_REQUESTS = 14  # about as many as an attempt takes


@dataclass(frozen=True)
class Kind:
    """A kind of walk: the list, its order and its changes.

    Attributes:
        newest_first: Whether new rows are added at the beginning of the list, not at its end.
        paired: Whether each change removes one row and adds another, so that the total stays the same.
    """

    dataset: Dataset
    newest_first: bool
    paired: bool

    def __str__(self) -> str:
        order_ = "newest first" if self.newest_first else "oldest first"
        return f"{self.dataset.name}, {order_}, {'a row for a row' if self.paired else 'more or fewer rows'}"


KINDS = tuple(Kind(*facts) for facts in product((ORDERS, STOCK), (True, False), (False, True)))


@dataclass
class Tally:
    """How the walks of one kind ended."""

    ends: Counter[str] = field(default_factory=Counter)
    requests: int = 0


class Mover:
    """A list that changes at some requests, and records the rows that were never removed."""

    def __init__(self, kind: Kind, rng: random.Random, changes: int) -> None:
        self._kind, self._rng = kind, rng
        self._key = "platform_order_id" if kind.dataset is ORDERS else "sku"
        rows = orders(ROWS, minutes=200) if kind.dataset is ORDERS else stock(ROWS)
        if kind.newest_first:
            rows.reverse()
        day_of = day_of_order if kind.dataset is ORDERS else None
        self.list = MovingList(rows, day_of=day_of, channel_of=_channel if day_of else None, page_size=PAGE)
        self.list.before_request = self._change
        self.there_all_along = {row[self._key] for row in rows}
        self._moments = Counter(rng.choices(range(2, _FIRST_REQUESTS), k=changes))

    def _change(self, number: int) -> None:
        for _ in range(self._moments[number]):
            takes = self._rng.random() < 0.5
            if takes or self._kind.paired:
                gone = self.list.rows.pop(self._rng.randrange(len(self.list.rows)))
                self.there_all_along.discard(gone[self._key])
            if not takes or self._kind.paired:
                self.list.rows.insert(0 if self._kind.newest_first else len(self.list.rows), self._late())

    def _late(self) -> dict[str, Any]:
        name = f"late-{self._rng.randrange(10**12)}"
        if self._kind.dataset is STOCK:
            return {**stock(1)[0], "sku": name}
        return order(name, datetime(2026, 3, 30, 12, tzinfo=UTC) + timedelta(seconds=self._rng.randrange(3600)))


def _channel(_: dict[str, Any]) -> str:
    return "platform"


@dataclass
class Upstream:
    """Answers for the list of the current walk, so that all walks share their connections."""

    list: MovingList | None = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        assert self.list is not None
        return self.list(request)


def walk_lists(walks: int, *, kinds: Sequence[Kind] = KINDS, look_ahead: int = 4, seed: int = 7) -> dict[Kind, Tally]:
    """Read lists of every kind and with every number of changes in turn."""
    upstream, tallies = Upstream(), {kind: Tally() for kind in kinds}
    turns = islice(cycle(product(kinds, CHANGES)), walks)
    with api_of(upstream) as api:
        for number, (kind, changes) in enumerate(turns):
            mover = Mover(kind, random.Random(f"{seed} {number}"), changes)
            upstream.list = mover.list
            tally = tallies[kind]
            tally.ends[_read(api, kind, mover, look_ahead)] += 1
            tally.requests += len(mover.list.requests)
    return tallies


def _read(api: SellerApi, kind: Kind, mover: Mover, look_ahead: int) -> str:
    window, day = (MARCH, None) if kind.dataset.is_dated else (None, TODAY)
    sink = KeptRows()
    try:
        reading = read_slice(api, kind.dataset, BERLIN, window, day, sink, look_ahead=look_ahead)
    except ListChangedError:
        return "refused"
    read = [row[0] for row in sink.rows]
    is_lossy, is_doubled = not mover.there_all_along <= set(read), len(read) != len(set(read))
    if reading.verdict is not CountVerdict.MATCH:
        return "mismatch"
    return "lossy" if is_lossy else "doubled" if is_doubled else "whole"


def figures_of(tallies: dict[Kind, Tally]) -> list[Figure]:
    """Return the promised and the measured figures of the walks."""
    total: Counter[str] = sum((tally.ends for tally in tallies.values()), start=Counter())
    figures = [
        Figure("walks over a moving list", total.total()),
        Figure("lost a row and did not say so", total["lossy"], "0", not total["lossy"]),
        Figure("kept a row twice and did not say so", total["doubled"], "0", not total["doubled"]),
        Figure("ended whole", total["whole"]),
        Figure("refused, or marked by the verdict", total["refused"] + total["mismatch"]),
    ]
    for kind, tally in tallies.items():
        walks = max(1, tally.ends.total())
        measured = f"{tally.ends['lossy']} of {walks:,} lossy, {tally.requests / walks:.1f} requests each"
        figures.append(Figure(f"  {kind}", measured))
    return figures


def main() -> int:
    """Read the lists and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--walks", type=int, default=10_000)
    parser.add_argument("--look-ahead", type=int, default=4)
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args()
    tallies = walk_lists(chosen.walks, look_ahead=chosen.look_ahead, seed=chosen.seed)
    return print_figures("Walks", figures_of(tallies))


if __name__ == "__main__":
    sys.exit(main())
