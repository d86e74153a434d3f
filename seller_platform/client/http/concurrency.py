"""The request budget: limits the requests that one connection has under way at once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class RequestBudget:
    """Limits the requests under way at once.

    The limit is halved when the upstream answers 429, and raised again after successes.

    Args:
        limit: The most requests that are ever allowed at once.
        successes_to_grow: The successes after which one request more is allowed.
    """

    def __init__(self, limit: int = 8, *, successes_to_grow: int = 20) -> None:
        if limit < 1:
            raise ValueError(f"a budget of {limit} requests allows none")
        self.limit, self.allowed, self.under_way = limit, limit, 0
        self._successes, self._successes_to_grow = 0, successes_to_grow
        self._changed = threading.Condition()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Wait until one more request is allowed, and count it until the block ends."""
        with self._changed:
            while self.under_way >= self.allowed:
                self._changed.wait()
            self.under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self.under_way -= 1
                self._changed.notify()

    def shrink(self) -> None:
        """Halve the requests that are allowed, because the upstream answered 429."""
        with self._changed:
            self.allowed, self._successes = max(1, self.allowed // 2), 0

    def grow(self) -> None:
        """Count a success; enough of them allow one request more."""
        with self._changed:
            self._successes += 1
            if self._successes >= self._successes_to_grow and self.allowed < self.limit:
                self.allowed, self._successes = self.allowed + 1, 0
                self._changed.notify()
