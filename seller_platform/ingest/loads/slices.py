"""Loads one slice from the API into the warehouse."""

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.slice_reader import read_slice
from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Window
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import (
    NotOfferedError,
    RequestRefusedError,
)
from seller_platform.ingest.connections.request_budget import reserving
from seller_platform.ingest.loads.telemetry import observed_load
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.history.volumes import unusual_days
from seller_platform.warehouse.loads.holds import Accepted, Judge
from seller_platform.warehouse.loads.receipts import days_read, unsettled
from seller_platform.warehouse.loads.slices import Load, Receipt, Slice, held_error, open_load
from seller_platform.warehouse.postgres.database import Database

_NOT_OFFERED = (404, 405, 501)


@dataclass(frozen=True)
class SliceRequest:
    """A slice to load: of a month for a dated dataset, else of today.

    Attributes:
        month: The month, or only some days of one.
        whole: Read the month as a whole; otherwise only the days that may have changed since they were read.
        is_second: It was read before, and the reading was implausible.
        lookback_days: How many days back rows may still change; by default as the dataset says.
        by_value: Compare the stored rows by value; nothing that earlier loads kept is believed.
        repairs: A person asked for it: what another program changed is not held.
    """

    dataset: Dataset
    account: str
    month: Window | None
    whole: bool = True
    is_second: bool = False
    lookback_days: int | None = None
    by_value: bool = False
    repairs: bool = False

    def __str__(self) -> str:
        return f"{self.dataset.name} of {self.account}" + (f", {self.month.start:%Y-%m}" if self.month else "")

    @property
    def name(self) -> str:
        """The table with the account and the first day of the month, as failures are named."""
        return f"{self.dataset.table} {self.account}" + (f"|{self.month.start}" if self.month else "")


def load_requested(
    api: SellerApi,
    database: Database,
    account: KnownAccount,
    request: SliceRequest,
    *,
    now: datetime,
    run_id: str | None,
) -> Receipt | None:
    """Load the days of a request that are due; return None if there are none.

    Raises:
        SellerPlatformError: As `load_slice` does.
    """
    window = window_to_load(database, account, request, now=now)
    if window is None:
        return None
    return load_slice(
        api,
        database,
        account,
        request.dataset,
        window,
        run_id=run_id,
        lookback_days=request.lookback_days,
        is_second=request.is_second,
        by_value=request.by_value,
        repairs=request.repairs,
    )


def load_slice(
    api: SellerApi,
    database: Database,
    account: KnownAccount,
    dataset: Dataset,
    window: Window,
    *,
    run_id: str | None,
    lookback_days: int | None = None,
    is_second: bool = False,
    accepted: Accepted | None = None,
    by_value: bool = False,
    repairs: bool = False,
) -> Receipt:
    """Make a stored slice equal to the API's present list.

    A reading that contradicts the stored rows is not published: the caller reads the slice once more after a
    pause, and the second such reading is held.

    Args:
        window: Local days of the account; one day, today, for a snapshot.
        run_id: The Dagster run, for the receipt.
        lookback_days: How many days back rows may still change; by default as the dataset says.
        is_second: The slice was read before, and the reading was implausible.
        accepted: The doubt of a held reading; a reading that says the same is published.
        by_value: Compare the stored rows by value; nothing that earlier loads kept is believed.
        repairs: A person asked for it: what another program changed is not held.

    Raises:
        ImplausibleReadingError: The reading contradicts the stored rows, and is not the second one. Nothing was stored.
        ReadingHeldError: The second reading contradicts them, too. Only its receipt was stored.
        ListChangedError: The list changed during every attempt. Nothing was stored.
        ContractViolationError: An answer breaks the contract. Nothing was stored.
        UpstreamUnavailableError: The API did not answer. Nothing was stored.
        NotOfferedError: The API does not compute the rows of this dataset.
        RequestsUsedUpError: The requests of today do not suffice. Nothing was stored.
    """
    started_at = utc_now()
    settled = _settled_days(database, account, dataset, window, started_at=started_at, lookback_days=lookback_days)
    was_settled = dataset.is_dated and len(settled) == window.days
    judge = Judge(settled, is_second=is_second or accepted is not None, accepted=accepted, repairs=repairs)
    slice_ = Slice.of(account, dataset, window)
    with observed_load(slice_, run_id=run_id) as observed, open_load(database, slice_, by_value=by_value) as load:
        facts = read_list(api, database, account, load)
        today = started_at.astimezone(account.zone).date()
        unusual = unusual_days(database, dataset, account.key, window, load.spool.days, today=today)
        found = {"was_settled": was_settled, "unusual_days": unusual}
        facts = replace(facts, notes={**facts.notes, **{name: each for name, each in found.items() if each}})
        return published(observed.stored(load.store(facts, started_at=started_at, run_id=run_id, judge=judge)))


def read_list(api: SellerApi, database: Database, account: KnownAccount, load: Load) -> LoadFacts:
    """Read a slice's list into the spool of a load.

    Raises:
        SellerPlatformError: As `load_slice` does.
    """
    dataset, window = load.slice.dataset, load.slice.window
    days, snapshot_day = (window, None) if dataset.is_dated else (None, window.start)
    try:
        with reserving(api, database, dataset, account.key, window) as reserved:
            return read_slice(reserved, dataset, account.account, days, snapshot_day, load.spool, memory=load.spool)
    except RequestRefusedError as error:
        if dataset.is_computed and error.status in _NOT_OFFERED:
            raise NotOfferedError(dataset.name, dataset.path, error.status) from error
        raise


def published(receipt: Receipt) -> Receipt:
    """Return the receipt of a published reading.

    Raises:
        ReadingHeldError: The reading is held.
    """
    if receipt.verdict is CountVerdict.HELD:
        raise held_error(receipt)
    return receipt


def window_to_load(
    database: Database,
    account: KnownAccount,
    request: SliceRequest,
    *,
    now: datetime,
) -> Window | None:
    """Return the days to read for a request; None where there are none.

    Days after the account's today are left out: they have no rows yet.
    """
    zone = account.zone
    today = now.astimezone(zone).date()
    if request.month is None:
        return Window.day(today)
    month = request.month.until(today + timedelta(days=1))
    if month.is_empty:
        return None
    if request.whole:
        return month
    read = days_read(database, request.dataset, account.key, month, zone, now=now)
    part = unsettled(request.dataset, month, read, lookback_days=request.lookback_days)
    return month if part is not None and not request.dataset.is_divisible else part


def _settled_days(
    database: Database,
    account: KnownAccount,
    dataset: Dataset,
    window: Window,
    *,
    started_at: datetime,
    lookback_days: int | None,
) -> frozenset[date]:
    """Return the days of a window that were read after their last expected change.

    Rows that sum up their window have settled when all of its days have.
    """
    lookback = timedelta(days=dataset.lookback_days if lookback_days is None else lookback_days)
    if not dataset.is_dated or window.start + lookback >= started_at.astimezone(account.zone).date():
        return frozenset()
    read = days_read(database, dataset, account.key, window, account.zone, now=started_at, held_too=True)
    settled = frozenset(day for day in window.each_day() if day in read and read[day] > day + lookback)
    return settled if dataset.is_divisible or len(settled) == window.days else frozenset()
