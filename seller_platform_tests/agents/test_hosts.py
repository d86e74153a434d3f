"""Plays the published habits of hosts from the URL alone to an answer, or to the true reason why there is none."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
import yaml

from seller_platform.service.oauth.applications import add_application
from seller_platform_tests.support.client_documents import Documents
from seller_platform_tests.support.hostile_calls import content_of
from seller_platform_tests.support.served import ANN, PASSWORD, PKCE, VERIFIER, Served, approve_at, submit
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

_MODERN = "2026-07-28"
_META = "io.modelcontextprotocol"
_TOKENS = 4
"""How many characters a token is taken to have."""

_MARCH = {"metric": "units", "first_day": "2026-03-01", "last_day": "2026-03-31"}


class StoppedError(Exception):
    """A host cannot go on; the message is what a person reads of it."""


@dataclass(frozen=True)
class Host:
    """A host with its habits, as `hosts.yaml` describes them."""

    habits: Mapping[str, Any]
    service: Served
    documents: Documents

    @property
    def url(self) -> str:
        return f"{self.service.base_url}{self.habits.get('path', '/mcp')}"

    def answer(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the tools, and the result of a call, knowing nothing but the URL.

        Raises:
            StoppedError: There is none.
        """
        with httpx.Client(timeout=PATIENCE_SECONDS) as http:
            resource, metadata = self._discover(http)
            client = self._client(http, metadata)
            tokens = self._authorize(http, metadata, client, resource)
            refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], **client, **resource}
            http.headers["Authorization"] = f"Bearer {_granted(http.post(metadata['token_endpoint'], data=refresh))}"
            return self._ask(http)

    def _discover(self, http: httpx.Client) -> tuple[dict[str, str], dict[str, Any]]:
        """Return the `resource` that it names, and the metadata of the OAuth server."""
        if probe := self.habits.get("probe"):
            assert http.request(probe, self.url).status_code in (401, 405)
        challenge = http.post(self.url, json={"jsonrpc": "2.0", "id": 0, "method": "ping"})
        assert challenge.status_code == 401
        found = re.search('resource_metadata="([^"]+)"', challenge.headers["www-authenticate"])
        assert found
        described = http.get(found[1]).json()
        if self.habits.get("is_strict") and described["resource"] != self.url:
            raise StoppedError(f"Protected resource {described['resource']} does not match expected {self.url}")
        (issuer,) = described["authorization_servers"]
        metadata = http.get(f"{issuer}/.well-known/oauth-authorization-server").json()
        assert metadata["issuer"] == issuer
        named = {"origin": issuer, "slash": f"{issuer}/mcp/", "none": None}
        resource = named.get(self.habits.get("resource", ""), described["resource"])
        return ({} if resource is None else {"resource": resource}), metadata

    def _client(self, http: httpx.Client, metadata: Mapping[str, Any]) -> dict[str, str]:
        """Return its client id, and its secret if it has one."""
        if "document" in self.habits:
            assert metadata["client_id_metadata_document_supported"]
            path = f"/{re.sub('[^a-z]+', '-', self.habits['host'].lower())}"
            return {"client_id": self.documents.publish(path, client_name="A host", **self.habits["document"])}
        if "registers" in self.habits:  # as the client of package mcp does without an endpoint in the metadata
            endpoint = metadata.get("registration_endpoint", f"{self.service.base_url}/register")
            answer = http.post(endpoint, json={"redirect_uris": self.habits["registers"], "client_name": "A host"})
            raise StoppedError(answer.json()["error_description"])
        uris, is_public = self.habits["registered"], not self.habits.get("has_secret")
        client_id, secret = add_application(
            self.service.database, "A host", *uris, resource="/mcp", is_public=is_public
        )
        return {"client_id": client_id, **({"client_secret": secret} if secret else {})}

    def _authorize(
        self, http: httpx.Client, metadata: Mapping[str, Any], client: Mapping[str, str], resource: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the tokens for which a person logs in and consents."""
        redirect = {"client_id": client["client_id"], "redirect_uri": self.habits["redirect_uri"]}
        scope = {"scope": self.habits["scope"]} if "scope" in self.habits else {}
        asked = {**redirect, "response_type": "code", "state": "s", **PKCE, **scope, **resource}
        address = f"{metadata['authorization_endpoint']}?{urlencode(asked)}"
        page = http.get(address, follow_redirects=True)
        if page.status_code == 200:  # the login; only then a document is read
            sent_on = submit(http, page, email=ANN, password=PASSWORD)
            page = http.get(httpx.URL(self.service.base_url).join(sent_on.headers["location"]))
        if page.status_code != 200:
            raise StoppedError(unescape(page.text))
        http.cookies.clear()
        _, sent_back = approve_at(address)
        assert sent_back.startswith(f"{self.habits['redirect_uri']}?")
        answered = {name: values[0] for name, values in parse_qs(urlsplit(sent_back).query).items()}
        assert (answered["state"], answered["iss"]) == ("s", metadata["issuer"])
        grant = {"grant_type": "authorization_code", "code": answered["code"], "code_verifier": VERIFIER}
        exchanged = http.post(metadata["token_endpoint"], data={**grant, **redirect, **client, **resource})
        tokens: dict[str, Any] = exchanged.json()
        assert exchanged.status_code == 200, tokens
        return tokens

    def _ask(self, http: httpx.Client) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        version, info = self.habits["protocol"], {"name": "host", "version": "1"}
        http.headers["Accept"] = "application/json, text/event-stream"
        if version != _MODERN:
            hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
            assert self._send(http, "initialize", hello)["protocolVersion"] == version
            done = http.post(self.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
            assert done.status_code == 202
        if version != "2025-03-26":  # whose hosts send no header
            http.headers["MCP-Protocol-Version"] = version
        arguments: Any = self.habits.get("arguments", {})
        call = {"name": "query", "arguments": arguments if isinstance(arguments, str) else {**_MARCH, **arguments}}
        return self._send(http, "tools/list", {})["tools"], self._send(http, "tools/call", call)

    def _send(self, http: httpx.Client, method: str, params: dict[str, Any]) -> dict[str, Any]:
        headers = {}
        if self.habits["protocol"] == _MODERN:
            own = {"protocolVersion": _MODERN, "clientCapabilities": {}}
            params = {**params, "_meta": {f"{_META}/{name}": value for name, value in own.items()}}
            headers = {"Mcp-Method": method, **({"Mcp-Name": params["name"]} if "name" in params else {})}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = http.post(self.url, json=message, headers=headers).json()
        if "error" in answer:
            raise StoppedError(answer["error"]["message"])
        result: dict[str, Any] = answer["result"]
        return result


def _granted(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


_HOSTS = yaml.safe_load(Path(__file__).with_name("hosts.yaml").read_text())


@pytest.mark.parametrize("habits", _HOSTS, ids=lambda habits: habits["host"])
def test_a_host_gets_an_answer_or_the_true_reason(
    agents: Served, documents: Documents, habits: Mapping[str, Any]
) -> None:
    host = Host(habits, agents, documents)
    if "stops" in habits:
        with pytest.raises(StoppedError, match=re.escape(habits["stops"])):
            host.answer()
        return

    tools, result = host.answer()

    content = content_of(result)
    assert not result["isError"], content
    assert sum(int(row["value"]) for row in content["rows"] if row.get("account", "us-1001") == "us-1001") == 381
    assert ("structuredContent" in result, len(result["content"])) == (False, 1)
    assert len(json.dumps(tools)) / _TOKENS <= 6_000
    assert len(json.dumps(result)) / _TOKENS <= 8_000
    assert habits["source"]
