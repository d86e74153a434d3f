"""A connection to an upstream behind the fault proxy, with its grant in a warehouse."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from seller_platform.client.http.api import SILENCE_SECONDS, SellerApi
from seller_platform.contract import Account, Dataset, Window
from seller_platform.ingest.connections.upstream import Upstream, open_api
from seller_platform.ingest.loads.slices import load_slice
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.connections.secrets import secret_box
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.fault_proxy import Proxy
from seller_platform_tests.support.installation import Site

JANUARY, FEBRUARY = (Window.month_of(date(2026, month, 1)) for month in (1, 2))
BERLIN = KnownAccount(
    independent_upstream.KEYS["A1FOREIGN"],
    "default",
    Account(41, "Sons", "DE", "EUR", "Europe/Berlin", "market.example", "A1FOREIGN"),
)


@dataclass
class Broken:
    """A connection to an upstream behind a proxy."""

    upstream: independent_upstream.IndependentUpstream
    proxy: Proxy
    database: Database
    home: Path
    silence_seconds: float = SILENCE_SECONDS

    @contextmanager
    def api(self) -> Iterator[SellerApi]:
        upstream = replace(self.stored_upstream, silence_seconds=self.silence_seconds)
        with open_api(upstream, "default", self.database, secret_box(self.home, None), self.home) as api:
            yield api

    @property
    def stored_upstream(self) -> Upstream:
        base_url = f"{self.proxy.url}/api"
        return replace(self.upstream.application, base_url=base_url, auth_url=base_url)

    @property
    def site(self) -> Site:
        return Site(self.database.url, self.home, self.stored_upstream)

    def load(self, dataset: Dataset, window: Window = JANUARY) -> Receipt:
        """Load a slice from stored values only, as a separate process does."""
        with self.api() as api:
            return load_slice(api, self.database, BERLIN, dataset, window, run_id=None)

    def forget_tokens(self) -> None:
        """Make the upstream reject all access tokens issued so far; refresh tokens stay valid."""
        self.upstream.access.clear()
