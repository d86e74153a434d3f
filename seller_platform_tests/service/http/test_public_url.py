"""Tests that the public URL decides hosts, metadata, cookies and HSTS, and whom the service believes."""

from collections.abc import Iterator

import httpx
import pytest

from seller_platform.service.http.public_url import ON_LOOPBACK, Location
from seller_platform_tests.support.served import PASSWORD, Served, running_app, submit
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

PUBLIC = "https://api.shop.example"
HERE = {"Host": "api.shop.example"}
METADATA = "/.well-known/oauth-authorization-server"


@pytest.fixture(scope="module")
def public(reading: Served) -> Iterator[str]:
    """The address of a service behind a TLS proxy, which is not on this machine."""
    with running_app(reading.database.url, location=Location(PUBLIC)) as base_url:
        yield base_url


@pytest.mark.parametrize(
    ("location", "host", "expected"),
    [
        (ON_LOOPBACK, "localhost:8700", "http://localhost:8700"),
        (ON_LOOPBACK, "LocalHost", "http://localhost"),
        (ON_LOOPBACK, "[::1]:1", "http://[::1]:1"),
        (ON_LOOPBACK, "127.0.0.1.evil.example", None),
        (ON_LOOPBACK, "evil.example", None),
        (ON_LOOPBACK, "localhost/x", None),
        (ON_LOOPBACK, "a@localhost", None),
        (ON_LOOPBACK, "localhost:x", None),
        (ON_LOOPBACK, 'localhost"', None),
        (ON_LOOPBACK, "", None),
        (ON_LOOPBACK, "[", None),
        (Location(None, "10.0.0.7"), "10.0.0.7:8700", "http://10.0.0.7:8700"),
        (Location(None, "fd00::7"), "[fd00::7]:8700", "http://[fd00::7]:8700"),
        (Location(PUBLIC), "api.shop.example", PUBLIC),
        (Location(PUBLIC), "API.shop.example:443", PUBLIC),
        (Location(PUBLIC), "api.shop.example:80", None),
        (Location(PUBLIC), "localhost", None),
        (Location("http://intra:8080"), "intra:8080", "http://intra:8080"),
        (Location("http://intra:8080"), "intra", None),
    ],
)
def test_a_host_is_served_or_not(location: Location, host: str, expected: str | None) -> None:
    assert location.base_url("http", host) == expected


def test_what_is_not_defended_is_named() -> None:
    loopback = (Location(), Location(listened_host="::1"), Location("http://localhost:8700"))
    for location in (*loopback, Location("https://api.example.com")):
        assert location.undefended is None
    unencrypted = Location("http://api.example.com")
    for location in (Location("https://api.example.com", "0.0.0.0"), Location(listened_host="::"), unencrypted):
        assert location.undefended


def test_a_request_for_another_host_gets_421_as_json_or_a_page(public: str, reading: Served) -> None:
    for base_url, host in ((public, "evil.example"), (public, "127.0.0.1"), (reading.base_url, "evil.example")):
        for path in ("/user/me", METADATA, "/openapi.json", "/nothing"):
            answer = httpx.get(f"{base_url}{path}", headers={"Host": host}, timeout=PATIENCE_SECONDS)
            assert (answer.status_code, answer.json()["code"]) == (421, 421), (path, host)
        page = httpx.get(f"{base_url}/login", headers={"Host": host, "Accept": "text/html"}, timeout=PATIENCE_SECONDS)
        assert (page.status_code, page.headers["content-type"]) == (421, "text/html; charset=utf-8")
        assert "set-cookie" not in page.headers
    assert PUBLIC in httpx.get(f"{public}/user/me", timeout=PATIENCE_SECONDS).json()["message"]
    of_health = httpx.get(f"{public}/service-status", headers={"Host": "10.2.3.4:8700"}, timeout=PATIENCE_SECONDS)
    assert of_health.status_code == 200


def test_metadata_documents_cookies_and_hsts_follow_the_public_url(public: str, reading: Served) -> None:
    with httpx.Client(
        base_url=public, timeout=PATIENCE_SECONDS, headers={**HERE, "X-Forwarded-Proto": "http"}
    ) as browser:
        metadata = browser.get(METADATA).json()
        document = browser.get("/openapi.json").json()
        page = browser.get("/login")
        docs = browser.get("/docs").text

    assert metadata["issuer"] == PUBLIC
    assert metadata["token_endpoint"] == f"{PUBLIC}/oauth/token"
    assert document["servers"] == [{"url": PUBLIC}]
    assert f"{PUBLIC}/user/me" in docs
    assert page.headers["set-cookie"].startswith("__Host-")
    assert "; Secure" in page.headers["set-cookie"]
    assert page.headers["strict-transport-security"] == "max-age=31536000"
    assert "strict-transport-security" not in httpx.get(f"{reading.base_url}/login", timeout=PATIENCE_SECONDS).headers


def test_only_a_trusted_proxy_is_believed(public: str, reading: Served) -> None:
    """No program of this machine is one, unless it is named."""
    forged = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example", "X-Forwarded-For": "198.51.100.7"}
    with running_app(reading.database.url, trusted_proxies=("127.0.0.1",)) as behind_a_proxy:
        believed = httpx.get(f"{behind_a_proxy}/login", headers=forged, timeout=PATIENCE_SECONDS)
        metadata = httpx.get(f"{behind_a_proxy}{METADATA}", headers=forged, timeout=PATIENCE_SECONDS).json()
    with reading.client() as browser:
        unbelieved = browser.get("/login", headers=forged)
    with httpx.Client(base_url=public, timeout=PATIENCE_SECONDS, headers={**HERE, **forged}) as browser:
        page = browser.get("/login")
        browser.headers["Cookie"] = page.headers["set-cookie"].partition(";")[0]  # the jar keeps it for https
        answer = submit(browser, page, email="nobody@shop.example", password=PASSWORD)
    attempts = reading.stored("SELECT t::text FROM service.login_attempts AS t")

    assert "; Secure" in believed.headers["set-cookie"]
    assert believed.headers["set-cookie"].startswith("__Host-")
    assert metadata["issuer"] == behind_a_proxy.replace("http:", "https:")
    assert "; Secure" not in unbelieved.headers["set-cookie"]
    assert answer.status_code == 401
    assert "198.51.100.7" not in str(attempts)
    assert "127.0.0.1" in str(attempts)
