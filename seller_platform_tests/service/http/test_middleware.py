"""Tests the middleware of every request: ids, the access log, and failures."""

import asyncio
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


def test_the_access_log_has_a_line_for_each_request_and_no_secret(
    service: Served, caplog: pytest.LogCaptureFixture
) -> None:
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
    for secret in (
        code,
        *pair.values(),
        service.client_secret,
        PASSWORD,
        ANN,
        *cookies,
        "secret-state",
        "in-the-query",
    ):
        assert str(secret) not in messages or secret in ("Bearer", 1_296_000), secret
