"""What happens in a run: actions of actors, and faults. A seed decides it before the run begins."""

from collections.abc import Collection
from dataclasses import dataclass
from random import Random

PROCESSES = ("one", "two", "three")

FOCI: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "all": (
        {
            **{"load": 5, "refresh": 3, "change": 6, "advance": 3, "token": 1},
            **{"report": 2, "poll": 3, "accept": 2, "revert": 1, "daily": 1},
        },
        {"answer": 6, "kill": 3, "outage": 2, "restart": 1},
    ),
    "loads": (
        {"load": 6, "refresh": 2, "change": 6, "advance": 2, "revert": 2, "daily": 1},
        {"kill": 3, "answer": 1, "restart": 1},
    ),
    "lists": ({"load": 5, "change": 8, "refresh": 1, "advance": 1, "daily": 1}, {"answer": 1}),
    "holds": (
        {"load": 4, "refresh": 2, "change": 3, "advance": 2, "accept": 5, "revert": 1, "daily": 2},
        {"outage": 4, "answer": 1},
    ),
    "tokens": ({"token": 6, "load": 1, "advance": 1}, {"answer": 4, "kill": 3, "restart": 1}),
    "reports": ({"report": 4, "poll": 7, "advance": 2}, {"answer": 3, "kill": 3}),
}
"""What actors do and what goes wrong, and how often each is chosen, by the subject of a run."""

_FEWEST, _MOST = 4, 9
_EVENTS = 90


@dataclass(frozen=True)
class Item:
    """Something that happens in a run.

    Attributes:
        number: Its place in the plan, by which `--keep` names it.
        at: The number of the event after which it happens.
        process: Who does it, or to whom it happens.
        chance: Decides its details.
    """

    number: int
    at: int
    kind: str
    process: str
    chance: int

    def __str__(self) -> str:
        return f"{self.number}: after event {self.at} {self.kind} ({self.process})"


@dataclass(frozen=True)
class Plan:
    """The items of a seed.

    Attributes:
        keep: The numbers of the items that happen; None for all of them.
    """

    seed: int
    focus: str
    items: tuple[Item, ...]
    keep: frozenset[int] | None = None

    @classmethod
    def of(cls, seed: int, keep: Collection[int] | None = None) -> "Plan":
        """Return the plan of a seed."""
        random = Random(f"plan {seed}")
        focus = random.choice(list(FOCI))
        actions, faults = FOCI[focus]
        kinds = ["load", "refresh"]
        kinds += random.choices(list(actions), list(actions.values()), k=random.randint(_FEWEST, _MOST))
        kinds += random.choices(list(faults), list(faults.values()), k=random.choice((0, 1, 2, 3, 4, 6)))
        moments = [0, 0, *sorted(random.randrange(_EVENTS) for _ in kinds[2:])]
        rest = kinds[2:]
        random.shuffle(rest)
        items = tuple(
            Item(number, at, kind, random.choice(PROCESSES), random.getrandbits(32))
            for number, (at, kind) in enumerate(zip(moments, [*kinds[:2], *rest], strict=True), start=1)
        )
        return cls(seed, focus, items, None if keep is None else frozenset(keep))

    @property
    def kept(self) -> list[Item]:
        """The items that happen, in order."""
        return [item for item in self.items if self.keep is None or item.number in self.keep]

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        keep = "" if self.keep is None else f" --keep {','.join(map(str, sorted(self.keep))) or '0'}"
        return f"python -m seller_platform_tests.simulation --seed {self.seed}{keep}"
