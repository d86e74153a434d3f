"""Tests that webhook messages are retried after passing faults, and URLs stay secret."""

import logging
import socket

import pytest

from seller_platform.alerts.webhook import post_message
from seller_platform.errors import WebhookError
from seller_platform_tests.support.http_upstream import FakeTime
from seller_platform_tests.support.receiver import webhook_receiver


def test_a_message_arrives_as_json() -> None:
    with webhook_receiver() as receiver:
        post_message(receiver.url, {"text": "Größe & <b>"})

    assert receiver.documents == [{"text": "Größe & <b>"}]


def test_a_passing_fault_is_survived() -> None:
    with webhook_receiver() as receiver:
        receiver.answers = [503]
        post_message(receiver.url, {"text": "told"}, clock=FakeTime().clock)

    assert (receiver.texts, receiver.refused) == (["told"], 1)


@pytest.mark.parametrize("status", [301, 400, 403, 404, 410])
def test_a_refusal_is_not_posted_again(status: int) -> None:
    with webhook_receiver() as receiver:
        receiver.answers = [status]
        with pytest.raises(WebhookError, match=rf"127\.0\.0\.1 took no message: it answered {status}"):
            post_message(receiver.url, {"text": "told"})

    assert (receiver.texts, receiver.refused) == ([], 1)


def test_the_url_is_in_no_error_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/services/T000/canary-secret"
        with pytest.raises(WebhookError) as raised:
            post_message(url, {"text": "told"}, clock=FakeTime().clock)
    with webhook_receiver() as receiver:
        post_message(receiver.url, {"text": "told"})

    assert "(the connection was refused) after 2 attempts" in str(raised.value)
    assert "SELLER_PLATFORM_ALERT_WEBHOOK_URL" in str(raised.value)
    assert "canary-secret" not in str(raised.value) + caplog.text


def test_a_webhook_behind_a_proxy_is_reached_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook_receiver() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("NO_PROXY", "localhost")
        post_message("http://hooks.example/services/T000/canary-secret", {"text": "told"})

    assert proxy.texts == ["told"]


def test_a_proxy_that_cannot_be_used_is_named_and_the_url_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.example")

    with pytest.raises(WebhookError, match="ALL_PROXY") as raised:
        post_message("https://hooks.example/canary", {}, clock=FakeTime().clock)

    assert "canary" not in str(raised.value)
