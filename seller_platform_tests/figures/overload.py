"""Measures the service under more requests than it can answer, of one user and of clients without a token.

Ten connections without a token request pages, documents, unknown paths and tokens without a pause. Then one user
requests statistics and lists of an account with 2,000 products. First in a closed loop, with three clients: this gives
the capacity. Then in an open loop, at a multiple of that rate. Another user requests `/user/me` all the time, first
without other requests. Each part runs in processes of its own, with raw sockets, so that the clients need little of the
processor.

Times are milliseconds at the client. In the open loop they begin when a request is due, even if it is sent later; on a
busy machine the clients are late, too.
"""

import asyncio
import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from multiprocessing.pool import Pool
from typing import Any
from urllib.parse import urlencode, urlsplit

from seller_platform.contract.datasets.sales import SALES_BY_DATE
from seller_platform.contract.wire import DOCS, OPENAPI, TOKEN, USER_ME
from seller_platform.sandbox import load_sandbox
from seller_platform.service.http.bodies import FORM
from seller_platform.service.limits.lanes import WAIT_SECONDS
from seller_platform.service.limits.policy import DEFAULT_PER_NETWORK
from seller_platform.service.oauth.temporary_access import temporary_access
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.figures.measuring import percentile, processor_seconds, service
from seller_platform_tests.figures.results import Samples
from seller_platform_tests.support.installation import temporary_server

PROBES_PER_SECOND = 20
STATISTICS_CLIENTS, LIST_CLIENTS = 1, 2
ANONYMOUS = (DOCS, OPENAPI, "/static/style.css", "/login", "/nothing", USER_ME, TOKEN, DOCS, "/login", "/nothing")
IDLE_SECONDS = 3  # the service closes a connection that is idle for 5
TODAY, SINCE, MONTHS = date(2026, 7, 1), date(2026, 6, 1), 3


@dataclass(frozen=True)
class Target:
    """What one kind of requests asks, as the bytes that are sent."""

    name: str
    host: str
    port: int
    message: bytes


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


@dataclass(frozen=True)
class Outcome:
    """The milliseconds of each answer, by whether it was admitted."""

    name: str
    seconds: float
    admitted: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)

    async def add(self, exchange: Exchange, due: float) -> None:
        """Send a request that was due at a moment, and note the answer."""
        status = await exchange.ask()
        (self.admitted if status == 200 else self.refused).append(1_000 * (time.perf_counter() - due))

    @property
    def per_second(self) -> float:
        """The admitted requests in a second."""
        return len(self.admitted) / self.seconds


def closed_loop(targets: Sequence[Target], seconds: float) -> Outcome:
    """Request each target without a pause, over a connection of its own."""
    outcome = Outcome(targets[0].name, seconds)

    async def client(target: Target) -> None:
        exchange, end = Exchange(target), time.perf_counter() + seconds
        while time.perf_counter() < end:
            await outcome.add(exchange, time.perf_counter())
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
        await outcome.add(exchange, due)
        idle.append(exchange)

    async def run() -> None:
        began, tasks = time.perf_counter(), []
        for number in range(int(per_second * seconds)):
            due = began + number / per_second
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(one(due)))
        await asyncio.gather(*tasks)
        for exchange in idle:
            exchange.close()

    asyncio.run(run())
    return outcome


