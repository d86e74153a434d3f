"""Limits of requests in a minute and at once: the numbers, and the admission of each request.

The rate of the requests is counted, and they work when it is their turn.

Turns are of five kinds, and none waits for another: the look-up of unknown tokens, what else is quick (new tokens,
users, states of reports), pages, passwords, and the work of lists, costs, reports and statistics. The turns of requests
with a token go by user, those of others by network; a proxy in front limits how many a network may send, and sends
complete requests only (docker/nginx.conf).

A token is looked up once. Later its requests are counted by the user in memory, before any work is done for them.
Whether the token is still valid is decided by each endpoint, not here. A refusal is sent after a second, so that
clients which request without a pause take little of the event loop.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from math import ceil

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.counts import count_of
from seller_platform.service.access import authenticate, bearer_token, hash_of
from seller_platform.service.errors import NotAdmittedError, UnauthorizedError
from seller_platform.service.http.addresses import is_loopback, network_of_client
from seller_platform.service.openapi import Cost, Route
from seller_platform.service.pool import Store
from seller_platform.service.settings import ServiceSettings

Endpoint = Callable[[Request], Awaitable[Response]]
_Key = tuple[bytes, str | None]  # the hash of a token, and the resource that it is for

_WINDOW_SECONDS = 60
RETRY_SECONDS = 1
WAIT_SECONDS = 10.0
MOST_WAITING = 20

DEFAULT_PER_TOKEN, DEFAULT_PER_USER = 1_200, 2_400

_FEWEST_AT_ONCE, _MOST_PROCESSORS = 2, 16
_SPARE_CONNECTIONS = 4


@dataclass(frozen=True)
class Limits:
    """The limits of a process.

    Attributes:
        quick_at_once: How many quick requests are answered at once.
        look_ups_at_once: How many unknown tokens are looked up at once.
        pages_at_once: How many pages.
        passwords_at_once: How many passwords are hashed or verified; each takes four threads and 64 MiB for a moment.
        work_at_once: How many lists, costs, reports and statistics.
        per_token: The requests of one token in a minute; 0 is no limit.
        per_user: The requests of one user in a minute, with all tokens; 0 is no limit.
        open_reports: How many reports of one user may wait or be written at once.
        report_bytes: How many bytes the stored reports of one user may take.
        report_days: For how many days after its request a report can be downloaded.
        periods_of_product: How many cost periods one product of an account may have.
        periods_of_account: How many all products of an account may have.
    """

    quick_at_once: int = 8
    look_ups_at_once: int = 2
    pages_at_once: int = 4
    passwords_at_once: int = 1
    work_at_once: int = 4
    per_token: int = 0
    per_user: int = 0
    open_reports: int = 20
    report_bytes: int = 1 << 30
    report_days: int = 7
    periods_of_product: int = 10_000
    periods_of_account: int = 200_000

    @property
    def connections(self) -> int:
        """The connections to PostgreSQL that admitted requests need, with some for downloads."""
        of_tokens = self.quick_at_once + self.look_ups_at_once
        return of_tokens + self.pages_at_once + self.passwords_at_once + self.work_at_once + _SPARE_CONNECTIONS


STANDARD = Limits()
"""The limits without settings, and without rates."""


def limits_of(settings: ServiceSettings, *, host: str = "127.0.0.1", processes: int = 1) -> Limits:
    """Return the limits of each process of a service that listens on a host.

    Without a setting, a service that only its own machine can reach has no limits in a minute. Lists and statistics at
    once are as many as processors, of which PostgreSQL needs one for each.
    """
    is_sandbox = is_loopback(host) and settings.service_public_url is None

    def part(number: int, fewest: int = _FEWEST_AT_ONCE) -> int:
        return max(fewest, -(-number // processes))

    def rate(setting: int | None, default: int) -> int:
        return part(setting if setting is not None else 0 if is_sandbox else default, 0)

    return Limits(
        quick_at_once=part(STANDARD.quick_at_once),
        pages_at_once=part(STANDARD.pages_at_once),
        work_at_once=part(settings.service_lists_at_once or min(len(os.sched_getaffinity(0)), _MOST_PROCESSORS)),
        per_token=rate(settings.service_requests_per_token, DEFAULT_PER_TOKEN),
        per_user=rate(settings.service_requests_per_user, DEFAULT_PER_USER),
        open_reports=settings.service_open_reports,
        report_bytes=settings.service_report_bytes,
        report_days=settings.service_report_days,
        periods_of_product=settings.service_cost_periods_per_product,
        periods_of_account=settings.service_cost_periods_per_account,
    )


class _Rates:
    """Counts the requests of a token and of a user in a minute, in one process, which allows its part."""

    def __init__(self, limits: Limits) -> None:
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        quotas = (("token", limits.per_token), ("user", limits.per_user))
        self._quotas = [RateLimitItemPerMinute(quota, namespace=name) for name, quota in quotas if quota]

    def count(self, token_hash: bytes, user: int) -> None:
        """Count a request by its token and its user.

        Raises:
            NotAdmittedError: A quota is used up.
        """
        for quota in self._quotas:
            counted = token_hash.hex() if quota.namespace == "token" else str(user)
            if not self._limiter.hit(quota, counted):
                window = self._limiter.get_window_stats(quota, counted)
                seconds = max(1, ceil(window.reset_time - time.time()))
                problem = f"this {quota.namespace} has used its {count_of(quota.amount, 'request')}"
                message = f"{problem} in {_WINDOW_SECONDS} seconds; try again in {seconds} s"
                raise NotAdmittedError(message, retry_after_seconds=seconds)


class Admission:
    """Admits requests with a token by their cost and their user, and others by their network."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Prepare the turns and the counts."""
        self._store, self._rates = store, _Rates(limits)
        self._turns = {
            Cost.QUICK: Turns("requests", limits.quick_at_once),
            Cost.PAGE: Turns("pages", limits.pages_at_once),
            Cost.PASSWORD: Turns("logins", limits.passwords_at_once, most_waiting=3),
            Cost.WORK: Turns("requests of lists, costs, reports and statistics", limits.work_at_once),
        }
        self._look_ups = Turns("requests with unknown tokens", limits.look_ups_at_once)
        self._users: dict[_Key, int] = {}

    def admitting(self, route: Route) -> Endpoint:
        """Return the endpoint of a route that answers only admitted requests."""
        if route.operation.scope is None:
            return self.admitting_anyone(route.answer, route.cost)

        async def answer(request: Request) -> Response:
            key = (hash_of(bearer_token(request.headers)), route.resource)
            async with _refusing_late():
                user = self._users.get(key)
                if user is None:
                    async with self._look_ups.turn(network_of_client(request)), self._store.connection() as connection:
                        user = (await authenticate(connection, request, resource=key[1])).id
                    while len(self._users) >= 10_000:
                        del self._users[next(iter(self._users))]
                    self._users[key] = user
                self._rates.count(key[0], user)
                try:
                    async with self._turns[route.cost].turn(user):
                        response: Response = await route.answer(request)
                        return response
                except UnauthorizedError:
                    # Its further requests must not use up the quota of the user.
                    self._users.pop(key, None)
                    raise

        return answer

    def admitting_anyone(self, endpoint: Endpoint, cost: Cost = Cost.PAGE) -> Endpoint:
        """Return an endpoint without a token that answers only admitted requests."""

        async def answer(request: Request) -> Response:
            async with self.turn_of_network(request, cost):
                return await endpoint(request)

        return answer

    @asynccontextmanager
    async def turn_of_network(self, request: Request, cost: Cost = Cost.PAGE) -> AsyncIterator[None]:
        """Wait for a turn of the network of a request, which lasts until the block ends."""
        async with _refusing_late(), self._turns[cost].turn(network_of_client(request)):
            yield


