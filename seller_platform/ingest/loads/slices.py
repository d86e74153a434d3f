"""Loads one slice, of a list or of the costs of products, from the API into the warehouse."""

from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta

from seller_platform.client.endpoints.cost_periods import read_cost_periods
from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.slice_reader import read_slice as read_list
from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Source, Window
from seller_platform.contract.datasets.stock import INVENTORY
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import NotOfferedError, ReadingHeldError, RequestError, RequestRefusedError
from seller_platform.ingest.connections.request_budget import reserving
from seller_platform.ingest.loads.telemetry import observed_load
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.history.volumes import unusual_days
from seller_platform.warehouse.loads.days_due import AccountDay, days_due, days_read
from seller_platform.warehouse.loads.expectations import skus_of_account
from seller_platform.warehouse.loads.holds import Accepted, Judge
from seller_platform.warehouse.loads.receipts import Receipt, Slice, doubt_of, slice_of, was_loaded, why_it_waits
from seller_platform.warehouse.loads.slices import Load, open_load
from seller_platform.warehouse.postgres.database import Database

_NOT_OFFERED = (404, 405, 501)


@dataclass(frozen=True)
class SliceRequest:
    """A slice to load: of a month for a dated dataset, else of today.

    Attributes:
        month: The month, or only some days of one.
        whole: Read the month as a whole; otherwise only the days that may have changed since they were read.
        lookback_days: How many days back rows may still change; by default as the dataset says.
        by_value: On whose behalf the stored rows are compared by value: nothing that earlier loads kept is believed.
        accepted: The doubt of a held reading; a reading that says the same is published.
    """

    dataset: Dataset
    account: str
    month: Window | None
    whole: bool = True
    is_second: bool = False
    lookback_days: int | None = None
    by_value: str | None = None
    accepted: Accepted | None = field(default=None, hash=False)

    def __str__(self) -> str:
        return f"{self.dataset.name} of {self.account}" + (f", {self.month.start:%Y-%m}" if self.month else "")

    @property
    def name(self) -> str:
        """The table with the account and the first day of the month, as failures are named."""
        return f"{self.dataset.table} {self.account}" + (f"|{self.month.start}" if self.month else "")


def load_slice(
    api: SellerApi,
    database: Database,
    account: KnownAccount,
    request: SliceRequest,
    window: Window,
    *,
    run_id: str | None,
) -> Receipt:
    """Make days of a stored slice equal to the API's present list, or to the present costs of its products.

    A reading that contradicts the stored rows is not published: the caller reads the slice once more after a
    pause, and the second such reading is held. A total that does not add up is no error: the reading is published
    with the verdict `mismatch`, and the days are due again.

    Args:
        window: Local days of the account, as `window_to_load` returns them.

    Raises:
        ImplausibleReadingError: The reading contradicts the stored rows, and is not the second one. Nothing was stored.
        ReadingHeldError: The second reading contradicts them, too, and only its receipt was stored; or the account's
            time zone or currency is in doubt, and nothing was read.
        ListChangedError: The list changed during every attempt. Nothing was stored.
        ContractViolationError: An answer breaks the contract. Nothing was stored.
        UpstreamUnavailableError: The API did not answer. Nothing was stored.
        RequestRefusedError: The API refused a request. Nothing was stored.
        NotOfferedError: The API does not compute the rows of this dataset.
        RequestsUsedUpError: The requests of today do not suffice. Nothing was stored.
        RequestError: Of costs, neither inventory nor sales of the account were ever loaded.
    """
    dataset, accepted = request.dataset, request.accepted
    started_at = utc_now()
    settled, was_settled = _settled_days(database, account, request, window, started_at=started_at)
    judge = Judge(settled, is_second=request.is_second or accepted is not None, accepted=accepted)
    slice_ = Slice.of(account, dataset, window)
    if dataset.is_dated and (why := why_it_waits(database, account)):
        raise ReadingHeldError(str(slice_), why[1], why[0])
    opened = open_load(database, slice_, by_value=request.by_value)
    with observed_load(slice_, run_id=run_id) as stored, opened as load:
        facts = read_slice(api, database, account, load)
        today = started_at.astimezone(account.zone).date()
        unusual = unusual_days(database, dataset, account.key, window, load.spool.days, today=today)
        found = {"was_settled": was_settled, "unusual_days": unusual}
        facts = replace(facts, notes={**facts.notes, **{name: each for name, each in found.items() if each}})
        return published(stored(load.store(facts, started_at=started_at, run_id=run_id, judge=judge)))


