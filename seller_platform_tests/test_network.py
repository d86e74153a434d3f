"""Tests proxies, their exceptions, and certificates, over real sockets."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from seller_platform.client.http.api import SellerApi
from seller_platform.errors import InvalidSettingError, SellerPlatformError, UpstreamError, UpstreamUnavailableError
from seller_platform.network import except_this_machine, http_client, is_this_machine, proxy_of
from seller_platform_tests.structure.source import modules
from seller_platform_tests.support.http_upstream import FakeTime
from seller_platform_tests.support.raw_server import framed, sending

PROXY = "http://ann:canary@proxy.example:3128"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def api_at(url: str) -> SellerApi:
    return SellerApi(url, clock=FakeTime().clock, attempts=1)


def test_one_module_makes_clients_of_http() -> None:
    makes = re.compile(r"\bhttpx\.(Client|AsyncClient|HTTPTransport|get|post|request|stream)\(")

    assert [module.name for module in modules() if makes.search(module.text)] == ["seller_platform.network"]


@pytest.mark.parametrize(
    ("variables", "url", "variable"),
    [
        ({}, "https://api.example", None),
        ({"HTTP_PROXY": PROXY}, "http://api.example", "HTTP_PROXY"),
        ({"HTTP_PROXY": PROXY}, "https://api.example", None),
        ({"https_proxy": PROXY, "HTTPS_PROXY": "socks5://other"}, "https://api.example", "https_proxy"),
        ({"http_proxy": "", "ALL_PROXY": PROXY}, "http://api.example", "ALL_PROXY"),
        ({"HTTPS_PROXY": PROXY, "ALL_PROXY": "socks5://other"}, "https://api.example", "HTTPS_PROXY"),
        ({"HTTPS_PROXY": "proxy.example:3128"}, "https://api.example", "HTTPS_PROXY"),
    ],
)
def test_a_proxy_is_taken_from_its_variable(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], url: str, variable: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    proxy = proxy_of(url)

    assert (str(proxy) if proxy else None) == (f"the proxy proxy.example:3128 ({variable})" if variable else None)


@pytest.mark.parametrize("spelled", [str.lower, str.upper])
@pytest.mark.parametrize(
    ("entries", "excepted", "others"),
    [
        ("*", ["http://any.example"], []),
        ("api.example", ["http://api.example", "http://v1.API.example.:81"], ["http://rapi.example", "http://example"]),
        (".example", ["http://api.example", "http://example"], ["http://anexample"]),
        ("*.example", ["http://api.example"], ["http://api.example.org"]),
        ("a.test,api.example:8443 , b.test", ["https://api.example:8443"], ["https://api.example", "http://test"]),
        ("a.test api.example:80", ["http://api.example"], ["https://api.example"]),
        ("10.0.0.0/8", ["http://10.1.2.3:99", "http://[::ffff:10.0.0.1]"], ["http://11.0.0.1", "http://n10.example"]),
        ("10.1.2.3", ["http://10.1.2.3"], ["http://10.1.2.30"]),
        ("10.1.2.3:81", ["http://10.1.2.3:81"], ["http://10.1.2.3"]),
        ("fd00::/8", ["http://[fd12::1]"], ["http://[fe80::1]", "http://fd00.example"]),
        ("[fd00::1]:80,[fd00::2]", ["http://[fd00::1]", "http://[fd00::2]:9"], ["http://[fd00::1]:9"]),
        ("fd00::/999,<local>,host:x,[::1,api.example", ["http://api.example"], ["http://host"]),
    ],
)
def test_no_proxy_is_read_in_every_form(
    monkeypatch: pytest.MonkeyPatch, spelled: Callable[[str], str], entries: str, excepted: list[str], others: list[str]
) -> None:
    monkeypatch.setenv("ALL_PROXY", PROXY)
    monkeypatch.setenv(spelled("NO_PROXY"), spelled(entries))

    assert [url for url in excepted if proxy_of(url)] == []
    assert [url for url in others if not proxy_of(url)] == []


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "db.localhost",
        "127.0.0.1",
        "127.9.9.9",
        "127.1",
        "[::1]",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
    ],
)
def test_this_machine_is_never_reached_through_a_proxy(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    for name in ("HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert is_this_machine(host.strip("[]"))
    assert [proxy_of(url) for url in (f"http://{host}/x", f"https://{host}:3000")] == [None, None]
    assert not is_this_machine("127.example.com")


@pytest.mark.parametrize(
    ("given", "extended"),
    [
        ({"PATH": "x"}, {}),
        ({"HTTP_PROXY": "x"}, "localhost,127.0.0.1,::1"),
        ({"http_proxy": "x", "no_proxy": "a.test b.test,localhost"}, "a.test,b.test,localhost,127.0.0.1,::1"),
        ({"all_proxy": "x", "NO_PROXY": "*"}, {"NO_PROXY": "*"}),
    ],
)
def test_other_programs_except_this_machine_too(given: dict[str, str], extended: str | dict[str, str]) -> None:
    environment = {**given}

    except_this_machine(environment)

    added = {"no_proxy": extended, "NO_PROXY": extended} if isinstance(extended, str) else extended
    assert environment == given | added


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("socks5://ann:canary@proxy.example:1080", "ALL_PROXY: it names a SOCKS proxy, .* NO_PROXY"),
        ("SOCKS5H://proxy.example", "ALL_PROXY: it names a SOCKS proxy"),
        ("ftp://ann:canary@proxy.example", "ALL_PROXY: it is not the URL of a proxy"),
        ("http://", "ALL_PROXY: it is not the URL of a proxy"),
        ("http://ann:canary@proxy:x", "ALL_PROXY: it is not the URL of a proxy"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_an_error_that_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, value: str, problem: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", value)

    for ask in (lambda: api_at("https://api.example"), lambda: http_client("http://api.example")):
        with pytest.raises(InvalidSettingError, match=problem):
            ask()
    with sending(framed(b"[]")) as url, api_at(url) as api:
        assert api.get("/user/me").body == b"[]"


@pytest.mark.parametrize(
    ("scheme", "answer", "kind", "problem"),
    [
        ("http", None, UpstreamUnavailableError, "no answer from {proxy}, for api.example .the connection was refused"),
        (
            "https",
            None,
            UpstreamUnavailableError,
            "no answer from {proxy}, for api.example .the connection was refused",
        ),
        ("http", "407 Login", InvalidSettingError, "{proxy} refused the request .* 407: write its user and password"),
        ("https", "407 Login", InvalidSettingError, "{proxy} refused the request .* 407: write its user and password"),
        ("https", "403 Forbidden", InvalidSettingError, "{proxy} refused the request to api.example .* NO_PROXY"),
        ("http", "403 Forbidden", UpstreamError, "answered 403: it gave no reason through {proxy}"),
        ("http", "502 Bad", UpstreamUnavailableError, "status 502 through {proxy}"),
        ("https", "502 Bad", UpstreamUnavailableError, "no answer from api.example through {proxy} .502 Bad"),
    ],
)
def test_a_refusal_by_the_proxy_names_it(
    monkeypatch: pytest.MonkeyPatch, scheme: str, answer: str | None, kind: type[SellerPlatformError], problem: str
) -> None:
    with sending(framed(b"", status=answer or "")) as url:
        address = url.removeprefix("http://") if answer else "127.0.0.1:9"
        monkeypatch.setenv("ALL_PROXY", f"http://ann:canary@{address}")
        with (
            api_at(f"{scheme}://api.example") as api,
            pytest.raises(kind, match=problem.format(proxy=rf"the proxy {address} \(ALL_PROXY\)")) as raised,
        ):
            api.get("/user/me")

    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "file", "problem"),
    [
        ("SSL_CERT_FILE", "nowhere", "there is no file"),
        ("SSL_CERT_DIR", "nowhere", "no folder"),
        ("SSL_CERT_FILE", "empty.pem", r"empty\.pem has no certificates"),
    ],
)
def test_certificates_that_are_not_there_are_an_error_of_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, file: str, problem: str
) -> None:
    (tmp_path / "empty.pem").write_text("no certificate")
    monkeypatch.setenv(name, str(tmp_path / file))

    with pytest.raises(InvalidSettingError, match=f"{name}: .*{problem}"):
        http_client("https://api.example")
    http_client("http://api.example").close()
