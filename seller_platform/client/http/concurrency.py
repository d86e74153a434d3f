"""Requests side by side: the budget of a connection, and results of several threads in order."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from itertools import islice
from typing import TypeVar

MOST_REQUESTS = 8
"""How many requests of a connection, or of all loading processes together, are ever under way at once."""

SUCCESSES_TO_GROW = 20
"""The successes after which one request more is allowed."""

Given = TypeVar("Given")
Result = TypeVar("Result")


class RequestBudget:
    """Limits the requests under way at once.

    The limit is halved when the upstream answers 429, and raised again after successes.

    Args:
        limit: The most requests that are ever allowed at once.
        shared: A semaphore that several processes share, which limits the requests of all of them together.
    """

    def __init__(self, limit: int = MOST_REQUESTS, *, shared: AbstractContextManager[object] | None = None) -> None:
        self.limit, self.allowed, self.under_way = limit, limit, 0
        self._successes = 0
        self._changed, self._shared = threading.Condition(), shared or nullcontext()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Wait until one more request is allowed, and count it until the block ends.

        A block that ends without an error is a success; enough of them allow one request more.
        """
        with self._changed:
            while self.under_way >= self.allowed:
                self._changed.wait()
            self.under_way += 1
        is_success = False
        try:
            with self._shared:
                yield
            is_success = True
        finally:
            with self._changed:
                self.under_way -= 1
                self._successes += is_success
                if self._successes >= SUCCESSES_TO_GROW and self.allowed < self.limit:
                    self.allowed, self._successes = self.allowed + 1, 0
                self._changed.notify(2)  # two are allowed where the limit has grown

    def shrink(self) -> None:
        """Halve the requests that are allowed, because the upstream answered 429."""
        with self._changed:
            self.allowed, self._successes = max(1, self.allowed // 2), 0


def in_threads(
    work: Callable[[Given], Result], arguments: Iterable[Given], count: int, *, queued: int = 0
) -> Generator[Result, None, None]:
    """Yield the result of each argument in order, from `count` threads that work in the caller's context.

    The first error ends it, once the running calls have ended. An interruption does not wait for them, nor does the end
    of a caller that takes no more results: that may be noticed in one of these very threads.

    Args:
        queued: How many more calls wait for a thread, so that none is idle while a result is used.
    """
    remaining = iter(arguments)
    threads = ThreadPoolExecutor(count, thread_name_prefix="work")
    under_way: deque[Future[Result]] = deque()
    results: list[Result] = []
    waits = True
    try:
        while True:
            for each in islice(remaining, count + queued - len(under_way)):
                under_way.append(threads.submit(copy_context().run, work, each))
            yield from results
            if not under_way:
                return
            results = [under_way.popleft().result()]
    except BaseException as error:
        waits = isinstance(error, Exception)
        raise
    finally:
        threads.shutdown(wait=waits, cancel_futures=True)
