"""A connection to an upstream whose answers are sent by faults, with its grant in a warehouse."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from seller_platform.client.http.api import SILENCE_SECONDS, SellerApi
from seller_platform.contract import Account, Dataset, Window
from seller_platform.ingest.connections.upstream import open_api
from seller_platform.ingest.loads.slices import SliceRequest, load_slice
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.connections.secrets import secret_box
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.installation import Site
from seller_platform_tests.support.raw_server import RawServer

JANUARY, FEBRUARY = (Window.month_of(date(2026, month, 1)) for month in (1, 2))
BERLIN = KnownAccount(
    independent_upstream.KEYS["A1FOREIGN"],
    "default",
    Account(41, "Sons", "DE", "EUR", "Europe/Berlin", "market.example", "A1FOREIGN"),
)


@dataclass
class Broken:
    """A connection to an upstream."""

    upstream: independent_upstream.IndependentUpstream
    database: Database
    home: Path
    silence_seconds: float = SILENCE_SECONDS

    @contextmanager
    def api(self) -> Iterator[SellerApi]:
        upstream = replace(self.upstream.application, silence_seconds=self.silence_seconds)
        with open_api(upstream, "default", self.database, secret_box(self.home, None), self.home) as api:
            yield api

    @property
    def server(self) -> RawServer:
        return self.upstream.server

    @property
    def site(self) -> Site:
        return Site(self.database.url, self.home, self.upstream.application)

    def load(self, dataset: Dataset, window: Window = JANUARY) -> Receipt:
        """Load a slice from stored values only, as a separate process does."""
        with self.api() as api:
            request = SliceRequest(dataset, BERLIN.key, window)
            return load_slice(api, self.database, BERLIN, request, window, run_id=None)

    def forget_tokens(self) -> None:
        """Make the upstream reject all access tokens issued so far; refresh tokens stay valid."""
        self.upstream.access.clear()
