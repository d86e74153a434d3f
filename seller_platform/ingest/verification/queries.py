"""The queries sent to source and replica, and the columns a replica does not have."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType

from seller_platform.contract import DATASETS, Dataset, Slicing, Source, Window
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.inventory import INVENTORY
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, TRANSACTIONS, TREND
from seller_platform.contract.statistics_views import COMBINED_VIEWS, DATE_VIEWS, PLAIN_PRODUCT_VIEWS
from seller_platform.counts import count_of
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import StoredWindow

_COST_COLUMNS = ("product_cost", "profit", "roi", "profit_margin")
_OFFER_COLUMNS = ("buybox_price", "sales_rank")
_STOCK_DAYS = "out_of_stock_days"
_RESTOCK_COLUMNS = ("restock_date", "restock_quantity_suggested")
_DAY = timedelta(days=1)
_VELOCITY_DAYS = 30
_SYNC_LASTS = timedelta(hours=1)
_NEVER = datetime.min.replace(tzinfo=UTC)
_SOURCES = (DAILY_PRODUCT_SALES, TRANSACTIONS)
"""The lists that statistics are computed from, beside the costs."""

# The longest range of earlier days from which a trend is computed, by the periods of the view.
_LOOK_BACK_DAYS = {"day": 1, "week": 7, "month": 31, "year": 366}

NOT_ASKED: Mapping[str, str] = MappingProxyType(
    {
        "reports": "they hold the same rows as the lists",
        "account groups": "no list contains them",
        "currency conversion": "no synced list contains exchange rates",
        "other velocity windows": f"only one is compared, of the newest {_VELOCITY_DAYS} stored days",
    }
)
"""The parts of the API that are not compared, with the reason."""


@dataclass(frozen=True)
class AccountQuery:
    """One list of one account, in one window where it has any.

    Attributes:
        snapshot_day: The day of an undated list.
        unknown: Columns, or fields of a column (`trend.profit`), that a replica does not have, with the reason. They
            are not compared.
        unanswerable: Why a replica cannot answer at all, if it cannot.
        absent: Why a replica has no rows that `sync` should have loaded; the source is asked whether it has any.
        skus: The products to read one by one; None where the dataset is a list.
    """

    dataset: Dataset
    account: KnownAccount
    window: Window | None
    snapshot_day: date | None
    unknown: tuple[tuple[str, str], ...] = ()
    unanswerable: str | None = None
    absent: str | None = None
    skus: Sequence[str] | None = None

    def __str__(self) -> str:
        parameters = [value for name, value in self.dataset.parameters if name != "view_by"]
        products = [f"of {count_of(len(self.skus), 'product')}"] if self.skus is not None else []
        return " ".join([self.dataset.name, *parameters, *products, *([str(self.window)] if self.window else [])])

    @property
    def is_optional(self) -> bool:
        """Whether an upstream may lack the endpoint."""
        return self.dataset.is_computed or self.skus is not None

    @property
    def ignored(self) -> dict[str, str]:
        """The columns and fields of the list that are not compared, with the reason."""
        names = {column.name for column in self.dataset.columns}
        return {name: reason for name, reason in self.unknown if name.partition(".")[0] in names}


class StoredDays:
    """The stored days of each list and account, from the receipts.

    Args:
        stored: Newer windows come after those that they replace.
    """

    def __init__(self, stored: Iterable[StoredWindow]) -> None:
        self._windows: dict[tuple[str, str], list[Window]] = defaultdict(list)
        self._days: dict[tuple[str, str], set[date]] = {}
        self._read_at: dict[str, datetime] = {}
        are_dated = {dataset.name: dataset.is_dated for dataset in DATASETS}
        for each in stored:
            self._windows[each.dataset, each.account].append(each.window)
            if are_dated.get(each.dataset):
                self._read_at[each.account] = max(each.started_at, self._read_at.get(each.account, _NEVER))

    def holds(self, dataset: Dataset, account: str) -> bool:
        """Whether the list was ever loaded."""
        return (dataset.name, account) in self._windows

    def days(self, dataset: Dataset, account: str) -> set[date]:
        """Return the stored days of a list.

        Of a view that no table stores, these are the days that all its sources have.
        """
        sources = (dataset,) if dataset in DATASETS else _SOURCES
        for key in [(source.name, account) for source in sources]:
            if key not in self._days:
                self._days[key] = {day for window in self._windows.get(key, ()) for day in window.each_day()}
        return set.intersection(*(self._days[source.name, account] for source in sources))

    def windows(self, dataset: Dataset, account: str, month: Window) -> list[Window]:
        """Return the windows of a month that a replica has the rows of.

        A list whose rows sum up their window has those of its newest load only.
        """
        if not dataset.is_divisible:
            for window in reversed(self._windows.get((dataset.name, account), [])):
                if window.start < month.end and window.end > month.start:
                    return [window]
        return list(_stretches(self.days(dataset, account).intersection(month.each_day())))

    def last_day(self, account: KnownAccount, today: date) -> date:
        """Return the last day that the replica should have: the one on which a dated list was last loaded.

        In its first hour, the sync of the day before may still be running. Without any load it is the account's today.
        """
        read_at = self._read_at.get(account.key)
        return (read_at - _SYNC_LASTS).astimezone(account.zone_or_utc).date() if read_at is not None else today


def queries_for(
    account: KnownAccount,
    datasets: Collection[Dataset],
    months: Sequence[Window],
    stored_days: StoredDays,
    *,
    today: date,
    skus: Sequence[str],
    has_offers: bool,
    has_velocity: bool,
    has_statistics: bool,
) -> Iterator[AccountQuery]:
    """Yield the queries for one account.

    Args:
        months: The months of dated lists; of each, only the stored days are read.
        today: The account's local day, to which undated lists belong.
        skus: The account's products, whose costs are read one by one.
        has_offers: Whether offers, sales ranks and lead times are stored.
        has_velocity: Whether to read the inventory by the velocity of the newest days too.
        has_statistics: Whether to read every view of the dashboard too.
    """
    builder = _AccountQueries(account, stored_days, today, skus, has_offers=has_offers)
    for dataset in datasets:
        yield from builder.of(dataset, months)
    # Where a computed answer is selected without the datasets that it is computed from, their gaps are named.
    sources = (*((INVENTORY, DAILY_PRODUCT_SALES) if has_velocity else ()), *(_SOURCES if has_statistics else ()))
    for dataset in dict.fromkeys((*sources, *((COST_PERIODS,) if has_statistics else ()))):
        if dataset not in datasets:
            yield from (query for query in builder.of(dataset, months) if query.absent is not None)
    if has_velocity:
        yield from builder.velocity()
    if not has_statistics:
        return
    for dataset in PLAIN_PRODUCT_VIEWS:
        yield from builder.by_month(dataset, months)
    for dataset in (*COMBINED_VIEWS, *DATE_VIEWS):
        yield from builder.at_once(dataset, months)


@dataclass(frozen=True)
class _AccountQueries:
    account: KnownAccount
    stored_days: StoredDays
    today: date
    skus: Sequence[str]
    has_offers: bool

    def of(self, dataset: Dataset, months: Sequence[Window]) -> Iterator[AccountQuery]:
        """Yield the queries for a dataset: of each month, or of the newest snapshot."""
        if dataset.slicing is Slicing.MONTH:
            yield from self.by_month(dataset, months)
            return
        is_stored = self.stored_days.holds(dataset, self.account.key)
        never = None if is_stored else f"it was never synced; load it with `{self._sync(dataset)}`"
        skus = tuple(self.skus) if dataset.source is Source.PRODUCT_LOOKUP else None
        yield AccountQuery(dataset, self.account, None, self.today, absent=never, skus=skus)

    def velocity(self) -> Iterator[AccountQuery]:
        """Yield the query for the inventory's velocity over the newest stored days, if any."""
        sold = self.stored_days.days(DAILY_PRODUCT_SALES, self.account.key)
        if not sold or not self.stored_days.holds(INVENTORY, self.account.key):
            return
        newest = list(_stretches(sold))[-1]
        first = max(newest.start, newest.end - _VELOCITY_DAYS * _DAY)
        days = (("velocity_start_date", str(first)), ("velocity_end_date", str(newest.last_day)))
        unknown = () if self.has_offers else tuple((name, "no list contains lead times") for name in _RESTOCK_COLUMNS)
        yield AccountQuery(
            replace(INVENTORY, name="velocity", parameters=days), self.account, None, self.today, unknown
        )

    def by_month(self, dataset: Dataset, months: Sequence[Window]) -> Iterator[AccountQuery]:
        """Yield a query for each stored range of days of a month, and one for each range of missing days.

        Days after that of the newest load are missing in every list.
        """
        days, missing = self.stored_days.days(dataset, self.account.key), set[date]()
        for month in months:
            stored = self.stored_days.windows(dataset, self.account.key, month)
            yield from (self.query(dataset, window, days) for window in stored)
            so_far = month.until(self.today + _DAY)
            missing |= set(so_far.each_day()).difference(*(window.each_day() for window in stored))
        last = self.stored_days.last_day(self.account, self.today)
        late = {day for day in missing if day > last}
        for window in _stretches(missing - late):
            yield self.missing(dataset, window)
        for window in _stretches(late):
            reason = f"{window}: later than the last sync of the account"
            yield AccountQuery(dataset, self.account, window, None, unanswerable=reason)

    def missing(self, dataset: Dataset, window: Window) -> AccountQuery:
        """Return the query for days that were never loaded; of a view, its sources are asked for instead."""
        reason = f"{window}: never synced"
        if dataset not in DATASETS:
            return AccountQuery(dataset, self.account, window, None, unanswerable=reason)
        reason += f"; load it with `{self._sync(dataset)} --from {window.start:%Y-%m} --to {window.last_day:%Y-%m}`"
        return AccountQuery(dataset, self.account, window, None, absent=reason)

    def at_once(self, dataset: Dataset, months: Sequence[Window]) -> Iterator[AccountQuery]:
        """Yield one query for all stored months; without the first month where trends look back."""
        days = self.stored_days.days(dataset, self.account.key)
        stored = [days.intersection(month.each_day()) for month in months]
        of_months = [month_days for month_days in stored if month_days]
        if not of_months:
            yield self.missing(dataset, Window(months[0].start, months[-1].end))
            return
        looks_back = TREND in dataset.columns and len(of_months) > 1
        yield self.query(dataset, Window(min(of_months[1 if looks_back else 0]), max(of_months[-1]) + _DAY), days)

    def query(self, dataset: Dataset, window: Window, days: set[date]) -> AccountQuery:
        unknown = () if dataset in DATASETS else tuple(self._unknown(dataset, window, days))
        return AccountQuery(dataset, self.account, window, None, unknown)

    def _unknown(self, dataset: Dataset, window: Window, days: set[date]) -> Iterator[tuple[str, str]]:
        if not self.stored_days.holds(COST_PERIODS, self.account.key):
            for name in (*_COST_COLUMNS, f"{TREND.name}.profit"):
                yield name, f"{COST_PERIODS.name} were never synced"
        if not self.has_offers:
            yield from ((name, "no synced list contains offers and sales ranks") for name in _OFFER_COLUMNS)
        if not self.stored_days.days(INVENTORY, self.account.key).issuperset(window.each_day()):
            yield _STOCK_DAYS, "some days have no snapshot"
        if not days.issuperset(_looked_back_upon(dataset, window)):
            yield TREND.name, "days before the window were never synced"

    def _sync(self, dataset: Dataset) -> str:
        return f"seller-platform sync --account {self.account.key} --dataset {dataset.name}"


def _stretches(days: Collection[date]) -> Iterator[Window]:
    """Yield the windows that contain exactly these days, oldest first."""
    start: date | None = None
    for day in sorted(days):
        start = start or day
        if day + _DAY not in days:
            yield Window(start, day + _DAY)
            start = None


def _looked_back_upon(dataset: Dataset, window: Window) -> Iterator[date]:
    """Yield the days before a window from which the trend of its rows is computed."""
    group = dict(dataset.parameters)["group_by"]
    start = window.start
    match group:
        case "week":
            start -= timedelta(days=start.weekday())
        case "month":
            start = start.replace(day=1)
        case "year":
            start = start.replace(month=1, day=1)
    before = Window(start - timedelta(days=_LOOK_BACK_DAYS.get(group, window.days)), start)
    if group == "month":
        before = Window.month_of(before.last_day)
    return before.each_day()
