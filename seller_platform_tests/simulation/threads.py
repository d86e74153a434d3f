"""Threads, locks and conditions of the product's code, as actors of the simulation."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from seller_platform.client.http import concurrency, retries
from seller_platform.ingest.connections import token_rotation
from seller_platform.reports import loading as reports
from seller_platform.warehouse.loads import retention
from seller_platform_tests.simulation.scheduler import KilledError, Scheduler

_scheduler: list[Scheduler] = []


def use_scheduler(scheduler: Scheduler) -> None:
    """Let threads that are started from now on be actors of a scheduler."""
    _scheduler[:] = [scheduler]


def replace_threads() -> None:
    """Let the product start actors where it starts threads."""
    for module in (concurrency, reports, retention):
        module.ThreadPoolExecutor = ActorPool  # type: ignore[attr-defined]
    for module in (concurrency, retries, token_rotation):
        module.threading = ThreadingOfActors  # type: ignore[attr-defined]


class ActorFuture:
    """The result of a call that an actor makes."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._result: Any = None
        self._error: BaseException | None = None
        self.is_done = self.is_cancelled = False

    def run(self) -> None:
        """Make the call and keep its result."""
        try:
            self._result = self._call()
        except KilledError:
            raise
        except BaseException as error:  # as a pool of threads does
            self._error = error
        self.is_done = True

    def cancel(self) -> bool:
        """Drop the call, unless it has begun."""
        self.is_cancelled = True
        return True

    def result(self) -> Any:
        """Wait for the result and return it, or raise the error of the call."""
        if not self.is_done:
            _scheduler[0].wait_until(lambda: self.is_done, "join")
        if self._error is not None:
            raise self._error
        return self._result


class ActorPool:
    """A pool of threads whose threads are actors."""

    def __init__(self, max_workers: int, thread_name_prefix: str = "") -> None:
        self._free, self._queue, self._prefix = max_workers, deque[ActorFuture](), thread_name_prefix

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> ActorFuture:
        """Call a function in an actor of the pool."""
        future = ActorFuture(lambda: function(*arguments))
        self._queue.append(future)
        if self._free:
            self._free -= 1
            parent = _scheduler[0].current
            assert parent is not None
            parent.children += 1
            _scheduler[0].start(parent.process, f"{parent.name}.{parent.children}", self._work)
        return future

    def map(self, function: Callable[..., Any], arguments: Iterable[Any]) -> Iterator[Any]:
        """Yield the results in the order of the arguments."""
        futures = [self.submit(function, argument) for argument in arguments]
        return (future.result() for future in futures)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the running calls."""
        if cancel_futures:
            self._queue.clear()
        actor = _scheduler[0].current
        is_killed = actor is not None and actor.is_killed  # and so are those of the pool
        if (self._queue or self._running) and not is_killed:
            _scheduler[0].wait_until(lambda: not (self._queue or self._running), "join")

    @property
    def _running(self) -> int:
        return self._began - self._ended

    _began = _ended = 0

    def _work(self) -> None:
        self._began += 1
        try:
            while self._queue:
                future = self._queue.popleft()
                if not future.is_cancelled:
                    future.run()
        finally:
            self._ended += 1
            self._free += 1


class ActorLock:
    """A lock between actors."""

    def __init__(self) -> None:
        self.is_held = False

    def __enter__(self) -> None:
        while self.is_held:
            _scheduler[0].wait_until(lambda: not self.is_held, "lock")
        self.is_held = True

    def __exit__(self, *_: object) -> None:
        self.is_held = False


class ActorCondition(ActorLock):
    """A condition between actors."""

    def __init__(self) -> None:
        super().__init__()
        self._notices = 0

    def wait(self) -> None:
        """Release the lock, wait for a notice, and take the lock again."""
        seen = self._notices
        self.__exit__()
        _scheduler[0].wait_until(lambda: self._notices > seen, "condition")
        self.__enter__()

    def notify(self, _: int = 1) -> None:
        """Let all who wait go on; each looks whether it may."""
        self._notices += 1


class ActorTimer:
    """A timer whose time never comes: it would report a slow request in the log of the product."""

    daemon = False

    def __init__(self, *_: object) -> None:
        pass

    def start(self) -> None:
        """Do nothing."""

    def cancel(self) -> None:
        """Do nothing."""


class ThreadingOfActors:
    """The parts of `threading` that the product uses between its threads."""

    Lock = ActorLock
    Condition = ActorCondition
    Timer = ActorTimer
