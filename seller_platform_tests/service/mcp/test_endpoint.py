"""Tests `/mcp` with the client of package mcp: it finds the OAuth server, a person consents, and it asks."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.client_documents import Documents, hosted_documents
from seller_platform_tests.support.demo_company import AU, DE, US
from seller_platform_tests.support.demo_company import NOW as READ_AT
from seller_platform_tests.support.questions import problems_of, questions
from seller_platform_tests.support.served import ANN, PASSWORD, Served, add_user, execute, running_app, stored, submit
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

_HERE = "http://localhost:51004/callback"


class Host:
    """An MCP host: it keeps tokens, and a person consents for it."""

    def __init__(self, service: Served, documents: Documents, **choices: str | None) -> None:
        self.service, self.choices = service, choices
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
        with httpx.Client(timeout=PATIENCE_SECONDS) as browser:
            page = browser.get(url, follow_redirects=True)
            page = submit(browser, page, email=ANN, password=PASSWORD)
            page = browser.get(urljoin(str(page.url), page.headers["location"]))
            self.consent = page.text
            self.sent_back = submit(browser, page, decision="approve", **self.choices).headers["location"]

    async def redirect(self, url: str) -> None:
        await asyncio.to_thread(self._approve, url)

    async def callback(self) -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(self.sent_back).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])

    def ask(self, *calls: tuple[str, dict[str, Any]], mode: Any = "auto") -> list[Any]:
        """Return the results of calls of tools."""
        url = f"{self.service.base_url}/mcp"
        provider = OAuthClientProvider(
            url,
            OAuthClientMetadata(redirect_uris=[AnyUrl(_HERE)]),
            self,
            self.redirect,
            self.callback,
            client_metadata_url=self.client_id,
        )

        async def call() -> list[Any]:
            async with (
                httpx2.AsyncClient(auth=provider, timeout=PATIENCE_SECONDS) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                return [await client.call_tool(name, arguments) for name, arguments in calls]

        return asyncio.run(call())

    def refresh(self, token: str) -> httpx.Response:
        form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.client_id}
        return httpx.post(f"{self.service.base_url}/oauth/token", data=form, timeout=PATIENCE_SECONDS)

    def post(self, token: str | None, body: Any = None, **headers: str) -> httpx.Response:
        """Send a request of the protocol without a client for it."""
        own = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
        bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "accounts", "arguments": {}}}
        url = f"{self.service.base_url}/mcp"
        return httpx.post(url, json=body or call, headers={**own, **bearer, **headers}, timeout=PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Documents]:
    with hosted_documents(tmp_path_factory.mktemp("documents")) as documents:
        yield documents


@pytest.fixture(scope="module")
def agents(company: Database) -> Iterator[Served]:
    """A service that answers agents over the demo's company; Ann may read its three accounts."""
    add_user(company, ANN, (US, DE, AU))
    with running_app(company.url, private_client_hosts=("localhost",), now=READ_AT, serves_agents=True) as base_url:
        yield Served(base_url, company, "", "")


@pytest.fixture(scope="module")
def host(agents: Served, documents: Documents) -> Host:
    """A host that has a grant for two of the accounts of Ann."""
    host = Host(agents, documents, accounts="ticked", **{f"account:{AU}": None})
    host.ask()
    return host


def test_a_stock_client_discovers_consents_and_calls(agents: Served, documents: Documents) -> None:
    host = Host(agents, documents, accounts="ticked", **{f"account:{DE}": None, f"account:{AU}": None})

    [answer, refusal] = host.ask(("accounts", {}), ("no such tool", {}))
    [again] = host.ask(("accounts", {}), mode="legacy")

    assert [row["key"] for row in answer.structured_content["rows"]] == [US]
    assert (answer.is_error, refusal.is_error) == (False, True)
    assert again.structured_content == answer.structured_content
    assert "Allow <strong>Desk host</strong>" in host.consent
    assert urlsplit(documents.url).netloc in host.consent
    assert "Let an agent ask about the accounts below" in host.consent
    assert "Change the costs" not in host.consent
    assert host.tokens is not None
    assert host.tokens.scope == "read"


def test_sixty_questions_are_answered_over_http(agents: Served, documents: Documents) -> None:
    asked = questions()

    results = Host(agents, documents).ask(*((each.tool, dict(each.arguments)) for each in asked))

    wrong = {
        each.ask: found for each, result in zip(asked, results, strict=True) if (found := problems_of(each, result))
    }
    assert (wrong, len(asked)) == ({}, 60)


