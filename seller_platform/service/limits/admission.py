"""Admits the requests of each route: their rate is counted, and they begin at once or are refused.

A token is looked up once. Later its requests are counted by the user in memory, before any work is done for them.
Whether the token is still valid is decided by each endpoint, not here.

Requests without a valid token are counted by their network, of which a few are answered at once. A refusal of such a
request is sent after a second, so that clients which request without a pause take little of the event loop.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from seller_platform.errors import NotAdmittedError, UnauthorizedError
from seller_platform.service.access import authenticate, bearer_token, hash_of
from seller_platform.service.http.addresses import network_of_client
from seller_platform.service.http.bodies import LARGEST_FORM_BYTES, LARGEST_JSON_BYTES, with_received_body
from seller_platform.service.limits.lanes import RETRY_SECONDS, Lane
from seller_platform.service.limits.lateness import Lateness
from seller_platform.service.limits.policy import Limits
from seller_platform.service.limits.rates import Rates
from seller_platform.service.metrics import Measures
from seller_platform.service.openapi.routes import Cost, Route
from seller_platform.service.pool import Store

Endpoint = Callable[[Request], Awaitable[ASGIApp]]
Page = Callable[[Request], Awaitable[Response]]
_Key = tuple[bytes, str | None]  # the hash of a token, and the resource that it is for

_MOST_TOKENS = 10_000
_ANONYMOUS, _ANONYMOUS_SECONDS, _ANONYMOUS_WAITING = "anonymous", 2.0, 100


class Admission:
    """Admits requests with a token by their cost and their user, and others by their network."""

    def __init__(self, store: Store, limits: Limits, measures: Measures) -> None:
        """Prepare the lanes and the counts."""
        self._store, self._measures = store, measures
        lane = partial(Lane, wait_seconds=limits.wait_seconds)
        lists = lane("requests of lists, costs and statistics", limits.lists_at_once)
        self._lanes = {
            Cost.CHEAP: lane("requests", limits.cheap_at_once),
            Cost.LIST: lists,
            Cost.HEAVY: lists,
            Cost.DOWNLOAD: lane("downloads", limits.downloads_at_once),
        }
        self._anonymous = Lane(
            "requests without a known token",
            limits.anonymous_at_once,
            share=max(1, limits.anonymous_at_once // 4),
            wait_seconds=max(_ANONYMOUS_SECONDS, limits.wait_seconds),
            most_waiting=_ANONYMOUS_WAITING,
        )
        self._lateness = Lateness()
        self._users: dict[_Key, int] = {}
        self._looked_up: dict[_Key, asyncio.Task[int]] = {}
        self._rates = Rates(limits, monotonic=time.monotonic)

    def admitting(self, route: Route) -> Endpoint:
        """Return the endpoint of a route that answers only admitted requests."""
        if not route.description.needs_token:
            # Monitors ask as often as they like.
            return self.admitting_anyone(route.answer, is_counted=False)

        async def answer(request: Request) -> ASGIApp:
            try:
                key = (hash_of(bearer_token(request.headers)), route.resource)
                user = self._users.get(key) or await self._user_of(request, key)
                try:
                    return await self._answer(route, request, key, user)
                except NotAdmittedError as refusal:
                    self._measures.shed.labels(refusal.cause, route.cost.value).inc()
                    raise
            except UnauthorizedError:
                async with self.turn_of_network(request):
                    raise

        return answer

    def admitting_anyone(self, endpoint: Page, *, is_counted: bool = True) -> Page:
        """Return an endpoint without a token that answers only admitted requests."""

        async def answer(request: Request) -> Response:
            # A body that stalls must not hold a turn.
            request = await with_received_body(request, LARGEST_FORM_BYTES)
            async with self.turn_of_network(request, is_counted=is_counted):
                return await endpoint(request)

        return answer

    @asynccontextmanager
    async def turn_of_network(self, request: Request, *, is_counted: bool = True) -> AsyncIterator[None]:
        """Wait for a turn of the network of a request, which lasts until the block ends.

        Args:
            is_counted: Whether the request is one of those that a network may make in a minute.

        Raises:
            NotAdmittedError: The network has made too many requests, or has too many under way.
        """
        network = network_of_client(request)
        try:
            if is_counted:
                self._rates.count_network(network)
            turn = await self._anonymous.enter(network)
        except NotAdmittedError as refusal:
            self._measures.shed.labels(refusal.cause, _ANONYMOUS).inc()
            await asyncio.sleep(RETRY_SECONDS)
            raise
        try:
            yield
        finally:
            self._anonymous.leave(turn)

    async def _answer(self, route: Route, request: Request, key: _Key, user: int) -> ASGIApp:
        lane = self._lanes[route.cost]
        self._rates.count(request, key[0], user)
        request = await with_received_body(request, LARGEST_JSON_BYTES)
        # While the loop is late, only cheap requests begin.
        waited_seconds = 0.0 if route.cost is Cost.CHEAP else self._lateness.seconds
        with self._measures.queued.track_inprogress():
            turn = await lane.enter(user, route.cost, waited_seconds)
        response: Response | None = None
        try:
            with self._lateness:
                response = await route.answer(request)
        except UnauthorizedError:
            # Its further requests must not use up the quota of the user.
            self._users.pop(key, None)
            raise
        finally:
            if not isinstance(response, StreamingResponse):
                lane.leave(turn)
        return _UntilSent(response, partial(lane.leave, turn)) if isinstance(response, StreamingResponse) else response

    async def _user_of(self, request: Request, key: _Key) -> int:
        """Return the user of a token, which several requests at once look up together."""
        lookup = self._looked_up.get(key)
        if lookup is None:
            lookup = self._looked_up[key] = asyncio.create_task(self._look_up(request, key))
            lookup.add_done_callback(lambda _: self._looked_up.pop(key))
        return await asyncio.shield(lookup)

    async def _look_up(self, request: Request, key: _Key) -> int:
        """Return the user of a token, and remember it.

        Raises:
            UnauthorizedError: The token is not valid.
            NotAdmittedError: The network has too many requests without a known token under way.
        """
        async with self.turn_of_network(request, is_counted=False), self._store.connection() as connection:
            user = (await authenticate(connection, request, resource=key[1])).id
        while len(self._users) >= _MOST_TOKENS:
            del self._users[next(iter(self._users))]
        self._users[key] = user
        return user


class _UntilSent:
    """Sends a streamed answer, and ends its turn in the lane when all is sent."""

    def __init__(self, response: StreamingResponse, leave: Callable[[], None]) -> None:
        self._response, self._leave = response, leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._response(scope, receive, send)
        finally:
            self._leave()