@asynccontextmanager
async def _refusing_late() -> AsyncIterator[None]:
    """Let a client wait for its refusal; no turn may be held around this block."""
    try:
        yield
    except NotAdmittedError:
        await asyncio.sleep(RETRY_SECONDS)
        raise


class _Share:
    """The requests of one user: how many there are, the turns that they may hold, and the one in line."""

    def __init__(self, turns: int) -> None:
        self.requests, self.turns, self.line = 0, asyncio.Semaphore(turns), asyncio.Lock()


class Turns:
    """The turns of one process for requests of one kind; those that wait get theirs by user.

    One user never holds all turns, so that another can begin at once. Of each user one request at a time stands in
    line, so that the turns go round among users.
    """

    def __init__(
        self, name: str, at_once: int, *, most_waiting: int = MOST_WAITING, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        """Begin with all turns free."""
        self.name, self.share = name, max(1, at_once - max(1, at_once // 4))
        self._free, self._most_waiting, self._wait_seconds = asyncio.Semaphore(at_once), most_waiting, wait_seconds
        self._shares: dict[Hashable, _Share] = {}

    @asynccontextmanager
    async def turn(self, user: Hashable) -> AsyncIterator[None]:
        """Wait for a turn of a user, which lasts until the block ends.

        Raises:
            NotAdmittedError: As many requests of the user wait as may, or the turn did not come in time.
        """
        own = self._shares.setdefault(user, _Share(self.share))
        if own.requests >= self.share + self._most_waiting:
            problem = (
                f"as many {self.name} of yours wait as may, which is {self._most_waiting}; wait for one to end, or"
            )
            raise _refused(problem, 429)
        own.requests += 1
        try:
            async with AsyncExitStack() as held:
                try:
                    async with asyncio.timeout(self._wait_seconds):
                        await held.enter_async_context(own.turns)
                        async with own.line:
                            await held.enter_async_context(self._free)
                except TimeoutError:
                    raise _refused(f"the service has as many {self.name} at work as it can;", 503) from None
                yield
        finally:
            own.requests -= 1
            if not own.requests:
                del self._shares[user]


def _refused(problem: str, status: int) -> NotAdmittedError:
    message = f"{problem} try again in {RETRY_SECONDS} s"
    return NotAdmittedError(message, status=status, retry_after_seconds=RETRY_SECONDS)
