"""Hosts of agents, with the client of package mcp: over HTTP a person consents, and the host keeps the tokens."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from seller_platform_tests.support.client_documents import Documents
from seller_platform_tests.support.served import PKCE, VERIFIER, approve_at
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

HERE = "http://localhost:51004/callback"


class Host:
    """An MCP host of Ann, who ticks what `choices` say on the consent page.

    Attributes:
        consent: The consent page.
    """

    def __init__(self, base_url: str, documents: Documents, path: str = "/mcp", /, **choices: str | None) -> None:
        self.base_url, self.path, self.choices = base_url, path, choices
        self.client_id = documents.publish(client_name="Desk host")
        self.tokens: OAuthToken | None = None
        self.application: OAuthClientInformationFull | None = None
        self.consent = self.sent_back = ""

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.application

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.application = client_info

    def _approve(self, url: str) -> None:
        self.consent, self.sent_back = approve_at(url, **self.choices)

    async def redirect(self, url: str) -> None:
        await asyncio.to_thread(self._approve, url)

    async def callback(self) -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(self.sent_back).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])

    @asynccontextmanager
    async def connected(self, mode: Any = "auto") -> AsyncIterator[Client]:
        """Yield a client that discovers the OAuth server if the host has no tokens."""
        url = f"{self.base_url}{self.path}"
        provider = OAuthClientProvider(
            url,
            OAuthClientMetadata(redirect_uris=[AnyUrl(HERE)]),
            self,
            self.redirect,
            self.callback,
            client_metadata_url=self.client_id,
        )
        async with (
            httpx2.AsyncClient(auth=provider, timeout=PATIENCE_SECONDS) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            yield client

    def ask(self, *calls: tuple[str, dict[str, Any]], mode: Any = "auto") -> list[Any]:
        """Return the results of calls of tools."""

        return asyncio.run(_call(self.connected(mode), calls))

    def authorization(self, **parameters: str) -> str:
        """Return the URL of an authorization request, without the client of package mcp."""
        asked = {"client_id": self.client_id, "redirect_uri": HERE, "response_type": "code"}
        return f"{self.base_url}/oauth/authorize?{urlencode({**asked, **PKCE, **parameters})}"

    def code(self, **parameters: str) -> str:
        """Return a code to which Ann consents."""
        self._approve(self.authorization(**parameters))
        return parse_qs(urlsplit(self.sent_back).query)["code"][0]

    def exchange(self, code: str, **parameters: str) -> httpx.Response:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": HERE, "client_id": self.client_id}
        sent = {**form, "code_verifier": VERIFIER, **parameters}
        return httpx.post(f"{self.base_url}/oauth/token", data=sent, timeout=PATIENCE_SECONDS)

    def refresh(self, token: str) -> httpx.Response:
        form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.client_id}
        return httpx.post(f"{self.base_url}/oauth/token", data=form, timeout=PATIENCE_SECONDS)

    def refresh_at_once(self, count: int, token: str) -> list[dict[str, Any]]:
        """Refresh a token so often at once, as processes of a host do, and return each answer."""
        with ThreadPoolExecutor(count) as threads:
            return [answer.json() for answer in threads.map(self.refresh, [token] * count)]

    def post(self, token: str | None, body: Any = None, *, http: Any = httpx, **headers: str) -> httpx.Response:
        """Send a request of the protocol without a client for it.

        Args:
            http: A client of HTTP; by default each request has a connection of its own.
        """
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "accounts", "arguments": {}}}
        sent = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": "2025-11-25",
            **({} if token is None else {"Authorization": f"Bearer {token}"}),
            **headers,
        }
        content = json.dumps(call if body is None else body)
        answer: httpx.Response = http.post(
            f"{self.base_url}{self.path}", content=content, headers=sent, timeout=PATIENCE_SECONDS
        )
        return answer


async def _call(
    connected: AbstractAsyncContextManager[Client], calls: Iterable[tuple[str, dict[str, Any]]]
) -> list[Any]:
    async with connected as client:
        return [await client.call_tool(name, arguments) for name, arguments in calls]