@dataclass(frozen=True)
class Round:
    """One round: alone, beside clients without a token, the closed loop, the open loop.

    Attributes:
        me: What another user requests.
        anonymous: What is requested without a token, over a connection each.
        loads: What one user requests, of each kind over a connection each.
    """

    me: Target
    anonymous: Sequence[Target]
    loads: Sequence[Sequence[Target]]
    pool: Pool
    pid: int
    samples: Samples

    def run(self, seconds: float, times: float) -> None:
        """Measure each part for so long, the open loop at a multiple of the capacity."""
        (alone,) = self._part("idle", [], seconds)
        *_, beside = self._part("without a token", [(closed_loop, self.anonymous, seconds)], seconds)
        *closed, _ = self._part("closed loop", [(closed_loop, load, seconds) for load in self.loads], seconds)
        rates = [times * outcome.per_second for outcome in closed]
        loops = [(open_loop, load[0], rate, seconds) for load, rate in zip(self.loads, rates, strict=True)]
        before = processor_seconds(self.pid)
        *opened, under_load = self._part(f"open loop x {times:g}", loops, seconds)
        self.samples.add(
            "open loop: cores that the service used", value=(processor_seconds(self.pid) - before) / seconds
        )
        for one, other in zip(closed, opened, strict=True):
            self._ratio(f"p99 of {one.name}, open against closed (goal: 2)", other, one)
        self._ratio("p99 of /user/me, open loop against idle (goal: 3)", under_load, alone)
        self._ratio("p99 of /user/me, beside clients without a token against idle (goal: 3)", beside, alone)
        refused = len(alone.refused) + len(beside.refused) + len(under_load.refused)
        self.samples.add("/user/me refused", value=refused)

    def _part(self, part: str, loops: Sequence[tuple[Any, ...]], seconds: float) -> list[Outcome]:
        """Run loops, and that of the other user beside them; return their outcomes, the last one of the other user."""
        loops = [*loops, (open_loop, self.me, PROBES_PER_SECOND, seconds)]
        begun = [self.pool.apply_async(loop, arguments) for loop, *arguments in loops]
        outcomes = [loop.get() for loop in begun]
        for outcome in outcomes:
            self.samples.add(
                f"{part}: {outcome.name}",
                admitted_per_second=outcome.per_second,
                median=percentile(outcome.admitted, 50),
                p99=percentile(outcome.admitted, 99),
                refused_per_second=len(outcome.refused) / outcome.seconds,
            )
            if outcome.refused:
                self.samples.add(f"{part}: {outcome.name}", refused_p99=percentile(outcome.refused, 99))
        return outcomes

    def _ratio(self, name: str, one: Outcome, other: Outcome) -> None:
        self.samples.add(name, value=percentile(one.admitted, 99) / percentile(other.admitted, 99))


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


def measure(
    *,
    seconds: float = 30.0,
    rounds: int = 5,
    times: float = 4.0,
    per_network: int = DEFAULT_PER_NETWORK,
    orders_per_month: int = 20_000,
) -> Samples:
    """Options: seconds of each part, rounds, the rate of the open loop as a multiple of capacity, requests a minute
    without a token (0 for any), and orders of a month.
    """
    samples = Samples("The service under too many requests")
    limits = {
        # The service listens on the loopback, where requests would wait for seconds and have no rates.
        "SELLER_PLATFORM_SERVICE_WAIT_MILLISECONDS": str(int(1_000 * WAIT_SECONDS)),
        "SELLER_PLATFORM_SERVICE_REQUESTS_PER_NETWORK": str(per_network),
    }
    with temporary_server() as (server, folder), Database(server.database("overload")) as database:
        database.migrate()
        loaded = load_sandbox(database, accounts=1, months=MONTHS, orders_per_month=orders_per_month, today=TODAY)
        account = loaded.accounts[0]
        with (
            temporary_access(database, [account.key]) as token,
            temporary_access(database, [account.key]) as other_token,
            service(database.url, folder, **limits) as (base_url, pid),
            multiprocessing.get_context("spawn").Pool(3, os.setsid) as pool,
        ):
            own = {"account_title": account.title, "start_date": SINCE, "end_date": TODAY}
            views = {"view_by": "product", "group_by": "sku", "currency": "EUR"}
            statistics = target_of("statistics", base_url, token, SALES_BY_DATE.path, **own, **views)
            lists = target_of("lists", base_url, token, "/sales/orders", **own, per_page=500, page=3)
            me = target_of("/user/me of another user", base_url, other_token, USER_ME)
            anonymous = [target_of("ten connections", base_url, None, path) for path in ANONYMOUS]
            for target in (statistics, lists, me):
                assert not closed_loop([target], 0.5).refused, target.name
            loads = ([statistics] * STATISTICS_CLIENTS, [lists] * LIST_CLIENTS)
            for _ in range(rounds):
                Round(me, anonymous, loads, pool, pid, samples).run(seconds, times)
    return samples
