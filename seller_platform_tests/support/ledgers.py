"""The ledger of an account, loaded month by month, for tests of the books."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import Slice
from seller_platform.warehouse.loads.slices import open_load
from seller_platform.warehouse.postgres.database import Database

TRANSACTIONS = dataset_named("transactions")


@dataclass(frozen=True)
class Entry:
    """An entry of a ledger, posted at an hour of a local day."""

    day: date
    kind: str
    amount: Decimal
    currency: str | None = "USD"
    description: str | None = None
    order: str | None = None
    hour: int = 12

    @classmethod
    def on(cls, day: str, kind: str, amount: str, **more: str) -> "Entry":
        """Return an entry of a day and an amount that are written as text."""
        return cls(date.fromisoformat(day), kind, Decimal(amount), **more)  # type: ignore[arg-type]  # none is an hour


@dataclass(frozen=True)
class BookedAccount:
    """An account whose months are closed."""

    database: Database
    key: str
    account: Account

    @property
    def known(self) -> KnownAccount:
        return KnownAccount(self.key, "default", self.account)

    def load(
        self, month: Window, entries: Sequence[Entry], *, read_on: date | None = None, by_value: str | None = None
    ) -> int:
        """Load the ledger of a month, as it is read on a day; by default 20 days after the month. Return the load."""
        moment = datetime.combine(read_on or month.end + timedelta(days=20), time(), tzinfo=UTC)
        zone, currency = self.account.timezone, self.account.currency_code
        slice_ = Slice(TRANSACTIONS, self.key, month, time_zone=zone, currency=currency)
        with open_load(self.database, slice_, by_value=by_value) as load:
            if entries:
                load.spool.write([self._row(each) for each in entries], page=1)
            facts = LoadFacts(1, 1, 0, len(entries), CountVerdict.MATCH)
            return load.store(facts, started_at=moment).id

    def _row(self, entry: Entry) -> tuple[object, ...]:
        moment = datetime.combine(entry.day, time(entry.hour), tzinfo=self.known.zone)
        posted, amount = moment.isoformat(), str(entry.amount)
        about = entry.description or entry.kind
        return (posted, entry.kind, entry.order, None, about, 1, amount, entry.currency, None, str(entry.day))
