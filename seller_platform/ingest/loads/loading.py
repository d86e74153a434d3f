"""Loads slices side by side: the engine of `sync`, and of the steps that Dagster executes."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from seller_platform.capabilities import contributed
from seller_platform.client.http.api import SellerApi
from seller_platform.client.http.concurrency import in_threads
from seller_platform.contract import Source, Window
from seller_platform.contract.loads import DATED_ANEW
from seller_platform.errors import (
    ImplausibleReadingError,
    NotOfferedError,
    SellerPlatformError,
    UpstreamError,
    UpstreamUnavailableError,
    WarehouseUnavailableError,
)
from seller_platform.ingest.loads.slices import SliceRequest, load_slice, window_to_load
from seller_platform.warehouse.connections.accounts import account_of
from seller_platform.warehouse.history.settledness import lookbacks
from seller_platform.warehouse.loads.receipts import Receipt, offered_pairs
from seller_platform.warehouse.loads.refusals import forget_refusal, keep_refusal
from seller_platform.warehouse.postgres.database import Database

SLICES_AT_ONCE = 4
RESTART_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""How long a slice waits for an unavailable warehouse before it is loaded again: a restart takes seconds."""

SECOND_READING_SECONDS = 60.0
"""How long after an implausible reading the slice is read once more."""

_LONGEST_WISH_SECONDS = 120.0

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class SliceResult:
    """The result of a request: a receipt, an error, or neither if nothing was read."""

    request: SliceRequest
    receipt: Receipt | None = None
    error: SellerPlatformError | None = None


def log_wait(request: SliceRequest, reason: str) -> None:
    """Log that a slice waits, and for what."""
    _LOG.warning("%s waits: %s", request, reason)


@dataclass(frozen=True)
class SliceLoader:
    """Loads slices in this process; threads may share it.

    Attributes:
        now: The moment that decides which days an account has.
        adaptive: Days are read again for as long as such days changed so far; otherwise for the dataset's lookback.
        on_wait: Receives a slice that waits for the upstream or the warehouse, and the reason; threads call it.
    """

    database: Database
    api: Callable[[str], SellerApi]
    now: datetime
    run_id: str | None = None
    adaptive: bool = True
    on_wait: Callable[[SliceRequest, str], None] = log_wait

    def load(self, request: SliceRequest) -> Receipt | None:
        """Load the days of a request that are due, as `load_slice` does; return None if there are none."""
        account = account_of(self.database, request.account)
        api = self.api(account.connection).listening(lambda wait: self.on_wait(request, str(wait)))
        window = window_to_load(self.database, account, request, now=self.now)
        if window is None:
            return None
        return load_slice(api, self.database, account, request, window, run_id=self.run_id)


