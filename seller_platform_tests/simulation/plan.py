"""What happens in a run: actions of actors, and faults. A seed decides it before the run begins."""

from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from random import Random

PROCESSES = ("one", "two", "three")

FOCI: dict[str, tuple[tuple[str, str], dict[str, int], dict[str, int]]] = {
    "all": (
        ("load", "refresh"),
        {
            **{"load": 4, "refresh": 3, "change": 6, "churn": 1, "advance": 3, "token": 1, "keys": 1, "read": 1},
            **{"report": 2, "poll": 3, "accept": 2, "revert": 1, "daily": 1, "discover": 1, "accounts": 1, "prune": 1},
            **{"intraday": 1, "sync": 1, "walk": 1, "build": 1},
        },
        {"answer": 6, "kill": 3, "outage": 2, "restart": 1, "garble": 1},
    ),
    "loads": (
        ("load", "refresh"),
        {
            **{"load": 6, "refresh": 1, "change": 6, "advance": 1, "revert": 3, "read": 3, "prune": 2, "daily": 1},
            **{"intraday": 2, "sync": 2, "build": 1},
        },
        {"kill": 3, "answer": 1, "restart": 1, "garble": 1},
    ),
    "readers": (
        ("update", "walk"),
        {"load": 1, "walk": 5, "update": 6, "build": 4, "sync": 1, "refresh": 1, "advance": 1, "read": 1},
        {"kill": 1},
    ),
    "lists": (("churn", "load"), {"load": 5, "churn": 4, "change": 1, "refresh": 1, "read": 1}, {"answer": 1}),
    "answers": (("load", "load"), {"load": 5, "change": 1, "refresh": 1}, {"answer": 1}),
    "holds": (
        ("load", "refresh"),
        {
            **{"load": 4, "refresh": 2, "change": 2, "advance": 2, "accept": 5, "revert": 1, "daily": 1},
            **{"discover": 1, "accounts": 1, "intraday": 3},
        },
        {"outage": 5, "answer": 1},
    ),
    "contents": (
        ("reread", "refresh"),
        {"reread": 7, "intraday": 2, "change": 2, "advance": 1, "accept": 3, "revert": 1, "load": 1},
        {"outage": 4},
    ),
    "zones": (
        ("load", "refresh"),
        {"load": 4, "refresh": 4, "move": 5, "change": 2, "advance": 3, "intraday": 1, "revert": 1},
        {"answer": 1, "kill": 1},
    ),
    "tokens": (
        ("token", "token"),
        {"token": 6, "load": 1, "advance": 1, "revoke": 1, "keys": 2},
        {"answer": 3, "kill": 4, "restart": 1, "garble": 1},
    ),
    "reports": (("report", "report"), {"report": 3, "poll": 7, "advance": 3}, {"answer": 3, "kill": 3}),
    "budget": (("load", "report"), {"load": 5, "report": 2, "poll": 3, "refresh": 5, "change": 1}, {"answer": 2}),
}
"""What actors do at first and later, what goes wrong, and how often each is chosen, by the subject of a run."""

_SHARES = (2, 3, 3, 3, 3, 3, 5, 2, 3, 2, 2)
"""How often each subject is chosen."""

_FAULTS = (0, 1, 2, 3, 4, 6)
_FAULTS_OF_ANSWERS = (6, 8, 10)

_FEWEST, _MOST = 3, 6
_EVENTS = 90
_MOMENTS = 4
_NO_TWIN = (None, None, None, None)


@dataclass(frozen=True)
class Item:
    """Something that happens in a run.

    Attributes:
        number: Its place in the plan, by which `--keep` names it.
        at: The number of the event after which it happens.
        process: Who does it, or to whom it happens.
        chance: Decides its details.
        twin: Another process that does the same at the same time; None where there is none.
    """

    number: int
    at: int
    kind: str
    process: str
    chance: int
    twin: str | None = None

    def __str__(self) -> str:
        return f"{self.number}: after event {self.at} {self.kind} ({self.process})"


@dataclass(frozen=True)
class Plan:
    """The items of a seed.

    Attributes:
        keep: The numbers of the items that happen; None for all of them.
        events: After so many events all processes are killed, and nothing else happens; None for no such end. Where
            other contents are the subject, there is none: all months are read whole before and after them.
    """

    seed: int
    focus: str
    items: tuple[Item, ...]
    keep: frozenset[int] | None = None
    events: int | None = None

    @classmethod
    def of(cls, seed: int, keep: Collection[int] | None = None, events: int | None = None) -> "Plan":
        """Return the plan of a seed."""
        random = Random(f"plan {seed}")
        focus = random.choices(list(FOCI), _SHARES)[0]
        begin, actions, faults = FOCI[focus]
        kinds = list(begin)
        kinds += random.choices(list(actions), list(actions.values()), k=random.randint(_FEWEST, _MOST))
        kinds += random.choices(
            list(faults), list(faults.values()), k=random.choice(_FAULTS_OF_ANSWERS if focus == "answers" else _FAULTS)
        )
        together = [random.randrange(_EVENTS) for _ in range(_MOMENTS)]
        moments = [0, 0, *sorted(random.choice((*together, random.randrange(_EVENTS))) for _ in kinds[2:])]
        rest = kinds[2:]
        random.shuffle(rest)
        items = tuple(
            Item(
                number,
                at,
                kind,
                random.choice(PROCESSES),
                random.getrandbits(32),
                random.choice((*PROCESSES, *_NO_TWIN)),
            )
            for number, (at, kind) in enumerate(zip(moments, [*kinds[:2], *rest], strict=True), start=1)
        )
        return cls(seed, focus, items, None if keep is None else frozenset(keep), events)

    @property
    def last_event(self) -> float:
        """The number of the event after which all processes are killed."""
        return inf if self.events is None or self.focus == "contents" else self.events

    @property
    def kept(self) -> list[Item]:
        """The items that happen, in order."""
        return [item for item in self.items if self.keep is None or item.number in self.keep]

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        keep = "" if self.keep is None else f" --keep {','.join(map(str, sorted(self.keep))) or '0'}"
        events = "" if self.events is None else f" --events {self.events}"
        return f"python -m seller_platform_tests.simulation --seed {self.seed}{events}{keep}"
