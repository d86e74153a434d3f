"""Tests clients that describe themselves in a document, and what the service refuses to read."""

import asyncio
import codecs
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

from seller_platform.service.errors import ApiError
from seller_platform.service.http.addresses import is_public
from seller_platform.service.limits import Limits
from seller_platform.service.oauth.client_documents import MOST_LOOKS, ClientDocuments, is_document_url
from seller_platform_tests.support.client_documents import Documents
from seller_platform_tests.support.served import BOB, PKCE, VERIFIER, Served, approve, running_app, submit
from seller_platform_tests.support.waiting import wait_for

_HERE = "http://localhost:51004/callback"
_NUMBERS = count()


def _path() -> str:
    """Return the path of a document that no service has read."""
    return f"/client/{next(_NUMBERS)}"


@pytest.fixture(scope="module")
def trusting(reading: Served) -> Iterator[Served]:
    """A service that may read documents of the loopback."""
    with running_app(reading.database.url, private_client_hosts=("localhost",)) as base_url:
        yield replace(reading, base_url=base_url)


def _consent(service: Served, browser: httpx.Client, client_id: str, redirect_uri: str = _HERE) -> httpx.Response:
    return service.request_code(browser, client_id=client_id, redirect_uri=redirect_uri, **PKCE)


def test_a_client_with_a_document_gets_tokens_until_its_access_is_ended(trusting: Served, documents: Documents) -> None:
    client_id = documents.publish()
    documents.requested.clear()
    with trusting.client() as browser:
        login = _consent(trusting, browser, client_id)
        before = list(documents.requested)
        page, answer = approve(browser, login)
        code = httpx.URL(answer.headers["location"]).params["code"]
        own = replace(trusting, client_id=client_id, client_secret="")
        pair = own.exchange(browser, code, redirect_uri=_HERE, code_verifier=VERIFIER).json()
        refreshed = own.refresh(browser, pair["refresh_token"])
        read = trusting.status_of(refreshed.json()["access_token"])
        metadata = browser.get("/.well-known/oauth-authorization-server").json()
        links = re.findall('href="(/admin/applications/[^"]+)"', browser.get("/admin/applications").text)
        submit(browser, browser.get(next(link for link in links if quote(client_id, "") in link)))
    is_valid = "SELECT revoked_at IS NULL FROM service.authorizations WHERE client_id = %s"

    assert trusting.stored(is_valid, client_id) == [(False,)]
    assert before == []  # nothing is read for strangers
    assert documents.requested == ["/client"]
    assert urlsplit(client_id).netloc in page.text
    assert "Allow <strong>Desk</strong>" in page.text
    assert "a program on your own" in page.text
    assert answer.headers["location"].startswith(f"{_HERE}?code=")
    assert (read, metadata["client_id_metadata_document_supported"]) == (200, True)


def _stored(service: Served, client_id: str) -> list[tuple[Any, ...]]:
    return service.stored("SELECT name FROM service.applications WHERE client_id = %s", client_id)


def test_a_document_is_stored_as_it_was_approved(trusting: Served, documents: Documents, user: httpx.Client) -> None:
    client_id = documents.publish("/changing")
    documents.requested.clear()
    looked_at = [_consent(trusting, user, client_id).text for _ in range(2)]
    before = _stored(trusting, client_id)
    submit(user, _consent(trusting, user, client_id), decision="deny")
    denied = _stored(trusting, client_id)
    documents.publish("/changing", client_name="Another name")
    submit(user, _consent(trusting, user, client_id), decision="approve")
    approved = _stored(trusting, client_id)
    kept = _consent(trusting, user, client_id)
    with trusting.logged_in(BOB) as other:
        changed = _consent(trusting, other, client_id)
        still = _stored(trusting, client_id)
        submit(other, changed, decision="approve")

    assert all("Allow <strong>Desk</strong>" in page for page in (*looked_at, kept.text))
    assert "Allow <strong>Another name</strong>" in changed.text
    assert (before, denied, approved, still) == ([], [], [("Desk",)], [("Desk",)])
    assert _stored(trusting, client_id) == [("Another name",)]
    assert documents.requested == ["/changing"] * 2


