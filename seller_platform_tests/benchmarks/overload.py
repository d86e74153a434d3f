"""Measures the service under more requests than it can answer, of one user and of clients without a token.

`python -m seller_platform_tests.benchmarks.overload [--seconds 60] [--rounds 5] [--times 4] [--per-network 600]` prints
a table.

Ten connections without a token request pages, documents, unknown paths and tokens without a pause. Then one user
requests statistics and lists of an account with 2,000 products. First in a closed loop, with three clients: this gives
the capacity. Then in an open loop, at a multiple of that rate. Another user requests `/user/me` all the time, first
without other requests. Each part runs in processes of its own, with raw sockets, so that the clients need little of the
processor.

Times are measured at the client. In the open loop they begin when a request is due, even if it is sent later. The
figures are medians of the rounds.

The clients are late too on a busy machine. The table says how late they sent, and how much of the processors they used.
"""

import argparse
import asyncio
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.pool import AsyncResult, Pool
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from rich.console import Console
from rich.table import Table

from seller_platform.contract.datasets.sales import SALES_BY_DATE
from seller_platform.contract.wire import DOCS, OPENAPI, TOKEN, USER_ME
from seller_platform.sandbox import load_sandbox
from seller_platform.service.http.bodies import FORM
from seller_platform.service.limits.lanes import WAIT_SECONDS
from seller_platform.service.limits.policy import DEFAULT_PER_NETWORK
from seller_platform.service.oauth.temporary_access import temporary_access
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.benchmarks.serving import (
    OTHER_CURRENCY,
    STATISTICS_TODAY,
    month_before,
    seconds_computed,
    service,
)

PROBES_PER_SECOND = 20
STATISTICS_CLIENTS, LIST_CLIENTS = 1, 2
ANONYMOUS = (DOCS, OPENAPI, "/static/style.css", "/login", "/nothing", USER_ME, TOKEN, DOCS, "/login", "/nothing")
PROMPT_SECONDS = 0.1
IDLE_SECONDS = 3  # the service closes a connection that is idle for 5
MONTHS, ORDERS_PER_MONTH = 3, 20_000


@dataclass(frozen=True)
class Target:
    """What one kind of requests asks, as the bytes that are sent."""

    name: str
    host: str
    port: int
    message: bytes


@dataclass(frozen=True)
class Targets:
    """What is requested in a round.

    Attributes:
        me: What another user requests.
        anonymous: What is requested without a token, over a connection each.
        loads: What one user requests, of each kind over a connection each.
    """

    me: Target
    anonymous: Sequence[Target]
    loads: Sequence[Sequence[Target]]


@dataclass(frozen=True)
class Outcome:
    """The seconds of each answer, by whether it was admitted."""

    name: str
    seconds: float
    admitted: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    late: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """The admitted requests in a second."""
        return len(self.admitted) / self.seconds


class Exchange:
    """Sends one request after another over a connection that stays open, unless it was idle for long."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used = 0.0

    async def ask(self) -> int:
        """Send the request, read the whole answer and return its status; 0 where the service ends the connection."""
        try:
            return await self._ask()
        except (ConnectionError, asyncio.IncompleteReadError):
            self._streams = None
            return 0

    async def _ask(self) -> int:
        if time.perf_counter() - self._used > IDLE_SECONDS:
            self.close()
            self._streams = None
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._target.host, self._target.port, limit=1 << 22)
        reader, writer = self._streams
        writer.write(self._target.message)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
        await reader.readexactly(length)
        self._used = time.perf_counter()
        return int(head.split(b" ", 2)[1])

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()


def closed_loop(targets: Sequence[Target], seconds: float) -> Outcome:
    """Request each target without a pause, over a connection of its own."""
    outcome = Outcome(targets[0].name, seconds)

    async def client(target: Target) -> None:
        exchange, end = Exchange(target), time.perf_counter() + seconds
        while time.perf_counter() < end:
            await _ask(exchange, outcome, time.perf_counter())
        exchange.close()

    async def run() -> None:
        await asyncio.gather(*map(client, targets))

    asyncio.run(run())
    return outcome


def open_loop(target: Target, per_second: float, seconds: float) -> Outcome:
    """Request at a rate, however long the answers take."""
    outcome, idle = Outcome(target.name, seconds), list[Exchange]()

    async def one(due: float) -> None:
        exchange = idle.pop() if idle else Exchange(target)
        await _ask(exchange, outcome, due)
        idle.append(exchange)

    async def run() -> None:
        began, tasks = time.perf_counter(), []
        for number in range(int(per_second * seconds)):
            due = began + number / per_second
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            outcome.late.append(time.perf_counter() - due)
            tasks.append(asyncio.create_task(one(due)))
        await asyncio.gather(*tasks)
        for exchange in idle:
            exchange.close()

    computed = time.process_time()
    asyncio.run(run())
    outcome.processor_seconds.append(time.process_time() - computed)
    return outcome


async def _ask(exchange: Exchange, outcome: Outcome, due: float) -> None:
    status = await exchange.ask()
    taken = time.perf_counter() - due
    outcome.statuses[status] = outcome.statuses.get(status, 0) + 1
    (outcome.admitted if status == 200 else outcome.refused).append(taken)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile of values in milliseconds."""
    ordered = sorted(values)
    return 1_000 * ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else float("nan")


