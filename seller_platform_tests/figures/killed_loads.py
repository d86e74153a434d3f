"""Kills loading processes and stops PostgreSQL while two readers check every slice.

A process loads slices in a loop from an upstream whose rows change with every answer. It is killed at random moments
and at each failpoint of a load. The server is stopped immediately, as by a power cut. Meanwhile two readers read all
slices in single statements: each slice must be one complete version with its own receipt.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import Account, Window, dataset_named
from seller_platform.errors import SellerPlatformError
from seller_platform.ingest.loads.slices import load_slice
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support.http_server import Handler, serving
from seller_platform_tests.support.installation import begin, temporary_server

LEDGER = dataset_named("transactions")
MONTHS = tuple(Window.month_of(date(2099, month, 1)) for month in range(1, 5))
SELLER = KnownAccount("S1.US", "default", Account(1, "Seller", "US", "USD", "UTC", "US", "S1"))
FAILPOINTS = ("deleted", "copied", "receipted", "committed")
READERS = 2
_LONGEST_LIFE_SECONDS = 0.4
_LOOK = """
    SELECT month, stored.rows, versions, version, loads, load_id, receipts.rows, receipts.id
    FROM (
        SELECT date_trunc('month', local_day)::date AS month, count(*) AS rows, count(DISTINCT quantity) AS versions,
               min(quantity) AS version, count(DISTINCT load_id) AS loads, min(load_id) AS load_id
        FROM seller.transactions GROUP BY 1
    ) AS stored
    FULL JOIN (
        SELECT DISTINCT ON (window_start) window_start AS month, rows, id
        FROM platform.loads ORDER BY window_start, id DESC
    ) AS receipts USING (month)