@pytest.mark.parametrize(
    "changed",
    [
        {"token_endpoint_auth_method": None},
        {"token_endpoint_auth_method": ["private_key_jwt", "none"]},
        {
            "token_endpoint_auth_method": "private_key_jwt",
            "token_endpoint_auth_methods_supported": ["private_key_jwt", "none"],
            "jwks_uri": "https://desk.example/keys",
        },
        {"redirect_uris": [_HERE, "javascript://x/", "http://app.example/", "http://[", "com.example.desk:/callback"]},
        {"redirect_uris": [_HERE, *(f"http://localhost/{number}" for number in range(99))]},
    ],
)
def test_a_document_is_usable_if_one_of_what_it_offers_is(
    trusting: Served, documents: Documents, changed: dict[str, Any], user: httpx.Client
) -> None:
    page = _consent(trusting, user, documents.publish(_path(), **changed))

    assert "Allow <strong>Desk</strong>" in page.text


def test_a_mark_and_a_scheme_of_one_word_are_taken(trusting: Served, documents: Documents, user: httpx.Client) -> None:
    uri = "cursor://desk.app/callback"
    client_id = documents.publish(path := _path(), redirect_uris=[uri])
    documents.answers[path] = codecs.BOM_UTF8 + json.dumps(documents.answers[path]).encode()
    page = _consent(trusting, user, client_id, uri)
    answer = submit(user, page, decision="approve")

    assert "came here from <strong>cursor</strong>" in page.text
    assert answer.headers["location"].startswith(f"{uri}?code=")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"client_id": "https://other.example/client"}, "names another client_id than its own address"),
        ({"client_name": None}, "has no client_name"),
        ({"client_name": ["Desk"]}, "has no client_name"),
        ({"client_name": "A\u202eB"}, "its name must have 1 to 100 printable characters"),
        ({"redirect_uris": None}, "has no redirect_uris"),
        ({"redirect_uris": "http://localhost/callback"}, "has no redirect_uris"),
        ({"redirect_uris": []}, "must be an absolute URI"),
        ({"redirect_uris": ["http://["]}, "must be a URI"),
        ({"redirect_uris": ["http://app.example/"]}, "must be https"),
        ({"redirect_uris": ["javascript://desk/%0aalert(1)"]}, "an app&#39;s own scheme, which has a period"),
        ({"redirect_uris": [f"http://localhost/{n}" for n in range(101)]}, "at most 100; there are 101"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "offers only the method &#39;private_key_jwt&#39;"),
        ({"token_endpoint_auth_methods_supported": ["a", "b"]}, "the method &#39;a&#39; and &#39;b&#39;"),
        ({"padding": "x" * (16 << 10)}, "is larger than 16 KiB"),
        (b"[]", "is no JSON object"),
        (b"{", "is not JSON"),
        (b"\xff", "must be UTF-8"),
    ],
)
def test_a_document_that_cannot_be_used_is_refused_with_what_is_accepted(
    trusting: Served, documents: Documents, changed: dict[str, Any] | bytes, problem: str, user: httpx.Client
) -> None:
    client_id = documents.publish(path := _path(), **(changed if isinstance(changed, dict) else {}))
    if isinstance(changed, bytes):
        documents.answers[path] = changed
    page = _consent(trusting, user, client_id)

    assert page.status_code == 400
    assert problem in page.text
    assert "Accepted is a JSON object of at most 16 KiB with client_id, which is its own address" in page.text
    assert _stored(trusting, client_id) == []


@pytest.mark.parametrize(
    ("answer", "problem"),
    [(b"redirect", "with status 302"), (b"compressed", "is compressed"), (b"", "is not JSON"), (None, "status 404")],
)
def test_a_document_that_fails_is_read_once_a_minute(
    trusting: Served, documents: Documents, answer: bytes | None, problem: str, user: httpx.Client
) -> None:
    client_id = documents.url + (path := _path())
    if answer is not None:
        documents.answers[path] = answer
    documents.requested.clear()
    pages = [_consent(trusting, user, client_id) for _ in range(3)]

    assert [(page.status_code, problem in page.text) for page in pages] == [(400, True)] * 3
    assert documents.requested == [path]


