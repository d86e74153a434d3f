"""Tests which sentences are of one cause, what is posted of them, and that URLs stay secret."""

import logging
import socket

import pytest

from seller_platform.alerts.messages import redacted, slack_payload, without_names
from seller_platform.alerts.webhook import post_message
from seller_platform.errors import WebhookError
from seller_platform_tests.support.http_upstream import FakeTime
from seller_platform_tests.support.receiver import webhook_receiver


def test_a_redacted_text_has_no_secrets() -> None:
    text = "postgresql://me:hidden@db/x, https://user@host, Authorization: Bearer abc.def-1==, key canary"

    assert redacted(text, ["canary", ""]) == (
        "postgresql://***@db/x, https://***@host, Authorization: Bearer ***, key ***"
    )


def test_a_payload_for_slack_has_its_markup_escaped() -> None:
    payload = slack_payload("Run failed: <a> & b\nwhy <!channel>")

    markdown = {"type": "mrkdwn", "text": "*Run failed: &lt;a&gt; &amp; b*\nwhy &lt;!channel&gt;"}
    blocks = [{"type": "section", "text": markdown}]
    assert payload == {"text": "Run failed: &lt;a&gt; &amp; b\nwhy &lt;!channel&gt;", "blocks": blocks}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("GET /sales/orders: status 503 after 6 attempts", "GET /sales/transactions: status 503 after 6 attempts"),
        ("orders of us-1: 3 pages", "orders of de-2: 17 pages"),
        ("it ends with us-1.", "it ends with de-2."),
        ("its day lies on 2026-01-01 in Europe/Berlin", "its day lies on 2025-12-31 in America/Los_Angeles"),
        ("from 1,204.50 to 1,300.00", "from 7 to 8"),
    ],
)
def test_a_cause_leaves_out_accounts_zones_requests_and_numbers(one: str, other: str) -> None:
    assert without_names(one, ["us-1"]) == without_names(other, ["de-2"])


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


def test_a_proxy_that_cannot_be_used_is_named_and_the_url_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.example")

    with pytest.raises(WebhookError, match="ALL_PROXY") as raised:
        post_message("https://hooks.example/canary", {}, clock=FakeTime().clock)

    assert "canary" not in str(raised.value)
