"""Tests which failures share a cause, how messages wait for the webhook, and what is sent."""

from datetime import UTC, datetime, timedelta

import pytest

from seller_platform.orchestration.alerting.causes import Failure
from seller_platform.orchestration.alerting.delivery import Outbox, redacted, slack_payload

NOW = datetime(2026, 5, 20, tzinfo=UTC)


def test_messages_wait_longer_after_each_attempt_and_the_oldest_is_dropped() -> None:
    outbox = Outbox()
    dropped = [message.text for number in range(102) for message in outbox.add_message(f"message {number}", NOW)]

    assert dropped == ["message 0", "message 1"]
    assert len(outbox.messages) == 100
    message, pauses = outbox.messages[0], []
    for _ in range(9):
        message = message.put_off(NOW)
        assert message.not_before is not None
        pauses.append((message.not_before - NOW).total_seconds())
    assert pauses == [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]
    assert not message.is_due(NOW + timedelta(minutes=29))
    assert message.is_due(NOW + timedelta(minutes=30))


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


def failure(kind: str, sentence: str, *, subject: str = "seller/orders", account: str = "us-1") -> Failure:
    return Failure(kind, subject, sentence, accounts=[account])


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
    of_another = failure("failed", other, subject="seller/transactions", account="de-2")

    assert failure("failed", one).cause == of_another.cause