def test_what_users_look_at_is_kept_for_a_time_and_bounded(documents: Documents) -> None:
    urls = [documents.publish(_path()) for _ in range(MOST_LOOKS + 2)]
    broken, now = f"{documents.url}/nothing", [0.0]

    async def looked() -> dict[str, list[str]]:
        looks, counts = ClientDocuments(("localhost",), monotonic=lambda: now[0]), {}

        async def requested(*asked: tuple[int, str]) -> list[str]:
            documents.requested.clear()
            await asyncio.gather(*(looks.read(*each) for each in asked), return_exceptions=True)
            return [documents.url + path for path in documents.requested]

        counts["at once"] = await requested((1, urls[0]), (1, urls[0]))
        counts["broken"] = await requested((2, broken))
        for url in urls[1:]:
            await requested((1, url))
        counts["the first"] = await requested((1, urls[0]))
        counts["the newest"] = await requested((1, urls[-1]))
        counts["another user"] = await requested((3, urls[-1]))
        now[0] = 59.0
        counts["broken after 59 s"] = await requested((2, broken))
        now[0] = 61.0
        counts["broken after 61 s"] = await requested((2, broken))
        now[0] = 3_601.0
        counts["an hour later"] = await requested((1, urls[-1]))
        answers = await asyncio.gather(*(looks.read(4, url) for url in urls), return_exceptions=True)
        refused = [isinstance(answer, ApiError) and answer.status == 429 for answer in answers]
        counts["too many at once"] = [url for url, each in zip(urls, refused, strict=True) if each]
        return counts

    assert asyncio.run(looked()) == {
        "at once": urls[:1],
        "broken": [broken],
        "the first": urls[:1],
        "the newest": [],
        "another user": urls[-1:],
        "broken after 59 s": [],
        "broken after 61 s": [broken],
        "an hour later": urls[-1:],
        "too many at once": urls[MOST_LOOKS:],
    }


def test_no_turn_is_held_while_a_document_is_awaited(reading: Served, documents: Documents) -> None:
    narrow = Limits(pages_at_once=1, quick_at_once=1)
    clients = [documents.publish(_path()) for _ in range(4)]
    for client_id in clients:
        documents.answers[urlsplit(client_id).path] = b"slow"
    documents.requested.clear()
    documents.released.clear()
    with (
        running_app(reading.database.url, private_client_hosts=("localhost",), limits=narrow) as base_url,
        replace(reading, base_url=base_url).logged_in() as browser,
        ThreadPoolExecutor(4) as threads,
    ):
        service = replace(reading, base_url=base_url)
        looks = [threads.submit(_consent, service, browser, client_id) for client_id in clients]
        wait_for(lambda: len(documents.requested) == 4)
        beside = [service.refresh(browser, "unknown").status_code, browser.get("/login").status_code]
        documents.released.set()
        pages = [look.result() for look in looks]

    assert beside == [400, 200]
    assert {page.status_code for page in pages} == {400}  # the answers were empty, or late


def test_a_document_at_a_private_address_is_not_read(reading: Served, documents: Documents, user: httpx.Client) -> None:
    client_id = documents.publish("/unread")
    documents.requested.clear()
    page = _consent(reading, user, client_id)
    metadata = _consent(reading, user, "https://169.254.169.254/latest/meta-data")

    assert (page.status_code, metadata.status_code, documents.requested) == (400, 400, [])
    assert "is at an address that is not public" in page.text
    assert "is at an address that is not public" in metadata.text


def test_which_addresses_are_public() -> None:
    public = ("93.184.216.34", "2606:4700::1111", "::ffff:93.184.216.34")
    private = (
        *("127.0.0.1", "0.0.0.0", "10.1.2.3", "100.64.0.1", "169.254.169.254", "192.168.0.1", "224.0.0.1"),
        *("255.255.255.255", "::1", "::", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001::7f00:1"),
        *("fe80::1", "fec0::1", "fd00::1", "ff02::1"),
    )

    assert [address for address in (*public, *private) if is_public(address)] == [*public]


def test_which_client_ids_are_urls_of_documents() -> None:
    urls = ("https://desk.example/client.json", "https://desk.example:8443/a/b?v=1")
    others = (
        *("https://desk.example/", "https://desk.example", "http://desk.example/client", "HTTPS://desk.example/client"),
        *("https://desk.example/a/../client", "https://desk.example/a/%2e%2E/client", "https://desk.example/c#part"),
        *("https://user@desk.example/client", "https://desk.example:x/client", "https://desk.example\\client/x"),
        *("https://desk.example/cli ent", "https:///client", "a-registered-id"),
    )

    assert [each for each in (*urls, *others) if is_document_url(each)] == [*urls]
