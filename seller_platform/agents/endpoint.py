"""The endpoint `/mcp` for agents, and the metadata by which clients find its OAuth server (RFC 9728).

Its tokens are those of grants for it alone. A call sees the accounts of its grant, in a warehouse that is only read.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import Message

from seller_platform.agents.asker import Asker
from seller_platform.agents.protocol import StreamableHTTPSessionManager, mcp_server
from seller_platform.clocks import Clock
from seller_platform.contract.wire import DOCS, MCP, RESOURCE_METADATA
from seller_platform.service.access import Scope, accounts_of, authenticate
from seller_platform.service.errors import ApiError, UnauthorizedError
from seller_platform.service.http.bodies import LARGEST_JSON_BYTES
from seller_platform.service.http.parameters import shown
from seller_platform.service.http.responses import JSON, base_url_of
from seller_platform.service.limits import Admission
from seller_platform.service.openapi import Operation, Route
from seller_platform.service.pool import Store
from seller_platform.warehouse.schema.readers import open_reading

_ACCOUNTS = "seller_platform.mcp_accounts"
# Hosts try the first one even where the metadata of the server name none.
_REGISTER = ("/register", "/oauth/register")
_NO_REGISTRATION = {
    "error": "access_denied",
    "error_description": "No client registers itself here. A host with a client ID metadata document needs no "
    "registration. For this one, the operator runs `seller-platform service application add NAME --mcp --public "
    "--redirect-uri URL --replica` with each of its redirect URLs; then give the host the client id that this prints.",
}
_OPERATION = Operation(MCP, "ask", "mcp", "Let an agent ask.", "", method="POST")


class AgentsEndpoint:
    """Answers agents; each request is complete in itself, so that any process of the service may answer it."""

    def __init__(self, database_url: str, store: Store, clock: Clock, *, connections: int) -> None:
        """Prepare the server; the warehouse is connected to at the first question.

        Args:
            connections: How many questions are answered at once.
        """
        self._store, self._database = store, open_reading(database_url, seconds=20.0, connections=connections)
        self._manager = StreamableHTTPSessionManager(
            mcp_server(lambda request: Asker(self._database, accounts=request.scope[_ACCOUNTS], clock=clock)),
            json_response=True,
            stateless=True,
            max_request_body_size=LARGEST_JSON_BYTES,
        )

    def routes(self, admission: Admission) -> list[StarletteRoute]:
        """Return the endpoint and its metadata."""
        admitted = admission.admitting(Route(_OPERATION, self._answer, resource=MCP))

        async def answer(request: Request) -> Response:
            try:
                return await admitted(request)
            except UnauthorizedError as error:
                # The metadata are named, so that the client can find the OAuth server.
                address = f"{base_url_of(request)}{RESOURCE_METADATA}{request.scope['path']}"
                metadata = f'resource_metadata="{address}", scope="{Scope.READ}"'
                challenge = {"WWW-Authenticate": f"{error.headers['WWW-Authenticate']}, {metadata}"}
                raise ApiError(error.message, status=401, headers=challenge) from error

        return [
            StarletteRoute(MCP, answer, methods=["POST"]),
            StarletteRoute(f"{RESOURCE_METADATA}{MCP}", _answer_metadata),
            *(StarletteRoute(path, _refuse_registration, methods=["POST"]) for path in _REGISTER),
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve until the block ends."""
        async with self._manager.run():
            try:
                yield
            finally:
                await asyncio.to_thread(self._database.close)

    async def _answer(self, request: Request) -> Response:
        # A page of another site must not ask with what a browser adds (DNS rebinding is refused by the host).
        origin = request.headers.get("origin")
        if origin is not None and origin != base_url_of(request):
            raise ApiError(f"the origin is {shown(origin)}; pages of other sites may not ask here", status=403)
        async with self._store.connection() as connection:
            caller = await authenticate(connection, request, resource=MCP)
            request.scope[_ACCOUNTS] = frozenset(each.key for each in await accounts_of(connection, caller))
        parts: list[bytes] = []
        start: dict[str, Any] = {}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                parts.append(message.get("body", b""))

        await self._manager.handle_request(request.scope, request.receive, send)
        response = Response(b"".join(parts), start["status"])
        response.raw_headers = start["headers"]
        return response


async def _answer_metadata(request: Request) -> Response:
    base = base_url_of(request)
    described = {
        # It is compared with the address that the host was given, with its slash (RFC 9728 section 3.3).
        "resource": base + request.scope["path"].removeprefix(RESOURCE_METADATA),
        "authorization_servers": [base],
        "scopes_supported": [Scope.READ.value],
        "bearer_methods_supported": ["header"],
        "resource_name": "Seller Platform",
        "resource_documentation": f"{base}{DOCS}",
    }
    return Response(msgspec.json.encode(described), media_type=JSON)


async def _refuse_registration(_: Request) -> Response:
    """Answer hosts that register themselves (RFC 7591), which this server does not announce, with what to do."""
    return Response(msgspec.json.encode(_NO_REGISTRATION), 403, media_type=JSON)
