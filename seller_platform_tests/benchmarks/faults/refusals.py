"""Loads slices while 30 % of all answers are refusals.

`python -m seller_platform_tests.benchmarks.faults.refusals [--slices 1000]` prints one table.

Slices are loaded in parallel. A refusal is a 429 with Retry-After, a 503 or a reset connection.
"""

import argparse
import random
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import date
from itertools import product
from pathlib import Path

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.ingest.connections.upstream import Upstream
from seller_platform.ingest.loads.slices import SliceRequest, load_each, load_slice
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.benchmarks.faults.figures import Figure, print_figures
from seller_platform_tests.support import fault_proxy, independent_upstream
from seller_platform_tests.support.fault_proxy import Fault, Proxy, Request, open_proxy
from seller_platform_tests.support.installation import Site, temporary_warehouse

SHARE = 0.3
AT_ONCE = 4
MOST_REQUESTS = 1.5  # of the fewest
_TOKEN = "/api/oauth/token"
_PAUSES = (1, 2)
_SELLERS = tuple(
    KnownAccount(
        independent_upstream.KEYS[seller],
        "default",
        Account(number, seller, None, None, zone, "market.example", seller),
    )
    for number, seller, zone in ((41, "A1FOREIGN", "Europe/Berlin"), (42, "A.2|FOREIGN", "Australia/Adelaide"))
)
_DATASETS = tuple(map(dataset_named, ("orders", "transactions", "daily_product_sales")))
SLICES = tuple(product(_SELLERS, _DATASETS, (Window.month_of(date(2026, month, 1)) for month in (1, 2, 3))))


@dataclass
class Breaking:
    """A plan that breaks a share of all answers, and checks the pauses before retries.

    Attributes:
        pauses: How often the upstream asked for a pause.
        early: The missing seconds of pauses that were too short.
    """

    rng: random.Random
    pauses: int = 0
    early: list[float] = field(default_factory=list)
    _until: dict[tuple[str, str], float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: Request) -> Fault | None:
        with self._lock:
            asked, now = (request.path, request.query), time.monotonic()
            missing = self._until.pop(asked, now) - now
            if missing > 0:
                self.early.append(missing)
            if request.path == _TOKEN or self.rng.random() >= SHARE:
                return None
            kind = self.rng.randrange(3)
            if kind == 0:
                seconds = self.rng.choice(_PAUSES)
                self._until[asked] = now + seconds
                self.pauses += 1
                return fault_proxy.status(429, retry_after=seconds)
            return fault_proxy.status(503) if kind == 1 else fault_proxy.reset_at_once()


def load_in_spite(database_url: str, home: Path, *, slices: int, seed: int = 7) -> list[Figure]:
    """Load slices without refusals, then with refusals, and compare the results."""
    with (
        independent_upstream.open_independent_upstream("http://127.0.0.1:1/cb") as upstream,
        open_proxy(upstream.url) as between,
    ):
        upstream.issue_lasting_tokens()
        base_url = f"{between.url}/api"
        stored_upstream = Upstream(
            base_url,
            base_url,
            independent_upstream.CLIENT_ID,
            independent_upstream.CLIENT_SECRET,
            upstream.redirect_uri,
        )
        site = Site(database_url, home, stored_upstream)
        site.connect(upstream.issue())
        chosen = [SLICES[number % len(SLICES)] for number in range(slices)]
        with site.open() as (api, database):
            undisturbed, fewest, _ = _loaded(api, database, between, chosen)
            breaking = Breaking(random.Random(seed))
            between.plan = breaking
            began = time.monotonic()
            disturbed, requests, problems = _loaded(api, database, between, chosen)
    share = between.faults / requests
    most = MOST_REQUESTS * fewest
    return [
        Figure("slices loaded, answers broken", f"{slices:,}, {share:.0%}"),
        *(Figure("  a slice ended with", problem, "rows", is_kept=False) for problem in sorted(set(problems))),
        Figure("slices that failed", len(problems), "0", not problems),
        Figure("slices with other rows than undisturbed", _others(undisturbed, disturbed), "0",
               undisturbed == disturbed),
        Figure("requests, by those of undisturbed loads", f"{requests / fewest:.2f} x {fewest:,}",
               f"at most {MOST_REQUESTS}", requests <= most),
        Figure("pauses asked for, and cut short", f"{breaking.pauses:,}, {len(breaking.early)}", "0",
               breaking.pauses > 0 and not breaking.early),
        Figure("seconds", f"{time.monotonic() - began:.0f}"),
    ]  # fmt: skip


_Chosen = tuple[KnownAccount, Dataset, Window]


def _loaded(
    api: SellerApi, database: Database, between: Proxy, chosen: list[_Chosen]
) -> tuple[dict[tuple[str, str, Window], bytes], int, list[str]]:
    """Return the digests of the slices, the number of requests, and the errors."""
    before, problems = between.requests, []
    accounts = {account.key: account for account, _, _ in chosen}
    digests: dict[tuple[str, str, Window], bytes] = {}

    def load(request: SliceRequest) -> Receipt:
        assert request.month is not None
        return load_slice(api, database, accounts[request.account], request.dataset, request.month, run_id=None)

    slices = [SliceRequest(dataset, account.key, window) for account, dataset, window in chosen]
    for outcome in load_each(slices, load, at_once=AT_ONCE):
        request = outcome.request
        assert request.month is not None
        if outcome.error is not None:
            problems.append(f"{type(outcome.error).__name__}: {outcome.error}")
        digest = outcome.receipt.digest if outcome.receipt else b""
        digests[request.dataset.name, request.account, request.month] = digest
    return digests, between.requests - before, problems


def _others(expected: dict[tuple[str, str, Window], bytes], actual: dict[tuple[str, str, Window], bytes]) -> int:
    return sum(actual[key] != digest for key, digest in expected.items())


def main() -> int:
    """Load the slices and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--slices", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args()
    with temporary_warehouse() as (url, folder):
        figures = load_in_spite(url, folder, slices=chosen.slices, seed=chosen.seed)
    return print_figures("Refusals", figures)


if __name__ == "__main__":
    sys.exit(main())
