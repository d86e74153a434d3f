"""Admits the requests of each route: their rate is counted, and they begin at once or are refused.

A token is looked up once. Later its requests are counted by the user in memory, before any work is done for them.
Whether the token is still valid is decided by each endpoint, not here.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from seller_platform.errors import NotAdmittedError, QuotaUsedError, UnauthorizedError
from seller_platform.service.access import authenticate, bearer_token, hash_of
from seller_platform.service.http.addresses import network_of_client
from seller_platform.service.http.bodies import LARGEST_FORM_BYTES, LARGEST_JSON_BYTES, with_received_body
from seller_platform.service.limits.lanes import Lane
from seller_platform.service.limits.lateness import Lateness
from seller_platform.service.limits.policy import WINDOW_SECONDS, Limits
from seller_platform.service.limits.rates import Counts, Quota, Remaining, own_memory, shared_memory
from seller_platform.service.metrics import Measures, note_headers
from seller_platform.service.openapi.routes import Cost, Route
from seller_platform.service.pool import Store

Endpoint = Callable[[Request], Awaitable[ASGIApp]]
Page = Callable[[Request], Awaitable[Response]]

_MOST_TOKENS = 10_000
_LOOKUPS_AT_ONCE, _LOOKUPS_WAITING, _LOOKUP_SECONDS = 4, 100, 0.5
_ANONYMOUS = "anonymous"


class Admission:
    """Admits requests with a token by their cost and their user, and others by their network."""

    def __init__(
        self, store: Store, limits: Limits, measures: Measures, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare the lanes and the counts.

        Args:
            monotonic: Returns seconds, by which rates are counted.
        """
        self._store, self._measures = store, measures
        lane = partial(Lane, wait_seconds=limits.wait_seconds)
        self._lanes = {
            Cost.CHEAP: lane("requests", limits.cheap_at_once),
            Cost.LIST: lane("requests of lists and costs", limits.lists_at_once),
            Cost.HEAVY: lane("requests of statistics", limits.heavy_at_once),
            Cost.DOWNLOAD: lane("downloads", limits.downloads_at_once),
        }
        self._anonymous = lane("requests without a token", limits.anonymous_at_once)
        self._lateness = Lateness()
        self._lookups = Lane(
            "requests with new tokens", _LOOKUPS_AT_ONCE, wait_seconds=_LOOKUP_SECONDS, most_waiting=_LOOKUPS_WAITING
        )
        self._users: dict[bytes, int] = {}
        self._looked_up: dict[bytes, asyncio.Task[int]] = {}
        memory = own_memory() if limits.rates_file is None else shared_memory(Path(limits.rates_file))
        self._counts = Counts(memory, monotonic=monotonic)
        self._per_token = _quota("token", limits.per_token)
        self._per_user = _quota("user", limits.per_user)
        policies = [quota.policy for quota in (self._per_token, self._per_user) if quota is not None]
        self._policy = ", ".join(policies)

    def admitting(self, route: Route) -> Endpoint:
        """Return the endpoint of a route that answers only admitted requests."""
        if not route.description.needs_token:
            return route.answer
        lane = self._lanes[route.cost]

        async def answer(request: Request) -> ASGIApp:
            try:
                return await self._answer(route, lane, request)
            except NotAdmittedError as refusal:
                self._measures.shed.labels(refusal.cause, route.cost.value).inc()
                raise

        return answer

    def admitting_anyone(self, endpoint: Page) -> Page:
        """Return an endpoint without a token, of which each network has a share at once."""

        async def answer(request: Request) -> Response:
            network = network_of_client(request)
            # A body that stalls must not hold a turn.
            request = await with_received_body(request, LARGEST_FORM_BYTES)
            try:
                await self._anonymous.enter(network)
            except NotAdmittedError as refusal:
                self._measures.shed.labels(refusal.cause, _ANONYMOUS).inc()
                raise
            try:
                return await endpoint(request)
            finally:
                self._anonymous.leave(network)

        return answer

    async def _answer(self, route: Route, lane: Lane, request: Request) -> ASGIApp:
        token_hash = hash_of(bearer_token(request.headers))
        user = self._users.get(token_hash) or await self._user_of(request, token_hash)
        self._count(request, token_hash, user)
        request = await with_received_body(request, LARGEST_JSON_BYTES)
        # While the loop is late, only cheap requests begin.
        waited_seconds = 0.0 if route.cost is Cost.CHEAP else self._lateness.seconds
        with self._measures.queued.track_inprogress():
            await lane.enter(user, waited_seconds)
        response: Response | None = None
        try:
            with self._lateness:
                response = await route.answer(request)
        except UnauthorizedError:
            # Its further requests must not use up the quota of the user.
            self._users.pop(token_hash, None)
            raise
        finally:
            if not isinstance(response, StreamingResponse):
                lane.leave(user)
        return _UntilSent(response, partial(lane.leave, user)) if isinstance(response, StreamingResponse) else response

    async def _user_of(self, request: Request, token_hash: bytes) -> int:
        """Return the user of a token, which several requests at once look up together."""
        lookup = self._looked_up.get(token_hash)
        if lookup is None:
            lookup = self._looked_up[token_hash] = asyncio.create_task(self._look_up(request, token_hash))
            lookup.add_done_callback(lambda _: self._looked_up.pop(token_hash))
        return await asyncio.shield(lookup)

    async def _look_up(self, request: Request, token_hash: bytes) -> int:
        """Return the user of a token, and remember it.

        Raises:
            UnauthorizedError: The token is not valid.
            NotAdmittedError: Too many other tokens are looked up.
        """
        network = network_of_client(request)
        await self._lookups.enter(network)
        try:
            async with self._store.connection() as connection:
                user = (await authenticate(connection, request.headers)).id
        finally:
            self._lookups.leave(network)
        while len(self._users) >= _MOST_TOKENS:
            del self._users[next(iter(self._users))]
        self._users[token_hash] = user
        return user

    def _count(self, request: Request, token_hash: bytes, user: int) -> None:
        """Count a request by its token and its user, and note the headers of its answer.

        Raises:
            QuotaUsedError: A quota is used up.
        """
        remaining: list[Remaining] = []
        if self._per_token is not None:
            remaining.append(self._counts.take(int.from_bytes(token_hash[:8]), self._per_token))
        if self._per_user is not None and not _refusals(remaining):
            remaining.append(self._counts.take(_key_of(user), self._per_user))
        if remaining:
            note_headers(
                request, {"RateLimit-Policy": self._policy, "RateLimit": ", ".join(each.member for each in remaining)}
            )
        for refused in _refusals(remaining):
            quota = refused.quota
            raise QuotaUsedError(
                quota.name, quota.requests, quota.window_seconds, retry_after_seconds=refused.retry_seconds
            )


class _UntilSent:
    """Sends a streamed answer, and ends its turn in the lane when all is sent."""

    def __init__(self, response: StreamingResponse, leave: Callable[[], None]) -> None:
        self._response, self._leave = response, leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._response(scope, receive, send)
        finally:
            self._leave()


def _quota(name: str, requests: int) -> Quota | None:
    return Quota(name, requests, WINDOW_SECONDS) if requests else None


def _refusals(remaining: Sequence[Remaining]) -> list[Remaining]:
    return [each for each in remaining if each.retry_seconds]


def _key_of(user: int) -> int:
    """Return the number by which a user is counted, which no token has but by chance."""
    return int.from_bytes(hash_of(f"user {user}")[:8])
