"""Loads that begin before runs ask for them: while Dagster is imported and the accounts are discovered."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from seller_platform.contract import Window
from seller_platform.errors import ReadingHeldError
from seller_platform.ingest.loads.requested_slices import LoadRequest, requested_slices
from seller_platform.ingest.loads.slices import SLICES_AT_ONCE, SliceRequest
from seller_platform.ingest.workers.tasks import LoadTask, OnSliceWait
from seller_platform.warehouse.connections.accounts import KnownAccount, account_of, accounts
from seller_platform.warehouse.history.settledness import lookbacks
from seller_platform.warehouse.loads.receipts import BEGUN, assign_run
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database

_Load: TypeAlias = Callable[[LoadTask, OnSliceWait], Receipt | None]

FIRST_TASKS = 300
"""How many loads are begun at most: more than end before a run asks for the first one."""


class DiedError(Exception):
    """The loading process of a task has died."""


class _BegunLoad:
    """A load that was begun. Its waits are reported to the run that asks for it, from then on."""

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

    Their receipts have the run `BEGUN` until a run asks for them.

    Attributes:
        tasks: What was begun, in order.
    """

    def __init__(self, tasks: Sequence[LoadTask], load: _Load, database: Database) -> None:
        """Begin to load the tasks, in their order.

        Args:
            tasks: Of different slices.
            load: Loads a task in a loading process, and raises `DiedError` if that has died.
            database: The warehouse, open for as long as runs ask for loads.
        """
        self.tasks, self._load, self._database = tasks, load, database
        self._threads = ThreadPoolExecutor(SLICES_AT_ONCE, thread_name_prefix="begun load")
        known = {account.key: account for account in accounts(database)}
        self._loads = {
            _key(task): _BegunLoad(task, known[task.request.account], load, self._threads)
            for task in tasks
            if task.request.account in known
        }

    def load(self, task: LoadTask, on_wait: OnSliceWait) -> Receipt | None:
        """Return the result of a load that was begun, which then belongs to the run; otherwise load the slice.

        The slice is loaded again if its account has changed since, or a new local day has begun.

        Raises:
            DiedError: Its process has died.
            SellerPlatformError: As `load_slice` does.
        """
        begun = self._loads.pop(_key(task), None)
        if begun is None or begun.future.cancel():
            return self._load(task, on_wait)
        begun.listen(on_wait)
        if not begun.is_for(task, account_of(self._database, task.request.account)):
            begun.future.exception()  # two loads of a slice would only wait for each other
            return self._load(task, on_wait)
        try:
            receipt = begun.future.result()
        except ReadingHeldError as error:
            assign_run(self._database, error.load_id, task.run_id)
            raise
        if receipt is None:
            return None
        assign_run(self._database, receipt.id, task.run_id)
        return replace(receipt, run_id=task.run_id)

    def end(self) -> None:
        """Begin no more loads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _key(task: LoadTask) -> tuple[str, str, Window | None]:
    request = task.request
    return request.dataset.name, request.account, request.month


def first_tasks(database: Database, request: LoadRequest, *, now: datetime, adaptive: bool) -> list[LoadTask]:
    """Return the first tasks of a request: dated datasets by name, the newest months of each first.

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
            run_id=BEGUN,
            lookback_days=changing[each.dataset.name, each.account],
        )
        for each in first
    ]
