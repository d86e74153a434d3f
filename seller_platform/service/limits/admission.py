"""Admits the requests of each route: their rate is counted, and they work when it is their turn.

Turns are of five kinds, and none waits for another: the look-up of unknown tokens, what else is quick (new tokens,
users, states of reports), pages, passwords, and the work of lists, costs, reports and statistics. The turns of requests
with a token go by user, those of others by network; a proxy in front limits how many a network may send, and sends
complete requests only (docker/nginx.conf).

A token is looked up once. Later its requests are counted by the user in memory, before any work is done for them.
Whether the token is still valid is decided by each endpoint, not here. A refusal is sent after a second, so that
clients which request without a pause take little of the event loop.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from math import ceil

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.counts import count_of
from seller_platform.errors import NotAdmittedError, UnauthorizedError
from seller_platform.service.access import authenticate, bearer_token, hash_of
from seller_platform.service.http.addresses import network_of_client
from seller_platform.service.limits.policy import Limits
from seller_platform.service.metrics import Measures, notes_of
from seller_platform.service.openapi.operations import Cost, Route
from seller_platform.service.pool import Store

Endpoint = Callable[[Request], Awaitable[Response]]
_Key = tuple[bytes, str | None]  # the hash of a token, and the resource that it is for

_MOST_TOKENS = 10_000
_WINDOW_SECONDS = 60
_MOST_WAITING_PASSWORDS = 3
RETRY_SECONDS = 1
WAIT_SECONDS = 10.0
MOST_WAITING = 20


class _Rates:
    """Counts the requests of a token and of a user in a minute, in one process, which allows its part."""

    def __init__(self, limits: Limits) -> None:
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        quotas = (("token", limits.per_token), ("user", limits.per_user))
        self._quotas = [RateLimitItemPerMinute(quota, namespace=name) for name, quota in quotas if quota]
        self._policy = ", ".join(f'"{quota.namespace}";q={quota.amount};w={_WINDOW_SECONDS}' for quota in self._quotas)

    def count(self, request: Request, token_hash: bytes, user: int) -> None:
        """Count a request by its token and its user, and note the headers of its answer, also if it is refused.

        Raises:
            NotAdmittedError: A quota is used up.
        """
        members: list[str] = []
        for quota in self._quotas:
            counted = token_hash.hex() if quota.namespace == "token" else str(user)
            is_allowed = self._limiter.hit(quota, counted)
            window = self._limiter.get_window_stats(quota, counted)
            seconds = max(1, ceil(window.reset_time - time.time()))
            members.append(f'"{quota.namespace}";r={window.remaining};t={seconds}')
            headers = {"RateLimit-Policy": self._policy, "RateLimit": ", ".join(members)}
            notes_of(request.scope).headers.update(headers)
            if not is_allowed:
                problem = f"this {quota.namespace} has used its {count_of(quota.amount, 'request')}"
                message = f"{problem} in {_WINDOW_SECONDS} seconds; try again in {seconds} s"
                raise NotAdmittedError(message, cause="quota", retry_after_seconds=seconds)


class Admission:
    """Admits requests with a token by their cost and their user, and others by their network."""

    def __init__(self, store: Store, limits: Limits, measures: Measures) -> None:
        """Prepare the turns and the counts."""
        self._store, self._measures, self._rates = store, measures, _Rates(limits)
        self._turns = {
            Cost.QUICK: Turns("requests", limits.quick_at_once),
            Cost.PAGE: Turns("pages", limits.pages_at_once),
            Cost.PASSWORD: Turns("logins", limits.passwords_at_once, most_waiting=_MOST_WAITING_PASSWORDS),
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
            async with self._refusing_late(route.cost):
                user = self._users.get(key) or await self._look_up(request, key)
                self._rates.count(request, key[0], user)
                try:
                    async with self._turn(route.cost, user):
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
        """Wait for a turn of the network of a request, which lasts until the block ends.

        Raises:
            NotAdmittedError: The network has too many requests under way.
        """
        async with self._refusing_late(cost), self._turn(cost, network_of_client(request)):
            yield

    @asynccontextmanager
    async def _turn(self, cost: Cost, user: int | str) -> AsyncIterator[None]:
        async with AsyncExitStack() as held:
            with self._measures.queued.track_inprogress():
                await held.enter_async_context(self._turns[cost].turn(user))
            yield

    @asynccontextmanager
    async def _refusing_late(self, cost: Cost) -> AsyncIterator[None]:
        """Count a refusal, and let its client wait for it; no turn may be held around this block."""
        try:
            yield
        except NotAdmittedError as refusal:
            self._measures.shed.labels(refusal.cause, cost.value).inc()
            await asyncio.sleep(RETRY_SECONDS)
            raise

    async def _look_up(self, request: Request, key: _Key) -> int:
        """Return the user of a token, and remember it.

        Raises:
            UnauthorizedError: The token is not valid.
        """
        async with self._look_ups.turn(network_of_client(request)), self._store.connection() as connection:
            user = (await authenticate(connection, request, resource=key[1])).id
        while len(self._users) >= _MOST_TOKENS:
            del self._users[next(iter(self._users))]
        self._users[key] = user
        return user


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
        """Begin with all turns free.

        Args:
            most_waiting: How many requests of one user may wait.
            wait_seconds: How long a request may wait.
        """
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
            raise _refused(problem, "share", 429)
        own.requests += 1
        try:
            async with AsyncExitStack() as held:
                try:
                    async with asyncio.timeout(self._wait_seconds):
                        await held.enter_async_context(own.turns)
                        async with own.line:
                            await held.enter_async_context(self._free)
                except TimeoutError:
                    raise _refused(f"the service has as many {self.name} at work as it can;", "busy", 503) from None
                yield
        finally:
            own.requests -= 1
            if not own.requests:
                del self._shares[user]


def _refused(problem: str, cause: str, status: int) -> NotAdmittedError:
    message = f"{problem} try again in {RETRY_SECONDS} s"
    return NotAdmittedError(message, cause=cause, status=status, retry_after_seconds=RETRY_SECONDS)
