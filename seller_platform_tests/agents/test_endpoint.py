"""Tests `/mcp` with the client of package mcp: it finds the OAuth server, a person consents, and it asks."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from seller_platform.agents.tools import TOOLS
from seller_platform.service.access import hash_of
from seller_platform.service.oauth.applications import add_application
from seller_platform.service.reports.worker import delete_expired
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.readers import save_reader
from seller_platform_tests.support.client_documents import Documents
from seller_platform_tests.support.demo_company import AU, DE, US
from seller_platform_tests.support.hostile_calls import hostile_messages, leaks, result_of
from seller_platform_tests.support.processes import environment
from seller_platform_tests.support.served import ANN, PKCE, VERIFIER, Served, approve_at, issue_token, with_connection
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

HERE = "http://localhost:51004/callback"


class Host:
    """An MCP host of Ann, who ticks what `choices` say on the consent page."""

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
        url, content = f"{self.base_url}{self.path}", json.dumps(call if body is None else body)
        answer: httpx.Response = http.post(url, content=content, headers=sent, timeout=PATIENCE_SECONDS)
        return answer


async def _call(
    connected: AbstractAsyncContextManager[Client], calls: Iterable[tuple[str, dict[str, Any]]]
) -> list[Any]:
    async with connected as client:
        return [await client.call_tool(name, arguments) for name, arguments in calls]


@pytest.fixture(scope="module")
def host(agents: Served, documents: Documents) -> Host:
    """A host that has a grant for two of the accounts of Ann."""
    host = Host(agents.base_url, documents, accounts="ticked", **{f"account:{AU}": None})
    host.ask()
    return host


def _content(answer: Any) -> dict[str, Any]:
    """Return what the text of an answer says."""
    content: dict[str, Any] = json.loads(answer.content[0].text)
    return content


def test_a_stock_client_discovers_consents_and_calls(agents: Served, documents: Documents) -> None:
    host = Host(agents.base_url, documents, accounts="ticked", **{f"account:{DE}": None, f"account:{AU}": None})

    [answer, refusal] = host.ask(("accounts", {}), ("no such tool", {}))
    [again] = host.ask(("accounts", {}), mode="legacy")
    content = _content(answer)

    assert [row["key"] for row in content["rows"]] == [US]
    assert (answer.is_error, refusal.is_error) == (False, True)
    assert (answer.structured_content, again.structured_content) == (None, None)  # an answer is sent once
    assert _content(again) == content
    assert "Allow <strong>Desk host</strong>" in host.consent
    assert urlsplit(documents.url).netloc in host.consent
    assert "Let an agent ask about the accounts below" in host.consent
    assert "Change the costs" not in host.consent
    assert host.tokens is not None
    assert host.tokens.scope == "read"


def test_a_grant_of_one_account_explains_no_rows_of_another(agents: Served, documents: Documents) -> None:
    host = Host(agents.base_url, documents, accounts="ticked", **{f"account:{US}": None, f"account:{AU}": None})
    march = {"metric": "orders", "first_day": "2026-03-01", "last_day": "2026-03-31"}

    own, *others = host.ask(("explain", march), *(("explain", {**march, "accounts": [key]}) for key in (US, AU)))

    rows = [row for row in _content(own)["rows"] if row["kind"] == "row"]
    assert {row["account"] for row in _content(own)["rows"]} == {DE}
    with agents.database.begin() as connection:
        (seller,) = connection.exec_driver_sql(f"SELECT seller_id FROM platform.accounts WHERE key = '{DE}'").one()
    assert {row["request"].split("&")[0] for row in rows} == {f"GET /sales/orders?seller_id={seller}"}
    assert ([each.is_error for each in others], len(rows)) == ([True, True], 20)


def test_a_token_of_another_resource_is_refused_with_both_names(agents: Served, host: Host) -> None:
    assert host.tokens
    with agents.client(token=host.tokens.access_token) as client:
        of_agents = client.get("/user/me")
    without, unknown = host.post(None), host.post("unknown")
    of_rest = host.post(issue_token(agents.database, ANN))
    base = agents.base_url

    assert [each.status_code for each in (of_agents, without, unknown, of_rest)] == [401] * 4
    metadata = f'resource_metadata="{base}/.well-known/oauth-protected-resource/mcp", scope="read"'
    assert metadata in without.headers["www-authenticate"]
    assert 'error="invalid_token"' in unknown.headers["www-authenticate"]
    assert f"is for the resource {base}/mcp, and one for {base} is needed here" in of_agents.json()["message"]
    assert f"is for the resource {base}, and one for {base}/mcp is needed here" in of_rest.json()["message"]
    assert f"with resource={base}/mcp" in of_rest.headers["www-authenticate"]
    assert host.post(host.tokens.access_token).status_code == 200


def test_a_token_tried_at_both_resources_is_valid_at_its_own(agents: Served, documents: Documents) -> None:
    host = Host(agents.base_url, documents)
    host.ask()
    assert host.tokens
    tokens = [host.tokens.access_token, *(issue_token(agents.database, ANN) for _ in range(19))]

    def both(token: str) -> list[tuple[int, int]]:
        with ThreadPoolExecutor(4) as threads:
            asked, read = lambda: host.post(token).status_code, lambda: agents.status_of(token)
            statuses = [each.result() for each in [threads.submit(call) for call in (asked, read) * 2]]
        return list(zip(statuses[::2], statuses[1::2], strict=True))

    for token in tokens:
        expected = (200, 401) if token == host.tokens.access_token else (401, 200)
        assert both(token) == [expected] * 2


def test_refreshes_within_a_minute_keep_one_chain(agents: Served, documents: Documents) -> None:
    host = Host(agents.base_url, documents)
    host.ask()
    assert host.tokens
    first = str(host.tokens.refresh_token)
    chain = [first]
    for _ in range(3):
        pairs = host.refresh_at_once(8, chain[-1])
        assert {(pair["access_token"], pair["refresh_token"]) for pair in pairs} == {
            (pairs[0]["access_token"], pairs[0]["refresh_token"])
        }
        assert host.post(pairs[0]["access_token"]).status_code == 200
        chain.append(pairs[0]["refresh_token"])
    again = host.refresh_at_once(2, first)
    family = f"""
        SELECT family FROM service.refresh_tokens JOIN service.authorizations USING (family)
        WHERE token_hash = decode('{hash_of(first).hex()}', 'hex')
    """
    of_family = f"SELECT count(*), count(used_at) FROM service.refresh_tokens WHERE family = ({family})"
    stored_tokens = agents.stored(of_family)
    revoke = {"token": pairs[0]["access_token"], "client_id": host.client_id}
    httpx.post(f"{agents.base_url}/oauth/revoke", data=revoke, timeout=PATIENCE_SECONDS)
    revoked = host.refresh(chain[-2])
    still = host.refresh(chain[-1])
    agents.execute("UPDATE service.refresh_tokens SET used_at = used_at - interval '61 seconds'")
    with_connection(agents.database.url, partial(delete_expired, kept_days=7))
    keys = agents.stored("SELECT count(successor_key) FROM service.refresh_tokens")
    late = host.refresh(first)
    ended = host.refresh(still.json()["refresh_token"])
    event = "SELECT count(*) FROM service.security_events WHERE kind = 'refresh_token_reused' AND client_id = %s"

    assert [pair["refresh_token"] for pair in again] == [chain[1]] * 2
    assert (stored_tokens, keys) == ([(4, 3)], [(0,)])  # one chain
    assert [each.status_code for each in (revoked, still, late, ended)] == [400, 200, 400, 400]
    assert agents.stored(event, host.client_id) == [(1,)]
    assert host.post(still.json()["access_token"]).status_code == 401


def test_a_client_registered_for_mcp_alone_gets_tokens_of_mcp(agents: Served, documents: Documents) -> None:
    host = Host(agents.base_url, documents)
    host.client_id, _ = add_application(agents.database, "Asker", HERE, resource="/mcp", is_public=True)

    pairs = [host.exchange(host.code(**asked)).json() for asked in ({}, {"scope": "read"}, {"scope": "openid"})]
    useless = httpx.get(host.authorization(scope="read costs:write"))

    assert [(host.post(pair["access_token"]).status_code, pair["scope"]) for pair in pairs] == [(200, "read")] * 3
    assert useless.status_code == 400
    assert "Asker is registered for" in useless.text
    assert "it asks for costs:write" in useless.text


@pytest.mark.parametrize(("asked", "named"), [("/mcp", ""), ("/mcp/", "/"), ("", "/mcp")])
def test_a_code_for_another_resource_is_refused(agents: Served, documents: Documents, asked: str, named: str) -> None:
    host, base = Host(agents.base_url, documents), agents.base_url
    code = host.code(resource=f"{base}{asked}", scope="read reports")

    refused = host.exchange(code, resource=f"{base}{named}")
    taken = host.exchange(code, resource=f"{base}{asked}")

    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_target")
    issued_for = f"{base}{asked.removesuffix('/')}"
    assert f"it was issued for the resource {issued_for}, and" in refused.json()["error_description"]
    assert taken.status_code == 200


def test_hostile_requests_get_no_rows_of_others_and_show_no_sql(agents: Served, documents: Documents) -> None:
    host = Host(agents.base_url, documents, accounts="ticked", **{f"account:{DE}": None, f"account:{AU}": None})
    host.ask()
    assert host.tokens
    token, statuses = host.tokens.access_token, Counter[int]()
    with httpx.Client() as http:
        for message in hostile_messages(Random(2), 200):
            answer = host.post(token, message, http=http)
            statuses[answer.status_code] += 1
            assert leaks(message, result_of(answer)) == [], message
    foreign = host.post(token, Origin="https://evil.example")
    rebound = host.post(token, Host="evil.example")
    large = host.post(token, {"padding": "x" * (1 << 20)})

    assert set(statuses) <= {200, 400}, statuses
    assert statuses[200] > 100
    assert [each.status_code for each in (foreign, rebound, large)] == [403, 421, 413]
    assert httpx.get(f"{agents.base_url}/mcp").status_code == 405


def test_without_the_option_the_service_says_so(service: Served) -> None:
    answers = [httpx.post(f"{service.base_url}{path}", json={}) for path in ("/mcp", "/mcp/")]
    with service.logged_in() as browser:
        page = service.request_code(browser, resource=f"{service.base_url}/mcp")

    assert [answer.status_code for answer in answers] == [404, 404]
    assert "--mcp" in answers[0].json()["message"]
    assert (page.status_code, "agents are not served here" in page.text) == (400, True)


_COMMAND = ["-m", "seller_platform.cli", "mcp"]


@pytest.mark.slow
def test_a_stock_client_lists_the_tools_and_calls_them(company: Database, tmp_path: Path) -> None:
    save_reader(company, "host", "correct horse battery")
    urls = {"SELLER_PLATFORM_DATABASE_URL": company.url, "SELLER_PLATFORM_READER_URL": company.url_of_user("host")}
    variables = environment(tmp_path / "home", **urls)
    server = StdioServerParameters(command=sys.executable, args=_COMMAND, env=variables)

    async def ask() -> tuple[Any, ...]:
        async with Client(server) as client:
            return (
                client.session.protocol_version,
                (await client.list_tools()).tools,
                await client.call_tool("accounts", {}),
                await client.call_tool("account", {}),
                await client.call_tool("accounts", {"statement": "TABLE service.users"}),
                await client.call_tool("sql", {"statement": "SELECT session_user AS login"}),
            )

    version, tools, accounts, unknown, wrong, asked = anyio.run(ask)

    assert version == "2026-07-28"
    assert [tool.name for tool in tools] == [tool.name for tool in TOOLS]
    assert all(tool.annotations.read_only_hint and not tool.annotations.open_world_hint for tool in tools)
    assert len(_content(accounts)["rows"]) == 3
    assert {"as_of", "coverage", "settledness", "seen"} <= _content(accounts)["proof"].keys()
    assert (accounts.is_error, unknown.is_error, wrong.is_error) == (False, True, True)
    assert "accounts" in _content(unknown)["refused"]["candidates"]
    assert set(_content(wrong)["refused"]) == {"reason", "remedy", "candidates"}
    assert _content(asked)["rows"] == [{"values": {"login": "host"}}]
