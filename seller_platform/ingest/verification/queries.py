"""The queries sent to source and replica, and the columns a replica does not have."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise
from types import MappingProxyType

from seller_platform.contract import Dataset, Slicing, Source, Window
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.inventory import INVENTORY
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, TRANSACTIONS, TREND
from seller_platform.contract.statistics_views import COMBINED_VIEWS, DATE_VIEWS, PLAIN_PRODUCT_VIEWS
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.slices import Receipt

_COST_COLUMNS = ("product_cost", "profit", "roi", "profit_margin")
_OFFER_COLUMNS = ("buybox_price", "sales_rank")
_STOCK_DAYS = "out_of_stock_days"
_RESTOCK_COLUMNS = ("restock_date", "restock_quantity_suggested")
_DAY = timedelta(days=1)
_VELOCITY_DAYS = 30
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
        skus: The products to read one by one; None where the dataset is a list.
    """

    dataset: Dataset
    account: KnownAccount
    window: Window | None
    snapshot_day: date | None
    unknown: tuple[tuple[str, str], ...] = ()
    unanswerable: str | None = None
    skus: Sequence[str] | None = None

    def __str__(self) -> str:
        parameters = [value for name, value in self.dataset.parameters if name != "view_by"]
        products = [f"of {len(self.skus)} products"] if self.skus is not None else []
        return " ".join([self.dataset.name, *parameters, *products, *([str(self.window)] if self.window else [])])

    @property
    def ignored(self) -> dict[str, str]:
        """The columns and fields of the list that are not compared, with the reason."""
        names = {column.name for column in self.dataset.columns}
        return {name: reason for name, reason in self.unknown if name.partition(".")[0] in names}


class StoredDays:
    """The stored days of each list and account, from the receipts."""

    def __init__(self, receipts: Sequence[Receipt]) -> None:
        self._days: dict[tuple[str, str], set[date]] = defaultdict(set)
        for receipt in receipts:
            self._days[(receipt.dataset, receipt.account)].update(receipt.window.each_day())

    def holds(self, dataset: Dataset, account: str) -> bool:
        """Whether the list was ever loaded."""
        return bool(self._days.get((dataset.name, account)))

    def days(self, dataset: Dataset, account: str) -> set[date]:
        """Return the stored days of a list.

        Of a computed list, these are the days that all its sources have.
        """
        sources = (DAILY_PRODUCT_SALES, TRANSACTIONS) if dataset.parameters else (dataset,)
        return set.intersection(*(self._days.get((source.name, account), set()) for source in sources))


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
    builder = _AccountQueries(account, stored_days, today, has_offers=has_offers)
    for dataset in datasets:
        if dataset.slicing is Slicing.MONTH:
            yield from builder.by_month(dataset, months)
        elif dataset.source is Source.PRODUCT_LOOKUP:
            yield replace(builder.snapshot(dataset), skus=tuple(skus))
        else:
            yield builder.snapshot(dataset)
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
    has_offers: bool

    def snapshot(self, dataset: Dataset) -> AccountQuery:
        never = None if self.stored_days.holds(dataset, self.account.key) else "it was never synced"
        return AccountQuery(dataset, self.account, None, self.today, unanswerable=never)

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
        """Yield a query for each stored range of days of a month.

        One more query asks for the missing days.
        """
        days = self.stored_days.days(dataset, self.account.key)
        unsynced = []
        for month in months:
            stored = list(_stretches(days.intersection(month.each_day())))
            yield from (self.query(dataset, window, days) for window in stored)
            for before, after in pairwise(stored):
                hole = Window(before.end, after.start)
                yield AccountQuery(dataset, self.account, hole, None, unanswerable=f"{hole}: never synced")
            if not stored:
                unsynced.append(month)
        if unsynced:
            yield self.never_synced(dataset, unsynced)

    def at_once(self, dataset: Dataset, months: Sequence[Window]) -> Iterator[AccountQuery]:
        """Yield one query for all stored months; without the first month where trends look back."""
        days = self.stored_days.days(dataset, self.account.key)
        stored = [days.intersection(month.each_day()) for month in months]
        of_months = [month_days for month_days in stored if month_days]
        if not of_months:
            yield self.never_synced(dataset, months)
            return
        looks_back = TREND in dataset.columns and len(of_months) > 1
        yield self.query(dataset, Window(min(of_months[1 if looks_back else 0]), max(of_months[-1]) + _DAY), days)

    def never_synced(self, dataset: Dataset, months: Sequence[Window]) -> AccountQuery:
        window = Window(months[0].start, months[-1].end)
        named = ", ".join(f"{month.start:%Y-%m}" for month in months[:3])
        more = f" and {len(months) - 3} months more" if len(months) > 3 else ""
        return AccountQuery(dataset, self.account, window, None, unanswerable=f"{named}{more}: never synced")

    def query(self, dataset: Dataset, window: Window, days: set[date]) -> AccountQuery:
        unknown = tuple(self._unknown(dataset, window, days)) if dataset.parameters else ()
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