def read_slice(api: SellerApi, database: Database, account: KnownAccount, load: Load) -> LoadFacts:
    """Read a slice's list, or the costs of the account's products, into the spool of a load, as `load_slice` does.

    Raises:
        ListChangedError: The list changed in every attempt.
        ContractViolationError: The upstream sent what the API does not allow, or too many values cannot be read.
        UpstreamUnavailableError: It did not answer, or announced rows and sent none.
    """
    dataset, window, spool = load.slice.dataset, load.slice.window, load.spool
    is_lookup = dataset.source is Source.PRODUCT_LOOKUP
    skus = skus_of_account(database, account.key) if is_lookup else []
    if is_lookup and not skus and not was_loaded(database, INVENTORY, account.key):
        raise RequestError(
            f"the products of account {account.key!r} cannot be listed yet: neither its inventory nor its daily "
            "sales were ever loaded",
            code="ProductsUnknownError",
            step="Load its inventory first: `seller-platform sync --dataset inventory`.",
        )
    days, snapshot_day = (window, None) if dataset.is_dated else (None, window.start)
    try:
        with reserving(api, database, dataset, account.key, window) as reserved:
            if is_lookup:
                return read_cost_periods(reserved, account.account, skus, window.start, spool)
            return read_list(reserved, dataset, account.account, days, snapshot_day, spool)
    except RequestRefusedError as error:
        if dataset.is_computed and error.status in _NOT_OFFERED:
            raise NotOfferedError(dataset.name, dataset.path, error.status) from error
        raise


def published(receipt: Receipt) -> Receipt:
    """Return the receipt of a published reading; one that is held is a `ReadingHeldError`.

    Raises:
        ReadingHeldError: The reading is held.
    """
    if receipt.verdict is CountVerdict.HELD:
        raise ReadingHeldError(str(slice_of(receipt)), doubt_of(receipt).reason, receipt.id)
    return receipt


def window_to_load(database: Database, account: KnownAccount, request: SliceRequest, *, now: datetime) -> Window | None:
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
    dataset, days, day = request.dataset, request.lookback_days, AccountDay.at(now, account.key, zone)
    lookbacks = {(dataset.name, account.key): dataset.lookback_days if days is None else days}
    due = days_due(database, [dataset], [day], since=month.start, again=True, lookbacks=lookbacks)
    parts = [each for windows in due.values() for each in windows if each.start < month.end]
    if not parts or not dataset.is_divisible:
        return month if parts else None
    return Window(parts[0].start, min(parts[-1].end, month.end))


def _settled_days(
    database: Database, account: KnownAccount, request: SliceRequest, window: Window, *, started_at: datetime
) -> tuple[frozenset[date], bool]:
    """Return the days of a window that were read after their last expected change, and whether all were.

    Rows that sum up their window have settled when all of its days have. Days that were read under a former time zone
    or currency have settled, too, but the window has not: it is expected to change.
    """
    dataset, days = request.dataset, request.lookback_days
    lookback = timedelta(days=dataset.lookback_days if days is None else days)
    if not dataset.is_dated or window.start + lookback >= started_at.astimezone(account.zone).date():
        return frozenset(), False

    def settled(*, under_any: bool) -> frozenset[date]:
        read = days_read(database, dataset, account.key, window, account.zone, now=started_at, under_any=under_any)
        days = frozenset(day for day in window.each_day() if day in read and read[day] > day + lookback)
        return days if dataset.is_divisible or len(days) == window.days else frozenset()

    under_any = settled(under_any=True)
    return under_any, len(under_any) == window.days and settled(under_any=False) == under_any
