"""Walks over the pages of a replica while `sync --full` loads it again and again, and counts those that are torn.

An upstream lists the ledger of an account; each discovery of the accounts gives every entry another description, and
all of them the same one. `sync --full` reads it with its loading processes, one command after the other. Meanwhile the
client's own code walks over the last days of a month and the first of the next one, from a service over the warehouse.

A walk is whole if it is complete on the first attempt, and each of its months has the entries of one load. With the
same entries in every load, a page of another load changes neither the total nor the keys.
"""

import random
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta

from seller_platform.client.decoding.pages import Page, PageDecoder
from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.pagination import WalkEndedError, read_pages
from seller_platform.client.lists.prefetch import PageFetcher
from seller_platform.client.oauth.tokens import TokenAuth
from seller_platform.contract import Window, dataset_named
from seller_platform.contract.list_query import ListQuery
from seller_platform.service.oauth.temporary_access import temporary_access
from seller_platform.warehouse.connections.accounts import KnownAccount, accounts
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.figures.free_service import connected, free_service, months, variables_of
from seller_platform_tests.figures.measuring import service, with_children
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support.installation import temporary_server
from seller_platform_tests.support.processes import COMMAND

LEDGER = dataset_named("transactions")
MONTHS, ROWS = 12, 12_000
_DAYS = timedelta(days=3)
_DESCRIPTION = [column.name for column in LEDGER.columns].index("description")
_ATTEMPTS = 20


@dataclass(frozen=True)
class Walk:
    """What one walk saw: its pages, its attempts, and the descriptions of the entries of each month."""

    pages: int
    attempts: int
    descriptions: tuple[frozenset[str], ...]

    @property
    def is_torn(self) -> bool:
        return any(len(each) != 1 for each in self.descriptions)


class Syncs:
    """Runs `sync --full` again and again, until the end."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._variables, self._is_over = variables, threading.Event()
        self.commands = self.processes = 0

    def once(self) -> None:
        """Run the command to its end."""
        command = [*COMMAND, "sync", "--full", "--json", f"--dataset={LEDGER.name}"]
        with subprocess.Popen(command, env=self._variables, stdout=subprocess.DEVNULL) as process:
            while process.poll() is None:
                self.processes = max(self.processes, len(list(with_children(process.pid))) - 1)
                time.sleep(0.1)
        if process.returncode:
            raise SystemExit(f"sync ended with {process.returncode}")
        self.commands += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run commands until the block ends."""

        def run() -> None:
            while not self._is_over.is_set():
                self.once()

        with ThreadPoolExecutor(1) as threads:
            commands = threads.submit(run)
            try:
                yield
            finally:
                self._is_over.set()
            commands.result()


def walk(api: SellerApi, account: KnownAccount, border: date) -> Walk:
    """Walk over the days around the first of a month, as the client does."""
    query = ListQuery(LEDGER, account.account, Window(border - _DAYS, border + _DAYS), per_page=min(LEDGER.page_sizes))
    with PageFetcher(api, PageDecoder(LEDGER, account.zone, border), 2) as fetcher:
        for attempts in range(1, _ATTEMPTS + 1):  # noqa: B007  # the last one is what is returned
            pages: list[Page] = []
            try:
                read_pages(fetcher, query, fetcher.one(query), pages.append)
                break
            except WalkEndedError:
                continue
    descriptions: dict[bool, set[str]] = {False: set(), True: set()}
    for row in (row for page in pages for row in page.rows):
        descriptions[str(row[-1]) >= str(border)].add(str(row[_DESCRIPTION]))
    return Walk(len(pages), attempts, tuple(map(frozenset, descriptions.values())))


def measure(*, walks: int = 1_000, readers: int = 2, minutes: float = 30.0) -> Promises:
    """Options: walks, readers at the same time, and the longest time in minutes."""
    with free_service(1, MONTHS, ROWS, is_changing=True) as upstream, temporary_server() as (server, folder):
        site = connected(server, folder, "walks", upstream)
        syncs = Syncs(variables_of(site))
        syncs.once()
        with Database(site.database_url) as database:
            (account,) = accounts(database)
            with (
                temporary_access(database, [account.key]) as token,
                service(site.database_url, folder) as (base_url, _),
                SellerApi(base_url, auth=TokenAuth(token)) as api,
                ThreadPoolExecutor(readers) as threads,
                syncs.running(),
            ):
                began, done = time.perf_counter(), list[Walk]()
                borders = [month.start for month in months(MONTHS)[1:]]
                while len(done) < walks and time.perf_counter() - began < 60 * minutes:
                    some = random.choices(borders, k=min(walks - len(done), 10 * readers))
                    done += threads.map(lambda border: walk(api, account, border), some)
    torn = sum(each.is_torn for each in done)
    return Promises(
        "Walks beside `sync --full`",
        [
            Figure("walks", len(done)),
            Figure("  pages", sum(each.pages for each in done)),
            Figure("  attempts", sum(each.attempts for each in done)),
            Figure("  whole at the first attempt", sum(each.attempts == 1 and not each.is_torn for each in done)),
            Figure(
                "  of months of different loads", sum(len(frozenset().union(*each.descriptions)) > 1 for each in done)
            ),
            Figure("  torn", torn, "0", torn == 0),
            Figure("syncs meanwhile, and processes of each", f"{syncs.commands - 1}, {syncs.processes}"),
        ],
    )