"""


def rows_of(version: int) -> int:
    """Return the number of rows of a version; successive versions have different numbers."""
    return 1_000 + version % 151


@contextmanager
def changing_upstream() -> Iterator[str]:
    """Serve transactions with a new version in every answer, and yield the base URL."""
    versions = count(1)

    class Answering(Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            version = next(versions)
            rows = ",".join(
                f'{{"posted_date":"{query["start_date"]}T12:00:00","transaction_type":"Order","order_id":"{number}",'
                f'"sku":"SKU","description":null,"quantity":{version},"amount":{version}.10,"currency":"USD",'
                '"marketplace_name":"market.example"}'
                for number in range(rows_of(version))
            )
            numbers = f'"total":{rows_of(version)},"per_page":2000,"current_page":1,"last_page":1'
            self.answer(200, f'{{"data":[{rows}],{numbers}}}'.encode(), {"Content-Type": "application/json"})

    with serving(Answering) as url:
        yield url


def load_without_end(pipe: Connection, url: str, base_url: str, seed: int) -> None:
    """Load one slice after the other, even while the warehouse is unavailable."""
    rng = random.Random(seed)
    with Database(url) as database, SellerApi(base_url) as api:
        pipe.send(True)
        while True:
            try:
                load_slice(api, database, SELLER, LEDGER, rng.choice(MONTHS), run_id=None)
            except SellerPlatformError:
                time.sleep(0.02)


@dataclass
class Reader:
    """Reads all slices in a loop.

    Attributes:
        looks: How often it read them.
        outages: How often the server was unavailable.
        problems: Mixed, partial and older slices.
        versions: The newest version seen of each slice.
    """

    url: str
    looks: int = 0
    outages: int = 0
    problems: list[str] = field(default_factory=list)
    versions: dict[date, int] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    def look_without_end(self) -> None:
        while not self.ended.is_set():
            try:
                with psycopg.connect(self.url) as connection:
                    while not self.ended.is_set():
                        self._look(connection)
                        connection.commit()
            except psycopg.OperationalError:
                self.outages += 1
                self.ended.wait(0.02)

    def _look(self, connection: psycopg.Connection[Any]) -> None:
        slices = connection.execute(_LOOK).fetchall()
        self.looks += 1
        if len(slices) != len(MONTHS):
            self.problems.append(f"{len(slices)} slices instead of {len(MONTHS)}")
        for month, rows, versions, version, loads, load_id, receipt_rows, receipt in slices:
            if (versions, loads, rows) != (1, 1, rows_of(version or 0)):
                self.problems.append(f"{month}: {rows} rows of {versions} versions and {loads} loads")
            elif (receipt_rows, receipt) != (rows, load_id):
                self.problems.append(f"{month}: {rows} rows of load {load_id}, receipt {receipt} of {receipt_rows}")
            elif version < self.versions.get(month, 0):
                self.problems.append(f"{month}: version {version} after {self.versions[month]}")
            else:
                self.versions[month] = version


@contextmanager
def readers(url: str, base_url: str) -> Iterator[list[Reader]]:
    """Store every slice once, and let two readers read them until the block ends."""
    with Database(url) as database, SellerApi(base_url) as api:
        for month in MONTHS:
            load_slice(api, database, SELLER, LEDGER, month, run_id=None)
    looking = [Reader(url) for _ in range(READERS)]
    threads = [threading.Thread(target=reader.look_without_end, daemon=True) for reader in looking]
    for thread in threads:
        thread.start()
    try:
        yield looking
    finally:
        for reader in looking:
            reader.ended.set()
        for thread in threads:
            thread.join()


def kill_loaders(url: str, *, kills: int, failpoint_kills: int, seed: int = 7) -> list[Figure]:
    """Kill loaders at random moments and at each failpoint, beside two readers."""
    rng = random.Random(seed)
    died = 0
    with changing_upstream() as base_url, readers(url, base_url) as looking:
        before = _loads(url)
        for number in range(kills):
            loader, pipe = begin(load_without_end, url, base_url, number)
            pipe.recv()
            time.sleep(rng.uniform(0, _LONGEST_LIFE_SECONDS))
            loader.kill()
            loader.join()
            pipe.close()
            died += loader.exitcode == -signal.SIGKILL
        loads = _loads(url) - before
        died_at = 0
        for failpoint in FAILPOINTS:
            for number in range(failpoint_kills):
                loader, pipe = begin(load_without_end, url, base_url, number, failpoint=f"slice.{failpoint}")
                loader.join()
                pipe.close()
                died_at += loader.exitcode == -signal.SIGKILL
        _stored_anew(url, base_url)
    return [
        Figure("loaders killed at any moment", died, f"{kills:,}", died == kills),
        Figure("  loads that they completed", loads),
        Figure(f"loaders killed when {', '.join(FAILPOINTS)}", died_at, f"{4 * failpoint_kills:,}",
               died_at == 4 * failpoint_kills),
        *_seen(looking),
    ]  # fmt: skip


def stop_the_server(server: EmbeddedServer, url: str, *, stops: int, seed: int = 7) -> list[Figure]:
    """Stop PostgreSQL immediately beside loaders and readers, and start it again each time."""
    rng, stopped = random.Random(seed), 0
    with changing_upstream() as base_url, readers(url, base_url) as looking, ExitStack() as loaders:
        for number in range(2):
            loader, pipe = begin(load_without_end, url, base_url, number)
            loaders.callback(loader.join)
            loaders.callback(loader.kill)
            pipe.recv()
        before = loads = _loads(url)
        for _ in range(stops):
            time.sleep(rng.uniform(0, 0.4))
            _stop_immediately(server.folder)
            stopped += server.revive()
            loads = _next_load(url, loads)
        loads -= before
        loaders.close()
        _stored_anew(url, base_url)
    return [
        Figure("immediate stops of PostgreSQL", stopped, str(stops), stopped == stops),
        Figure("  loads completed, some after each of them", loads, "yes", loads >= stops),
        *_seen(looking),
    ]


def _stop_immediately(folder: Path) -> None:
    """Stop a server as `pg_ctl stop -m immediate` does, and wait for its end."""
    postmaster = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGQUIT)
    with suppress(ProcessLookupError):
        while "State:\tZ" not in _status(postmaster):
            time.sleep(0.02)


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessLookupError(pid) from None


def _seen(looking: list[Reader]) -> list[Figure]:
    problems = [problem for each in looking for problem in each.problems]
    return [
        Figure("  looks of two readers, at every slice each", sum(each.looks for each in looking)),
        Figure("  slices seen that were mixed, partial or older", len(problems), "0", not problems),
        *(Figure("    such as", problem, "nothing", is_kept=False) for problem in problems[:3]),
    ]


def _loads(url: str) -> int:
    with psycopg.connect(url) as connection:
        (number,) = connection.execute("SELECT count(*) FROM platform.loads").fetchone() or (0,)
    return int(number)


def _next_load(url: str, loads: int) -> int:
    """Wait until the loaders store another load, and return the number of loads."""
    deadline = time.monotonic() + 60
    while (current := _loads(url)) == loads:
        assert time.monotonic() < deadline, "the loaders have stopped"
        time.sleep(0.05)
    return current


def _stored_anew(url: str, base_url: str) -> None:
    """Load every slice once more; no killed process may hold its lock."""
    with Database(url) as database, SellerApi(base_url) as api:
        for month in MONTHS:
            receipt = load_slice(api, database, SELLER, LEDGER, month, run_id=None)
            assert receipt.verdict == "match", receipt


def measure(*, kills: int = 1_000, stops: int = 50) -> Promises:
    """Options: kills at random moments, a twentieth as many at each failpoint, and stops of PostgreSQL."""
    with temporary_server() as (server, _):
        url = server.database("loads")
        with Database(url) as database:
            database.migrate()
        figures = [
            *kill_loaders(url, kills=kills, failpoint_kills=max(1, kills // 20)),
            *stop_the_server(server, url, stops=stops),
        ]
    return Promises("Killed loads", figures)
