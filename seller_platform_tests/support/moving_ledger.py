"""Accounts with a ledger that a test may change, in the upstream and in the warehouse."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

import httpx
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.clocks import using_clock
from seller_platform.contract import Account, Window
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.ingest.loads.loading import SliceLoader, load_each
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import MovingList, api_of

START = datetime(2040, 3, 20, tzinfo=UTC)  # later than the clock of any machine
_DAY = timedelta(days=1)


@dataclass
class Installation:
    """Accounts with a ledger of some months, the upstream that lists it, and the clock of all that reads it."""

    database: Database
    accounts: int = 1
    number_of_months: int = 24
    now: datetime = START
    rng: random.Random = field(default_factory=lambda: random.Random(27))

    def __post_init__(self) -> None:
        first = Window.month_of(self.now.date())
        months = [first := Window.month_of(first.start - _DAY) for _ in range(self.number_of_months)]
        self.months = [month.start for month in reversed(months)]
        self.keys = [f"S{number}.M" for number in range(self.accounts)]
        self.rows = {
            (key, month): sorted(self._entries(key, month), key=_day_of) for key in self.keys for month in self.months
        }
        save_connection(self.database, KnownConnection("default", "http://api", "http://api", "client"))
        listed = [
            (key, Account(number, key, "US", "USD", "UTC", "M", key.removesuffix(".M")))
            for number, key in enumerate(self.keys)
        ]
        save_accounts(self.database, "default", listed)

    def _entries(self, key: str, month: date) -> Iterator[dict[str, Any]]:
        for number in range(round(self.rng.lognormvariate(3.5, 1)) + 2):
            yield {
                "posted_date": f"{month + self.rng.randrange(28) * _DAY}T12:00:00Z",
                "transaction_type": "Fee",
                "sku": f"{month:%y%m}-{number}",
                "amount": -self.rng.randrange(100, 900) / 100,
                "currency": "USD",
            }

    def load(self) -> None:
        """Load everything, as a backfill does."""
        windows = [Window.month_of(month) for month in self.months]
        requests = [SliceRequest(TRANSACTIONS, key, month) for key in self.keys for month in windows]
        with api_of(self.answer) as api:
            for result in load_each(requests, self.loader(api)):
                assert result.error is None, result.error

    def stored(self, table: str = "seller.transactions", columns: str = "*") -> list[str]:
        """Return the rows of a table, in an order of their own."""
        return sorted(map(repr, self.database.execute(text(f"SELECT {columns} FROM {table}")).all()))

    def loader(self, api: SellerApi | None = None) -> SliceLoader:
        """Return what reads slices now."""
        with_api = api or api_of(self.answer)
        return SliceLoader(self.database, lambda _: with_api, self.now, adaptive=False)

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer with the ledger of the days that are asked for."""
        asked = request.url.params
        rows = self.rows[f"{asked['seller_id']}.M", date.fromisoformat(asked["start_date"]).replace(day=1)]
        return MovingList(rows, day_of=_day_of)(request)


def _day_of(row: dict[str, Any]) -> str:
    return str(row["posted_date"])[:10]


_Installation = TypeVar("_Installation", bound=Installation)


@contextmanager
def installed(installation: _Installation) -> Iterator[_Installation]:
    """Yield an installation whose clock is that of the process until the block ends, and load everything."""
    with using_clock(lambda: installation.now):
        installation.load()
        yield installation
