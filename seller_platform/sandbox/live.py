"""Advances the sandbox day by day: its lists change, as those of a marketplace do.

What an account lists on a day follows from the seed, the account, its first day and that day alone. A step compares
these rows with the stored ones and stores the difference as a load does: rows that are gone move to schema `history`,
and receipts have what changed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from zlib import crc32

from psycopg import sql
from sqlalchemy import delete, text

from seller_platform.clocks import utc_now
from seller_platform.contract import DATASETS, Dataset, Slicing, Source, Window
from seller_platform.contract.datasets.inventory import INVENTORY
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import RequestError
from seller_platform.sandbox.account_history import LISTED_TODAY, AccountHistory
from seller_platform.sandbox.late_changes import LISTED_DAYS
from seller_platform.sandbox.load import copy_rows, day_of, period_until
from seller_platform.sandbox.local_days import second_of_day
from seller_platform.sandbox.marketplaces import CONNECTION, SandboxAccount, account_at, rates
from seller_platform.sandbox.random_numbers import generator
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.receipts import Slice
from seller_platform.warehouse.loads.slices import open_load
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.service_tables import EXCHANGE_RATES, PRODUCTS
from seller_platform.warehouse.schema.tables import table_for

_SNAPSHOTS = 7
_OUTAGES = 10  # the purpose of random numbers
_EMPTY, _SHORT = 0.5, 0.4
_TODAY_EVERY = timedelta(minutes=1)
_SHOWN = tuple(dataset.name for dataset in DATASETS if dataset.is_dated)
_FACTS = LoadFacts(0, 0, 0, None, CountVerdict.UNVERIFIABLE)

# A day of an account is stored when its inventory is, which comes last. That of an outage has no rows, but a load.
_STORED = text("""
    SELECT account, max(day)
    FROM seller.accounts
    JOIN (SELECT account, local_day FROM seller.inventory
          UNION SELECT account, newest_day FROM platform.slices WHERE dataset = 'inventory') AS taken (account, day)
    USING (account)
    WHERE connection = :connection
    GROUP BY account
""")

# Rows that a load added, and rows that it removed.
_CHANGED = sql.SQL("""
SELECT (SELECT count(*) FROM {stored} WHERE account = %(account)s AND load_id = %(load)s),
       (SELECT count(*) FROM {former} WHERE account = %(account)s AND gone_load_id = %(load)s)
