"""Tests what every answer passes through: request ids, the access log, failures, and compression."""

import asyncio
import gzip
import json
import logging

import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send

from seller_platform.service.http.middleware import Envelop
from seller_platform.service.http.responses import error_answer
from seller_platform.service.metrics import Measures
from seller_platform_tests.support.served import ANN, CALLBACK, PASSWORD, Served, submit


def _enveloped(app: ASGIApp) -> Envelop:
    return Envelop(app, measures=Measures(CollectorRegistry()), answer_error=lambda _, error: error_answer(error))


def _ask(app: ASGIApp) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/x", headers={"X-Request-Id": "mine"})

    return asyncio.run(ask())


def test_a_failure_is_logged_and_answered_under_the_request_id(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("what broke")

    with caplog.at_level(logging.INFO, logger="seller_platform.service.access"):
        answer = _ask(_enveloped(broken))

    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "mine")
    assert answer.json()["status"] == "error"
    assert "what broke" not in answer.text
    failed = next(record for record in caplog.records if record.levelno == logging.ERROR)
    assert failed.getMessage() == "request mine failed"
    assert failed.exc_info
    assert any("GET /x 500" in record.getMessage() for record in caplog.records)


def test_a_failure_in_the_middle_of_an_answer_is_not_dressed_up_as_its_end() -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"[1,", "more_body": True})
        raise RuntimeError("what broke")

    with pytest.raises(RuntimeError, match="what broke"):
        _ask(_enveloped(broken))


def test_the_access_log_has_each_request_and_no_secret(service: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), service.client() as browser:
        code = service.code(browser, state="secret-state")
        pair = service.exchange(browser, code).json()
        browser.post("/oauth/revoke", data={"token": pair["refresh_token"], **service.credentials})
        browser.get("/user/me", params={"access_token": "in-the-query"}, headers={"X-Request-Id": "an-id"})
        submit(browser, browser.get("/admin/developers/new"), name="App", redirect_uri=CALLBACK)
        cookies = list(browser.cookies.values())
        browser.get("/log%0ainjected%1b%0d")

    lines = [record.getMessage() for record in caplog.records if record.name == "seller_platform.service.access"]
    messages = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("seller_platform"))
    assert any(line.startswith("POST /oauth/token 200 ") for line in lines)
    assert any(line.startswith("GET /user/me 401 ") and line.endswith(" an-id") for line in lines)
    assert all(len(line.splitlines()) == 1 for line in lines)
    secrets = (code, pair["access_token"], pair["refresh_token"], service.client_secret, PASSWORD, ANN, *cookies)
    for secret in (*secrets, pair["scope"], "secret-state", "in-the-query"):
        assert secret not in messages, secret


SMALLEST = 1 << 10
LIST = "/warehouse/list?account_title=Shop%20US&per_page=100"


def _raw(client: httpx.Client, path: str, accepted: str | None, method: str = "GET") -> tuple[httpx.Response, bytes]:
    """Return an answer and its body before decompression."""
    headers = {"Accept-Encoding": accepted} if accepted is not None else {}
    request = client.build_request(method, path, headers=headers)
    if accepted is None:
        del request.headers["Accept-Encoding"]
    answer = client.send(request, stream=True)
    body = b"".join(answer.iter_raw())
    answer.close()
    return answer, body


def test_a_large_list_is_compressed_for_those_who_accept_it(reading: Served, ann: httpx.Client) -> None:
    plain, plain_body = _raw(ann, LIST, "identity")
    packed, packed_body = _raw(ann, LIST, "gzip, deflate, br")
    unasked, _ = _raw(ann, LIST, None)

    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) == len(packed_body) < len(plain_body) / 2
    assert json.loads(gzip.decompress(packed_body)) == json.loads(plain_body)
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in unasked.headers
    assert {answer.headers["vary"] for answer in (plain, packed, unasked)} == {"Accept-Encoding"}


@pytest.mark.parametrize(
    "path", ["/docs", "/openapi.json", "/static/style.css", "/favicon.ico", "/.well-known/oauth-authorization-server"]
)
def test_a_public_document_is_kept_by_caches_for_an_hour(reading: Served, path: str, browser: httpx.Client) -> None:
    plain, plain_body = _raw(browser, path, "identity")
    packed, packed_body = _raw(browser, path, "gzip")
    tag = plain.headers["etag"]
    unchanged = browser.get(path, headers={"If-None-Match": f'"other", {tag}'})
    changed = browser.get(path, headers={"If-None-Match": '"other"'})

    for answer in (plain, packed, unchanged):
        assert answer.headers["cache-control"] == "public, max-age=3600"
        assert answer.headers["etag"] == tag
    assert "content-encoding" not in plain.headers
    assert ("content-encoding" in packed.headers) is (len(plain_body) >= SMALLEST)
    assert len(packed_body) == int(packed.headers["content-length"]) <= len(plain_body)
    assert (gzip.decompress(packed_body) if "content-encoding" in packed.headers else packed_body) == plain_body
    assert (unchanged.status_code, unchanged.content, changed.content) == (304, b"", plain_body)


def test_answers_with_secrets_are_not_compressed(reading: Served, browser: httpx.Client) -> None:
    login, body = _raw(browser, "/login", "gzip")
    assert len(body) > SMALLEST
    submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
    developers, _ = _raw(browser, "/admin/developers", "gzip")
    with reading.client() as other:
        tokens = reading.exchange(browser, reading.code(other))

    for answer in (login, developers, tokens):
        assert answer.headers["cache-control"] == "no-store"
        assert "content-encoding" not in answer.headers