class Figures:
    """The figures of each round, by name."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def note(self, name: str, value: float) -> None:
        """Add the figure of a round."""
        self._values.setdefault(name, []).append(value)

    def note_outcome(self, part: str, outcome: Outcome) -> None:
        """Add what a loop measured."""
        self.note(f"{part}: {outcome.name}, answered in a second", outcome.per_second)
        self.note(f"{part}: {outcome.name}, median ms", percentile(outcome.admitted, 50))
        self.note(f"{part}: {outcome.name}, p99 ms", percentile(outcome.admitted, 99))
        if outcome.late:
            self.note(f"{part}: {outcome.name}, sent late by the client, p99 ms", percentile(outcome.late, 99))
            busy = 100 * sum(outcome.processor_seconds) / outcome.seconds
            self.note(f"{part}: {outcome.name}, processor time of the client, percent of a core", busy)
        if outcome.refused:
            prompt = sum(taken <= PROMPT_SECONDS for taken in outcome.refused) / len(outcome.refused)
            self.note(f"{part}: {outcome.name}, refused in a second", len(outcome.refused) / outcome.seconds)
            self.note(f"{part}: {outcome.name}, refused, median ms", percentile(outcome.refused, 50))
            self.note(f"{part}: {outcome.name}, refused, p99 ms", percentile(outcome.refused, 99))
            self.note(f"{part}: {outcome.name}, refused, largest ms", 1_000 * max(outcome.refused))
            self.note(f"{part}: {outcome.name}, refused within 100 ms, percent", 100 * prompt)

    def lines(self) -> Sequence[tuple[str, str, str]]:
        """Return a line for each figure: its median, and the rounds."""
        return [
            (name, f"{statistics.median(values):.1f}", " ".join(f"{value:.1f}" for value in values))
            for name, values in self._values.items()
        ]


def run_round(
    pool: Pool,
    pid: int,
    targets: Targets,
    options: argparse.Namespace,
) -> Figures:
    """Measure one round: alone, beside clients without a token, the closed loop, the open loop."""
    figures, me = Figures(), targets.me

    def probe(part: str, seconds: float) -> "AsyncResult[Outcome]":
        return pool.apply_async(open_loop, (Target(part, me.host, me.port, me.message), PROBES_PER_SECOND, seconds))

    alone = probe("/user/me of another user", options.closed_seconds).get()
    figures.note_outcome("idle", alone)
    beside = probe("/user/me of another user", options.closed_seconds)
    crowd = pool.apply_async(closed_loop, (targets.anonymous, options.closed_seconds)).get()
    beside_crowd = beside.get()
    for outcome in (crowd, beside_crowd):
        figures.note_outcome("without a token", outcome)
    beside = probe("/user/me of another user", options.closed_seconds)
    loops = [pool.apply_async(closed_loop, (load, options.closed_seconds)) for load in targets.loads]
    closed = [loop.get() for loop in loops]
    for outcome in (*closed, beside.get()):
        figures.note_outcome("closed loop", outcome)
    beside = probe("/user/me of another user", options.seconds)
    part = f"open loop x {options.times:g}"
    loops = [
        pool.apply_async(open_loop, (target, options.times * outcome.per_second, options.seconds))
        for (target, *_), outcome in zip(targets.loads, closed, strict=True)
    ]
    computed = seconds_computed([pid])
    opened = [loop.get() for loop in loops]
    under_load = beside.get()
    computed = seconds_computed([pid]) - computed
    for outcome in (*opened, under_load):
        figures.note_outcome(part, outcome)
    for before, after in zip(closed, opened, strict=True):
        ratio = percentile(after.admitted, 99) / percentile(before.admitted, 99)
        figures.note(f"p99 of {before.name}, open against closed (goal: 2)", ratio)
    for circumstance, outcome in ((part, under_load), ("beside clients without a token", beside_crowd)):
        ratio = percentile(outcome.admitted, 99) / percentile(alone.admitted, 99)
        figures.note(f"p99 of /user/me, {circumstance} against idle (goal: 3)", ratio)
    figures.note("/user/me refused", sum(map(len, (alone.refused, beside_crowd.refused, under_load.refused))))
    figures.note("open loop: processor time of the service, percent of a core", 100 * computed / options.seconds)
    figures.note("load average of the machine", os.getloadavg()[0])
    return figures


def target_of(name: str, base_url: str, token: str | None, path: str, **query: object) -> Target:
    """Return a kind of requests."""
    address = urlsplit(base_url)
    head = f"{path}?{urlencode(query)} HTTP/1.1\r\nHost: {address.netloc}\r\n"
    if token is not None:
        head += f"Authorization: Bearer {token}\r\n\r\n"
    elif path == TOKEN:
        form = "grant_type=refresh_token&client_id=unknown&refresh_token=unknown"
        head += f"Content-Type: {FORM}\r\nContent-Length: {len(form)}\r\n\r\n{form}"
    else:
        head += "Accept: text/html\r\nAccept-Encoding: gzip\r\n\r\n"
    method = "POST" if path == TOKEN else "GET"
    return Target(name, address.hostname or "", address.port or 0, f"{method} {head}".encode())


def main() -> None:
    """Fill a database, serve it, and print the figures of some rounds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long the open loop lasts")
    parser.add_argument("--closed-seconds", type=float, default=20, help="how long the other parts last")
    parser.add_argument("--times", type=float, default=4, help="the rate of the open loop, as a multiple of capacity")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--per-network", type=int, default=DEFAULT_PER_NETWORK, help="requests a minute without a token; 0 for any"
    )
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    every = Figures()
    # The service listens on the loopback, where requests would wait for seconds and have no rates.
    os.environ["SELLER_PLATFORM_SERVICE_WAIT_MILLISECONDS"] = str(int(1_000 * WAIT_SECONDS))
    os.environ["SELLER_PLATFORM_SERVICE_REQUESTS_PER_NETWORK"] = str(options.per_network)
    with tempfile.TemporaryDirectory(prefix="seller-overload-", ignore_cleanup_errors=True) as path:
        folder = Path(path)
        server = EmbeddedServer(folder / "postgres")
        url = server.database("overload")
        with Database(url) as database:
            database.migrate()
            loaded = load_sandbox(
                database, accounts=1, months=MONTHS, orders_per_month=ORDERS_PER_MONTH, today=STATISTICS_TODAY
            )
            account = loaded.accounts[0]
            days = {"start_date": month_before(STATISTICS_TODAY, 1), "end_date": STATISTICS_TODAY}
            with (
                temporary_access(database, [account.key]) as token,
                temporary_access(database, [account.key]) as other_token,
                service(url, folder, "--workers", str(options.workers), has_one_core=False) as (base_url, pid),
                multiprocessing.get_context("spawn").Pool(3, os.setsid) as pool,
            ):
                own = {"account_title": account.title, **days}
                views = {"view_by": "product", "group_by": "sku", "currency": OTHER_CURRENCY}
                statistics_target = target_of("statistics", base_url, token, SALES_BY_DATE.path, **own, **views)
                lists = target_of("lists", base_url, token, "/sales/orders", **own, per_page=500, page=3)
                me = target_of("me", base_url, other_token, USER_ME)
                anonymous = [target_of("ten connections", base_url, None, path) for path in ANONYMOUS]
                for target in (statistics_target, lists, me):
                    assert closed_loop([target], 0.5).statuses.keys() == {200}, target.name
                for target in anonymous:
                    asyncio.run(Exchange(target).ask())
                loads = ([statistics_target] * STATISTICS_CLIENTS, [lists] * LIST_CLIENTS)
                targets = Targets(me, anonymous, loads)
                for number in range(options.rounds):
                    for line, value, _ in run_round(pool, pid, targets, options).lines():
                        every.note(line, float(value))
                    print(f"round {number + 1} of {options.rounds}", flush=True)
        server.close()
    table = Table("measured", "median", "rounds", title=f"{options.workers} worker(s), {options.seconds:g} s")
    for name, median, rounds in every.lines():
        table.add_row(name, median, rounds)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
