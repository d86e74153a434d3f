"""Tests which failures share a cause, and how many causes and messages a cursor keeps."""

from datetime import UTC, datetime, timedelta

import pytest

from seller_platform.orchestration.alerting.causes import (
    RUN,
    Alerts,
    Failure,
    cause_of,
    redacted,
    resolved_text,
    slack_payload,
)

NOW = datetime(2026, 5, 20, tzinfo=UTC)
ACCOUNTS = frozenset({"A1.US", "B2.DE"})


def failure(cause: str, *, subject: str = "seller/orders", partition: str = "A1.US", event_id: int = 1) -> Failure:
    return Failure(RUN, cause, subject, partition, f"{cause} happened", "run", event_id, NOW)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("GET /sales/orders: status 503 after 6 attempts", "GET /sales/transactions: status 503 after 6 attempts"),
        ("orders of A1.US: 3 pages", "orders of B2.DE: 17 pages"),
        ("it ends with A1.US.", "it ends with B2.DE."),
        ("its day lies on 2026-01-01 in Europe/Berlin", "its day lies on 2025-12-31 in America/Los_Angeles"),
        ("from 1,204.50 to 1,300.00", "from 7 to 8"),
    ],
)
def test_a_cause_leaves_out_accounts_zones_requests_and_numbers(one: str, other: str) -> None:
    assert cause_of(RUN, "seller/orders", one, ACCOUNTS) == cause_of(RUN, "seller/transactions", other, ACCOUNTS)


def test_a_cause_has_the_sentence_the_connection_and_the_asset_of_a_check() -> None:
    causes = [
        cause_of(RUN, "seller/orders", "connection 'one' must be authorised again", ACCOUNTS),
        cause_of(RUN, "seller/orders", "connection 'two' must be authorised again", ACCOUNTS),
        cause_of("Check", "seller/orders, row_count", "mismatch: 3 rows", ACCOUNTS),
        cause_of("Check", "seller/inventory, row_count", "mismatch: 3 rows", ACCOUNTS),
        cause_of("Warning: check", "seller/orders, row_count", "mismatch: 3 rows", ACCOUNTS),
    ]

    assert len(set(causes)) == len(causes)


def test_a_cause_stays_open_until_no_partition_is_failed() -> None:
    alerts = Alerts(0)
    for number in range(30):
        alerts.add(failure("cause", partition=f"P{number}"))
    cause = alerts.causes["cause"]

    for number in range(10):
        alerts.resolve("seller/orders", f"P{number}")
    assert (cause.is_resolved, cause.to_look_up) == (False, ["seller/orders"])

    cause.remember("seller/orders", {f"P{number}": 1 for number in range(10, 30)})
    assert (cause.to_look_up, cause.affected) == ([], {"seller/orders": 20})

    for number in range(10, 20):
        alerts.resolve("seller/orders", f"P{number}")
    cause.remember("seller/orders", {})
    alerts.forget(NOW)
    assert alerts.causes == {}


def test_a_resolved_message_says_what_is_still_failed_for_another_cause() -> None:
    alerts = Alerts(0)
    alerts.add(failure("one", partition="A1.US"))
    alerts.add(failure("other", partition="B2.DE"))

    alerts.resolve("seller/orders", "A1.US")

    one, other = alerts.causes["one"], alerts.causes["other"]
    assert resolved_text(one, [other]) == (
        "Resolved: seller/orders\nIt was: one happened\n"
        "Still failed, for other causes: seller/orders (1): other happened"
    )


def test_causes_are_forgotten_after_14_days_and_above_500() -> None:
    alerts = Alerts(0)
    for number in range(600):
        alerts.add(failure(f"cause {number}"))

    alerts.forget(NOW + timedelta(days=13))
    assert len(alerts.causes) == 500
    alerts.forget(NOW + timedelta(days=14))
    assert alerts.causes == {}


def test_messages_wait_longer_after_each_attempt_and_the_oldest_is_dropped() -> None:
    alerts = Alerts(0)
    dropped = [message.text for number in range(102) for message in alerts.add_message(f"message {number}", NOW)]

    assert dropped == ["message 0", "message 1"]
    assert len(alerts.messages) == 100
    message, pauses = alerts.messages[0], []
    for _ in range(9):
        message = message.put_off(NOW)
        assert message.not_before is not None
        pauses.append((message.not_before - NOW).total_seconds())
    assert pauses == [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]
    assert not message.is_due(NOW + timedelta(minutes=29))
    assert message.is_due(NOW + timedelta(minutes=30))


def test_alerts_are_read_from_their_cursor_as_they_were_written() -> None:
    alerts = Alerts(7, {"run": 3})
    alerts.add(failure("cause"))
    alerts.add_message("message", NOW)

    assert Alerts.read(alerts.cursor) == alerts


def test_a_redacted_text_has_no_secrets() -> None:
    text = "postgresql://me:hidden@db/x, https://user@host, Authorization: Bearer abc.def-1==, key canary"

    assert redacted(text, ["canary", ""]) == (
        "postgresql://***@db/x, https://***@host, Authorization: Bearer ***, key ***"
    )


def test_a_payload_for_slack_has_its_markup_escaped() -> None:
    payload = slack_payload("Run failed: <a> & b\nwhy <!channel>")

    assert payload == {
        "text": "Run failed: &lt;a&gt; &amp; b\nwhy &lt;!channel&gt;",
        "blocks": [
            {
                "type": "section",
                "text": {"type": "mrkdwn", "text": "*Run failed: &lt;a&gt; &amp; b*\nwhy &lt;!channel&gt;"},
            }
        ],
    }
