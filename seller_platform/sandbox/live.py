"""Advances the sandbox day by day: its lists change, as those of a marketplace do.

What an account lists on a day follows from the seed, the account, its first day and that day alone. A step compares
these rows with the stored ones and stores the difference as a load does: rows that are gone move to schema `history`,
and receipts have what changed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from sqlalchemy import delete, text

from seller_platform.clocks import utc_now
from seller_platform.contract import DATASETS, Dataset, Slicing, Source, Window
from seller_platform.contract.datasets.stock import INVENTORY
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import RequestError
from seller_platform.sandbox.account_history import AccountHistory
from seller_platform.sandbox.late_changes import LISTED_DAYS
from seller_platform.sandbox.load import copy_rows, day_of, period_until
from seller_platform.sandbox.marketplaces import CONNECTION, SandboxAccount, account_at, rates
from seller_platform.service.tables import EXCHANGE_RATES, PRODUCTS
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.receipts import Slice
from seller_platform.warehouse.loads.slices import open_load
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.tables import table_for

_SNAPSHOTS = 7
_FACTS = LoadFacts(0, 0, 0, None, CountVerdict.UNVERIFIABLE)

# A day of an account is stored when its inventory is, which comes last.
_STORED = text("""
    SELECT account, max(local_day) FROM seller.accounts JOIN seller.inventory USING (account)
    WHERE connection = :connection GROUP BY account
""")


@dataclass(frozen=True)
class LiveOptions:
    """The options of a live sandbox.

    Attributes:
        since: The day on which its lists were stored for the first time.
        months: Calendar months of sales before that day.
    """

    since: date
    accounts: int
    months: int
    orders_per_month: int
    seed: int

    @property
    def first_day(self) -> date:
        """The first day of the sales."""
        return period_until(self.months, self.since).start


class _Listed:
    """Gathers the rows of one account that may have changed."""

    def __init__(self, since: date) -> None:
        self.rows: dict[str, list[tuple[Row, tuple[str, ...]]]] = defaultdict(list)
        self._since = since.isoformat()

    def add(self, dataset: Dataset, rows: Sequence[Row], _: str, tags: tuple[str, ...]) -> None:
        """Take rows of the account."""
        self.rows[dataset.name] += [(row, tags) for row in rows if not dataset.is_dated or str(row[-1]) >= self._since]


class LiveSandbox:
    """The accounts of a sandbox, each as of a day.

    It continues where the stored lists end: as `load_sandbox` or an earlier live sandbox has stored them.
    """

    def __init__(self, database: Database, options: LiveOptions) -> None:
        """Continue a live sandbox.

        Raises:
            RequestError: The stored accounts are not those of these options.
        """
        self._database, self._options = database, options
        self._histories: dict[int, AccountHistory] = {}
        stored = dict(database.execute(_STORED, {"connection": CONNECTION}).tuples().all())
        self._accounts = [account_at(number, options.seed) for number in range(options.accounts)]
        if {account.key for account in self._accounts} != set(stored):
            raise RequestError(
                "the stored sandbox has other accounts than these options give. Begin again without --continue, or "
                "give the options with which it began"
            )
        self._days = {account.number: stored[account.key] for account in self._accounts}

    def steps(self, now: Callable[[], datetime], *, until: date | None = None) -> Iterator[date | None]:
        """Yield each day after it was stored, and None where no account's next day has come yet.

        It ends when all accounts have reached `until`.
        """
        while True:
            day = min(self._days.values()) + timedelta(days=1)
            if until is not None and day > until:
                return
            moment = now()
            today = {each.number: day_of(moment, each.account.timezone) for each in self._accounts}
            due = [each for each in self._accounts if self._days[each.number] < day <= today[each.number]]
            for each in due:
                self._store_day(each, day)
            yield day if due else None

    def _store_day(self, account: SandboxAccount, day: date) -> None:
        """Store the lists of an account as they are on a day, the inventory last."""
        since = max(self._options.first_day, day - timedelta(days=LISTED_DAYS))
        listed = _Listed(since)
        history = self._history_of(account, day).as_of(day, listed.add)
        self._store_facts(account.key, history, day)
        for dataset in sorted(DATASETS, key=lambda dataset: dataset == INVENTORY):
            # Costs are the seller's own: only the seller changes them.
            if dataset.source is not Source.LIST or dataset.is_computed:
                continue
            window = Window(since, day) if dataset.is_dated else Window.day(day)
            self._store(Slice(dataset, account.key, window), listed.rows[dataset.name])
        self._days[account.number] = day

    def _history_of(self, account: SandboxAccount, day: date) -> AccountHistory:
        """Return the history of an account, which `as_of` continues to a day."""
        if account.number not in self._histories:
            period = Window(self._options.first_day, day)
            self._histories[account.number] = AccountHistory(
                account, period, orders_per_month=self._options.orders_per_month, seed=self._options.seed
            )
        return self._histories[account.number]

    def _store(self, slice_: Slice, rows: Sequence[tuple[Row, tuple[str, ...]]]) -> None:
        """Make a slice equal to rows."""
        by_tags: dict[tuple[str, ...], list[Row]] = defaultdict(list)
        for row, tags in rows:
            by_tags[tags].append(row)
        with open_load(self._database, slice_) as load:
            for page, (tags, of_tags) in enumerate(by_tags.items(), 1):
                load.spool.write(of_tags, tags=tags, page=page)
            load.store(_FACTS, started_at=utc_now())

    def _store_facts(self, key: str, history: AccountHistory, day: date) -> None:
        """Store what no load brings: products and the day's exchange rates. Snapshots of old days are deleted."""
        with self._database.begin() as connection:
            connection.execute(delete(PRODUCTS).where(PRODUCTS.c.account == key))
            connection.execute(delete(EXCHANGE_RATES).where(EXCHANGE_RATES.c.day == day))
            copy_rows(driver_of(connection), PRODUCTS, history.product_rows())
            copy_rows(driver_of(connection), EXCHANGE_RATES, rates(day, day))
            for dataset in DATASETS:
                if dataset.slicing is Slicing.SNAPSHOT and dataset.source is Source.LIST:
                    table = table_for(dataset).c
                    is_old = table[dataset.slice_column] <= day - timedelta(days=_SNAPSHOTS)
                    connection.execute(delete(table_for(dataset)).where(table.account == key, is_old))