""")


@dataclass(frozen=True)
class LiveOptions:
    """The options of a live sandbox.

    Attributes:
        since: The day on which its lists were stored for the first time.
        months: Calendar months of sales before that day.
        outages: The share of the lists of all accounts and days that are empty or short.
    """

    since: date
    accounts: int
    months: int
    orders_per_month: int
    seed: int
    outages: float = 0.0

    @property
    def first_day(self) -> date:
        """The first day of the sales."""
        return period_until(self.months, self.since).start


@dataclass
class DayChanges:
    """The changes of a day.

    Attributes:
        changes: How many rows were added and removed, by dataset.
        outages: The lists that are empty or short, as dataset and account.
    """

    day: date
    changes: dict[str, tuple[int, int]] = field(default_factory=lambda: defaultdict(lambda: (0, 0)))
    outages: list[tuple[str, str]] = field(default_factory=list)

    def add(self, dataset: str, added: int, removed: int) -> None:
        """Count rows of a dataset."""
        before = self.changes[dataset]
        self.changes[dataset] = before[0] + added, before[1] + removed

    def __str__(self) -> str:
        changes = ", ".join(
            f"{name} +{added} -{removed}"
            for name, (added, removed) in self.changes.items()
            if name in _SHOWN and added + removed
        )
        parts = [
            changes or "nothing changed",
            *(f"outage: {name} of {key}" for name, key in self.outages),
        ]
        return f"{self.day}  {'; '.join(parts)}"


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
        self._written: dict[int, AccountHistory] = {}
        self._today_stored_at: datetime | None = None
        self._rows_of_today: dict[tuple[str, str], Sequence[tuple[Row, tuple[str, ...]]]] = {}
        stored = dict(database.execute(_STORED, {"connection": CONNECTION}).tuples().all())
        self._accounts = [account_at(number, options.seed) for number in range(options.accounts)]
        if {account.key for account in self._accounts} != set(stored):
            raise RequestError(
                "the stored sandbox has other accounts than these options give. Begin again without --continue, or "
                "give the options with which it began"
            )
        self._days = {account.number: stored[account.key] for account in self._accounts}

    def steps(self, now: Callable[[], datetime], *, until: date | None = None) -> Iterator[DayChanges | None]:
        """Yield each day after it was stored, and None where no account's next day has come yet.

        It ends when all accounts have reached `until`.
        """
        while True:
            day = min(self._days.values()) + timedelta(days=1)
            if until is not None and day > until:
                return
            moment = now()
            due = [each for each in self._accounts if self._days[each.number] < day <= _today_of(each, moment)]
            if not due:
                self._store_today(moment)
            yield self._step(day, due) if due else None

    def _store_today(self, moment: datetime) -> None:
        """Store the orders that were placed today, once a minute, of the accounts that have reached the present day."""
        if self._today_stored_at is not None and moment - self._today_stored_at < _TODAY_EVERY:
            return
        self._today_stored_at = moment
        for account in self._accounts:
            day = _today_of(account, moment)
            if self._days[account.number] != day:
                continue
            if account.number not in self._written or self._written[account.number].today != day:
                self._written[account.number] = self._history_of(account, day).as_of(day, _Listed(day).add)
            listed = _Listed(day)
            self._written[account.number].write_today(listed.add, second_of_day(account.account.timezone, moment))
            for dataset in LISTED_TODAY:
                key, rows = (account.key, dataset.name), self._without_outage(account, dataset, day, listed)
                # A load of equal rows would write a receipt every minute.
                if rows != self._rows_of_today.get(key, []):
                    self._store(Slice(dataset, account.key, Window.day(day)), rows)
                self._rows_of_today[key] = rows

    def _step(self, day: date, due: Sequence[SandboxAccount]) -> DayChanges:
        step = DayChanges(day)
        for account in due:
            self._store_day(account, step)
            self._days[account.number] = day
        return step

    def _store_day(self, account: SandboxAccount, step: DayChanges) -> None:
        """Store the lists of an account as they are on the day of a step, and the inventory last."""
        day = step.day
        since = max(self._options.first_day, day - timedelta(days=LISTED_DAYS))
        listed = _Listed(since)
        history = self._written[account.number] = self._history_of(account, day).as_of(day, listed.add)
        self._store_facts(account.key, history, day)
        for dataset in sorted(DATASETS, key=lambda dataset: dataset == INVENTORY):
            # Costs are the seller's own: only the seller changes them.
            if dataset.source is not Source.LIST or dataset.is_computed:
                continue
            rows = self._without_outage(account, dataset, day, listed)
            if len(rows) != len(listed.rows[dataset.name]):
                step.outages.append((dataset.name, account.key))
            window = Window(since, day) if dataset.is_dated else Window.day(day)
            step.add(dataset.name, *self._store(Slice(dataset, account.key, window), rows))

    def _history_of(self, account: SandboxAccount, day: date) -> AccountHistory:
        """Return the history of an account, which `as_of` continues to a day."""
        if account.number not in self._histories:
            period = Window(self._options.first_day, day)
            self._histories[account.number] = AccountHistory(
                account, period, orders_per_month=self._options.orders_per_month, seed=self._options.seed
            )
        return self._histories[account.number]

    def _without_outage(
        self, account: SandboxAccount, dataset: Dataset, day: date, listed: _Listed
    ) -> Sequence[tuple[Row, tuple[str, ...]]]:
        """Return the rows that a list shows on a day; during an outage, not all of them."""
        rows, options = listed.rows[dataset.name], self._options
        rng = generator(options.seed, account.number, _OUTAGES, day.toordinal(), crc32(dataset.name.encode()))
        if dataset.source is not Source.LIST or rng.random() >= options.outages:
            return rows
        share = 0.0 if rng.random() < _EMPTY else _SHORT
        return [row for row, is_listed in zip(rows, rng.random(len(rows)) < share, strict=True) if is_listed]

    def _store(self, slice_: Slice, rows: Sequence[tuple[Row, tuple[str, ...]]]) -> tuple[int, int]:
        """Make a slice equal to rows, and return how many were added and removed."""
        by_tags: dict[tuple[str, ...], list[Row]] = defaultdict(list)
        for row, tags in rows:
            by_tags[tags].append(row)
        with open_load(self._database, slice_) as load:
            for page, (tags, of_tags) in enumerate(by_tags.items(), 1):
                load.spool.write(of_tags, tags=tags, page=page)
            receipt = load.store(_FACTS, started_at=utc_now())
        if not receipt.changed:
            return 0, 0
        name = slice_.dataset.name
        tables = {"stored": sql.Identifier("seller", name), "former": sql.Identifier("history", name)}
        with self._database.begin() as connection:
            values = {"account": slice_.account, "load": receipt.id}
            added, removed = driver_of(connection).execute(_CHANGED.format(**tables), values).fetchone() or (0, 0)
        return added, removed

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


def _today_of(account: SandboxAccount, moment: datetime) -> date:
    return day_of(moment, account.account.timezone)
