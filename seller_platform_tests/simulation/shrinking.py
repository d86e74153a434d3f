"""Makes a failing run smaller: items are left out as long as it fails."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from seller_platform_tests.simulation.plan import Plan
from seller_platform_tests.simulation.runs import Outcome

_MOST_RUNS = 80


def shrunk(outcome: Outcome, play: Callable[[Plan], Outcome]) -> Outcome:
    """Return the smallest failing run that is found, which fails as the given one or otherwise."""
    smallest, runs = outcome, 0
    kept = [item.number for item in outcome.plan.kept]
    parts = 2
    while len(kept) > 1 and runs < _MOST_RUNS:
        for part in _divided(kept, parts):
            rest = [number for number in kept if number not in part]
            runs += 1
            tried = play(replace(outcome.plan, keep=frozenset(rest)))
            if tried.failure is not None:
                smallest, kept, parts = tried, rest, max(2, parts - 1)
                break
        else:
            if parts >= len(kept):
                break
            parts = min(len(kept), 2 * parts)
    return smallest


def _divided(numbers: Sequence[int], parts: int) -> list[Sequence[int]]:
    size = -(-len(numbers) // parts)
    return [numbers[first : first + size] for first in range(0, len(numbers), size)]