def load_each(
    requests: Sequence[SliceRequest],
    loader: SliceLoader,
    *,
    elsewhere: Callable[[SliceRequest, SliceLoader], Receipt | None] | None = None,
    at_once: int = SLICES_AT_ONCE,
    pauses_seconds: Sequence[float] = RESTART_PAUSES_SECONDS,
    second_reading_seconds: float = SECOND_READING_SECONDS,
    records: bool = True,
) -> Iterator[SliceResult]:
    """Load slices side by side, and yield their results in order.

    Datasets that are looked up product by product follow all others, because the products are those of the inventory.
    Earlier days that have a row which now has another date follow; their results are not yielded.
    Slices whose reading is implausible come last: each is read once more, `second_reading_seconds` after the last of
    the others.

    A failure does not stop the other slices. A slice is loaded again after each of the pauses while the warehouse is
    unavailable: it was stored whole or not at all. Where the upstream is unavailable after all retries of a request,
    the slice is loaded once more, after the pause that the upstream asked for, unless that pause is too long.

    A slice that the upstream does not offer has failed if the upstream answers for other accounts, which is known when
    all slices are loaded. Otherwise its error is a `NotOfferedError`, and there is nothing to store.

    At the end, the ledgers that changed are compared with those of other accounts of the same seller.

    Other errors than `SellerPlatformError` are bugs: they are raised, after the running loads have ended.

    Args:
        elsewhere: Loads a slice as the loader does, in another process if it can; threads call it.
        records: Store the error of a slice that failed, and delete that of one that was loaded.
    """
    load = loader.load if elsewhere is None else lambda request: elsewhere(request, loader)
    doubtful: list[SliceRequest] = []
    dated_anew: list[SliceRequest] = []
    not_offered: list[tuple[SliceRequest, NotOfferedError]] = []
    loaded: list[Receipt] = []

    def result_of(request: SliceRequest) -> SliceResult:
        try:
            return SliceResult(request, receipt=_load_patiently(load, request, pauses_seconds, loader.on_wait))
        except SellerPlatformError as error:
            return SliceResult(request, error=error)

    def results(chosen: Iterable[SliceRequest]) -> Iterator[SliceResult]:
        for result in in_threads(result_of, chosen, at_once, queued=1):
            if isinstance(result.error, ImplausibleReadingError):
                loader.on_wait(result.request, f"{result.error}, in {second_reading_seconds:g} s")
                doubtful.append(replace(result.request, is_second=True))
                continue
            if records:
                _record(loader, result)
            if result.receipt is not None:
                loaded.append(result.receipt)
                days = (result.receipt.notes or {}).get(DATED_ANEW, ())
                windows = [Window.day(date.fromisoformat(day)) for day in days]
                dated_anew.extend(replace(result.request, month=each, whole=True) for each in windows)
            if isinstance(result.error, NotOfferedError):
                not_offered.append((result.request, result.error))
            else:
                yield result

    datasets = list({each.dataset.name: each.dataset for each in requests}.values())
    keys = sorted({each.account for each in requests})
    days = lookbacks(loader.database, datasets, keys, adaptive=loader.adaptive)
    requests = [replace(each, lookback_days=days.get((each.dataset.name, each.account))) for each in requests]
    for looked_up in (False, True):
        yield from results(each for each in requests if (each.dataset.source is Source.PRODUCT_LOOKUP) is looked_up)
    read_again = {*dated_anew}
    for result in results(read_again):
        _LOG.info("%s was read again, because a row of it has another date now: %s", result.request, result.error or "")
    if doubtful:
        time.sleep(second_reading_seconds)  # in this thread, which Ctrl-C interrupts
        second = results([doubtful.pop(0) for _ in range(len(doubtful))])
        yield from (each for each in second if replace(each.request, is_second=False) not in read_again)
    offered = offered_pairs(loader.database, [request.dataset for request, _ in not_offered]) if not_offered else ()
    for request, error in not_offered:
        result = SliceResult(request, error=error)
        if (request.dataset.name, request.account) in offered:
            refused = UpstreamError(
                f"{error.dataset} of account {request.account}: the upstream answered {error.status} to {error.path}, "
                "which it answers for other accounts or did answer before",
                code="RefusedForAccountError",
                step="Check at the upstream whether its user may read this of the account; everything else is loaded.",
            )
            result = SliceResult(request, error=refused)
            if records:
                _record(loader, result)
        yield result
    for follow in contributed("after_loads"):
        follow(loader.database, loaded)


def _record(loader: SliceLoader, result: SliceResult) -> None:
    """Store the error of a failed slice, or delete that of a loaded one.

    An error that cannot be stored, because the warehouse is unavailable, is only logged.
    """
    request, database = result.request, loader.database
    try:
        if result.error is None:
            forget_refusal(database, request.dataset, request.account, request.month)
        else:
            keep_refusal(database, request.dataset, request.account, request.month, result.error, run_id=loader.run_id)
    except WarehouseUnavailableError as error:
        _LOG.warning("%s: whether it is refused is not stored: %s", request, error)


def _load_patiently(
    load: Callable[[SliceRequest], Receipt | None],
    request: SliceRequest,
    pauses_seconds: Sequence[float],
    wait: Callable[[SliceRequest, str], None],
) -> Receipt | None:
    pauses, may_ask_again = iter(pauses_seconds), True
    while True:
        try:
            return load(request)
        except WarehouseUnavailableError as error:
            pause = next(pauses, None)
            if pause is None:
                raise
            wait(request, f"{error}; it is loaded again in {pause:g} s")
            time.sleep(pause)
        except UpstreamUnavailableError as error:
            wish_seconds = error.retry_after_seconds or 0
            if not may_ask_again or wish_seconds > _LONGEST_WISH_SECONDS:
                raise
            may_ask_again = False
            wait(request, f"{error}; it is loaded once more in {wish_seconds:g} s")
            time.sleep(wish_seconds)
