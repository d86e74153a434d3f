"""Tests clients that describe themselves in a document, and what the service refuses to read."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from seller_platform.contract.tokens import code_challenge
from seller_platform.service.http.addresses import is_public
from seller_platform.service.oauth.applications import verify_application
from seller_platform.service.oauth.client_documents import is_document_url
from seller_platform_tests.support.client_documents import Documents, hosted_documents
from seller_platform_tests.support.served import ANN, PASSWORD, Served, execute, running_app, stored, submit

_VERIFIER = "v" * 43
_PKCE = {"code_challenge": code_challenge(_VERIFIER), "code_challenge_method": "S256"}
_HERE = "http://localhost:51004/callback"


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Documents]:
    """A host on the loopback, whose certificate is trusted."""
    with hosted_documents(tmp_path_factory.mktemp("documents")) as documents:
        yield documents


@pytest.fixture(scope="module")
def trusting(reading: Served) -> Iterator[Served]:
    """A service that may read documents of the loopback."""
    with running_app(reading.database.url, private_client_hosts=("localhost",)) as base_url:
        yield replace(reading, base_url=base_url)


def _consent(service: Served, browser: httpx.Client, client_id: str, redirect_uri: str = _HERE) -> httpx.Response:
    return service.request_code(browser, client_id=client_id, redirect_uri=redirect_uri, **_PKCE)


def test_a_client_with_a_document_gets_tokens_without_a_registration(trusting: Served, documents: Documents) -> None:
    client_id = documents.publish()
    documents.requested.clear()
    with trusting.client() as browser:
        login = _consent(trusting, browser, client_id)
        before = list(documents.requested)
        page = submit(browser, login, email=ANN, password=PASSWORD)
        page = browser.get(page.headers["location"])
        answer = submit(browser, page, decision="approve")
        form = {
            "grant_type": "authorization_code",
            "code": httpx.URL(answer.headers["location"]).params["code"],
            "redirect_uri": _HERE,
            "client_id": client_id,
            "code_verifier": _VERIFIER,
        }
        pair = browser.post("/oauth/token", data=form).json()
        refreshed = browser.post(
            "/oauth/token",
            data={"grant_type": "refresh_token", "refresh_token": pair["refresh_token"], "client_id": client_id},
        )
        me = browser.get("/user/me", headers={"Authorization": f"Bearer {refreshed.json()['access_token']}"})
        metadata = browser.get("/.well-known/oauth-authorization-server").json()

    assert before == []  # nothing is read for strangers
    assert documents.requested == ["/client"]
    assert urlsplit(client_id).netloc in page.text
    assert "Allow <strong>Desk</strong>" in page.text
    assert "a program on your own" in page.text
    assert answer.headers["location"].startswith(f"{_HERE}?code=")
    assert (me.status_code, metadata["client_id_metadata_document_supported"]) == (200, True)


def test_a_document_is_read_again_and_a_change_ends_its_verification(trusting: Served, documents: Documents) -> None:
    client_id = documents.publish("/changing")
    with trusting.logged_in() as browser:
        _consent(trusting, browser, client_id)
        verify_application(trusting.database, client_id)
        verified = _consent(trusting, browser, client_id)
        documents.publish("/changing", client_name="Reader <1>")
        kept = _consent(trusting, browser, client_id)
        later = "UPDATE service.applications SET document_read_at = now() - interval '61 minutes' WHERE client_id = %s"
        execute(trusting.database, later, client_id)
        changed = _consent(trusting, browser, client_id)

    assert "Not verified." not in verified.text
    assert "Allow <strong>Desk</strong>" in kept.text
    assert "Not verified." in changed.text
    assert "its name looks like that of another application" in changed.text


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"client_id": "https://other.example/client"}, "names another client_id"),
        ({"client_name": None}, "missing required field `client_name`"),
        ({"client_name": "A\u202eB"}, "printable"),
        ({"redirect_uris": None}, "missing required field `redirect_uris`"),
        ({"redirect_uris": ["http://["]}, "cannot be used"),
        ({"redirect_uris": ["http://app.example/"]}, "must be https"),
        ({"redirect_uris": ["desk://callback"]}, "cannot be used"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "token_endpoint_auth_method"),
        ({"padding": "x" * (16 << 10)}, "larger than 16 KiB"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{", "is not JSON"),
        (b"redirect", "is answered with status 302"),
        (b"compressed", "is compressed"),
        (None, "is answered with status 404"),
    ],
)
def test_a_document_that_cannot_be_used_is_refused(
    trusting: Served, documents: Documents, changed: dict[str, Any] | bytes | None, problem: str
) -> None:
    client_id = documents.publish("/wrong", **(changed if isinstance(changed, dict) else {}))
    if not isinstance(changed, dict):
        documents.answers["/wrong"] = changed or {}
    if changed is None:
        del documents.answers["/wrong"]
    with trusting.logged_in() as browser:
        page = _consent(trusting, browser, client_id)

    assert page.status_code == 400
    assert problem in page.text
    assert stored(trusting.database, "SELECT FROM service.applications WHERE client_id = %s", client_id) == []


def test_a_document_at_an_address_that_is_not_public_is_not_read(reading: Served, documents: Documents) -> None:
    client_id = documents.publish("/unread")
    documents.requested.clear()
    with reading.logged_in() as browser:
        page = _consent(reading, browser, client_id)
        metadata = _consent(reading, browser, "https://169.254.169.254/latest/meta-data")

    assert (page.status_code, metadata.status_code, documents.requested) == (400, 400, [])
    assert "is at an address that is not public" in page.text
    assert "is at an address that is not public" in metadata.text


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.216.34", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("192.168.0.1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("2001::7f00:1", False),
        ("fe80::1", False),
        ("fec0::1", False),
        ("fd00::1", False),
        ("ff02::1", False),
    ],
)
def test_which_addresses_are_public(address: str, expected: bool) -> None:
    assert is_public(address) is expected


@pytest.mark.parametrize(
    ("client_id", "expected"),
    [
        ("https://desk.example/client.json", True),
        ("https://desk.example:8443/a/b?v=1", True),
        ("https://desk.example/", False),
        ("https://desk.example", False),
        ("http://desk.example/client", False),
        ("HTTPS://desk.example/client", False),
        ("https://desk.example/a/../client", False),
        ("https://desk.example/a/%2e%2E/client", False),
        ("https://desk.example/client#part", False),
        ("https://user@desk.example/client", False),
        ("https://desk.example:x/client", False),
        ("https://desk.example\\client/x", False),
        ("https://desk.example/cli ent", False),
        ("https:///client", False),
        ("a-registered-id", False),
    ],
)
def test_which_client_ids_are_urls_of_documents(client_id: str, expected: bool) -> None:
    assert is_document_url(client_id) is expected