def test_a_grant_of_two_accounts_explains_no_rows_of_a_third(host: Host) -> None:
    march = {"metric": "orders", "first_day": "2026-03-01", "last_day": "2026-03-31"}

    mine, other = host.ask(("explain", march), ("explain", {**march, "accounts": [AU]}))

    rows = [row for row in mine.structured_content["rows"] if row["kind"] == "row"]
    assert {row["account"] for row in rows} <= {US, DE}
    assert all(row["request"].startswith("GET /sales/orders?seller_id=") for row in rows)
    assert (len(rows), AU in mine.content[0].text, other.is_error) == (20, False, True)


def test_the_tokens_of_agents_are_for_agents_alone(agents: Served, host: Host) -> None:
    assert host.tokens
    plain = {"Authorization": f"Bearer {host.tokens.access_token}"}
    of_agents = httpx.get(f"{agents.base_url}/user/me", headers=plain, timeout=PATIENCE_SECONDS)
    without, unknown = host.post(None), host.post("unknown")
    # A grant of the same client for the REST API.
    swap = "UPDATE service.authorizations SET resource = %s WHERE client_id = %s"
    execute(agents.database, swap, None, host.client_id)
    of_rest = host.post(host.tokens.access_token)
    execute(agents.database, swap, "/mcp", host.client_id)

    assert [each.status_code for each in (of_agents, without, unknown, of_rest)] == [401] * 4
    metadata = f'resource_metadata="{agents.base_url}/.well-known/oauth-protected-resource/mcp", scope="read"'
    assert metadata in without.headers["www-authenticate"]
    assert 'error="invalid_token"' in unknown.headers["www-authenticate"]
    assert host.post(host.tokens.access_token).status_code == 200


def test_sixteen_refreshes_at_once_keep_the_grant(agents: Served, host: Host) -> None:
    assert host.tokens
    assert host.tokens.refresh_token
    first = host.tokens.refresh_token
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(host.refresh, [first] * 16))
    pairs = [answer.json() for answer in answers]
    works = [host.post(pair["access_token"]).status_code for pair in pairs]
    chain = [host.refresh(pair["refresh_token"]).status_code for pair in pairs]
    later = "UPDATE service.refresh_tokens SET used_at = now() - interval '61 seconds' WHERE used_at IS NOT NULL"
    execute(agents.database, later)
    replayed = host.refresh(first)
    revoked = "SELECT count(*) FROM service.authorizations WHERE revoked_at IS NOT NULL AND client_id = %s"

    assert (works, chain) == ([200] * 16, [200] * 16)
    assert (replayed.status_code, replayed.json()["error"]) == (400, "invalid_grant")
    assert stored(agents.database, revoked, host.client_id) == [(1,)]
    host.tokens = None
    host.ask()


def test_hostile_requests_get_no_rows_of_others_and_show_no_sql(agents: Served, host: Host) -> None:
    assert host.tokens
    token = host.tokens.access_token
    names = ["accounts", "accounts; DROP TABLE service.users", "__class__", "../mcp", "", "query"]
    values: list[Any] = [AU, "' OR true --", "*", None, 1, [AU], {"$ne": 1}, "\u0000", "x" * 10_000]
    bodies: list[Any] = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {field: value}}}
        for name in names
        for field in ("account", "accounts", "statement")
        for value in values
    ]
    bodies += [[], "x", {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}]
    texts = [host.post(token, body).text for body in bodies]
    foreign = host.post(token, Origin="https://evil.example")
    rebound = host.post(token, Host="evil.example")
    large = host.post(token, {"padding": "x" * (1 << 20)})

    seen = stored(agents.database, "SELECT account_title FROM seller.accounts WHERE account = %s", AU)
    forbidden = (seen[0][0], "SELECT ", "FROM platform", "psycopg", "Traceback", 'service.users"')
    assert [text for text in texts if any(word in text for word in forbidden)] == []
    assert [each.status_code for each in (foreign, rebound, large)] == [403, 421, 413]
    assert httpx.get(f"{agents.base_url}/mcp").status_code == 405


def test_without_the_option_the_service_says_so(reading: Served) -> None:
    answer = httpx.post(f"{reading.base_url}/mcp", json={})

    assert answer.status_code == 404
    assert "--mcp" in answer.json()["message"]
