"""Loads that begin before Dagster asks for them: while it is imported, and discovers the accounts."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from seller_platform.contract import Window
from seller_platform.errors import ReadingHeldError, SellerPlatformError
from seller_platform.ingest.loads.requested_slices import LoadRequest, requested_slices
from seller_platform.ingest.loads.slices import SLICES_AT_ONCE, SliceRequest
from seller_platform.ingest.workers.tasks import LoadTask, OnSliceWait
from seller_platform.warehouse.connections.accounts import KnownAccount, account_of, accounts
from seller_platform.warehouse.history.settledness import lookbacks
from seller_platform.warehouse.loads.receipts import assign_run
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database

_Load: TypeAlias = Callable[[LoadTask, OnSliceWait], Receipt | None]


FIRST_TASKS = 300
"""How many loads are begun at most: more than are done before Dagster asks for the first one."""


class DiedError(Exception):
    """The loading process of a task has died."""


class _BegunLoad:
    """A load that was begun, and who hears of its waits: first nobody, then the run that asks for it."""

    def __init__(self, task: LoadTask, account: KnownAccount, load: _Load, threads: ThreadPoolExecutor) -> None:
        self._task, self._account = task, account
        self._reason: str | None = None
        self._listener: OnSliceWait | None = None
        self._lock = threading.Lock()
        self.future: Future[Receipt | None] = threads.submit(copy_context().run, load, task, self._wait)

    def is_for(self, task: LoadTask, account: KnownAccount) -> bool:
        """Return whether it reads the same days of the same account as a task."""
        today, day_of_task = (each.now.astimezone(account.zone_or_utc).date() for each in (self._task, task))
        is_same = (self._task.request, self._task.whole) == (task.request, task.whole)
        return is_same and account == self._account and today == day_of_task

    def listen(self, on_wait: OnSliceWait) -> None:
        """Report the present wait for the upstream, and all that follow."""
        with self._lock:
            self._listener, reason = on_wait, self._reason
        if reason is not None and not self.future.done():
            on_wait(self._task.request, reason)

    def _wait(self, request: SliceRequest, reason: str) -> None:
        with self._lock:
            self._reason, listener = reason, self._listener
        if listener is not None:
            listener(request, reason)


class BegunLoads:
    """Loads that were begun; threads may share them.

    Their receipts have no run until one asks for them. A load that none asks for stays stored, as if the process of its
    run had been killed: the next run reads the slice again.
    """

    def __init__(self, tasks: Sequence[LoadTask], load: _Load, database: Database) -> None:
        """Begin to load the tasks, in their order.

        Args:
            tasks: Of different slices.
            load: Loads a task in a loading process, and raises `DiedError` if that has died.
            database: The warehouse, open for as long as runs ask for loads.
        """
        self._load, self._database = load, database
        self._threads = ThreadPoolExecutor(SLICES_AT_ONCE, thread_name_prefix="begun load")
        known = {account.key: account for account in accounts(database)}
        self._loads = {
            _key(task): _BegunLoad(task, known[task.request.account], load, self._threads)
            for task in tasks
            if task.request.account in known
        }

    def load(self, task: LoadTask, on_wait: OnSliceWait) -> Receipt | None:
        """Return the result of a load that was begun, which then belongs to the run; otherwise load the slice.

        It is loaded, too, where the account has changed since, or a day of it has begun.

        Raises:
            DiedError: Its process has died.
            SellerPlatformError: As `load_slice` does.
        """
        begun = self._loads.pop(_key(task), None)
        if begun is None or begun.future.cancel():
            return self._load(task, on_wait)
        begun.listen(on_wait)
        try:
            receipt = begun.future.result()
        except ReadingHeldError as error:
            self._assign(error.load_id, task)
            raise
        if not begun.is_for(task, account_of(self._database, task.request.account)):
            return self._load(task, on_wait)
        if receipt is None:
            return None
        self._assign(receipt.id, task)
        return replace(receipt, run_id=task.run_id)

    def not_asked_for(self) -> Iterator[Receipt]:
        """Begin no more loads, and yield the receipts of those that have ended and that no run has asked for."""
        self.end()
        while self._loads:
            _, begun = self._loads.popitem()
            if begun.future.done():
                with suppress(SellerPlatformError, DiedError, CancelledError):
                    if receipt := begun.future.result():
                        yield receipt

    def end(self) -> None:
        """Begin no more loads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _assign(self, load: int, task: LoadTask) -> None:
        if task.run_id is not None:
            assign_run(self._database, load, task.run_id)


def _key(task: LoadTask) -> tuple[str, str, Window | None]:
    request = task.request
    return request.dataset.name, request.account, request.month


def first_tasks(database: Database, request: LoadRequest, *, now: datetime, adaptive: bool) -> list[LoadTask]:
    """Return the tasks of a request that runs ask for first: of dated datasets, each with its newest months first.

    Args:
        adaptive: Days are read again for as long as such days changed so far; otherwise for the dataset's lookback.
    """
    slices = requested_slices(database, request, now=now, adaptive=adaptive)
    dated = [(each.dataset.name, -each.month.start.toordinal(), each) for each in slices if each.month is not None]
    first = [each for *_, each in sorted(dated, key=lambda each: each[:2])[:FIRST_TASKS]]
    changing = lookbacks(database, request.datasets, request.accounts, adaptive=adaptive)
    return [
        LoadTask(
            SliceRequest(each.dataset, each.account, each.month),
            now,
            each.whole,
            run_id=None,
            lookback_days=changing[each.dataset.name, each.account],
        )
        for each in first
    ]
