"""Tests which sentences are of one cause, and what is sent."""

from datetime import UTC, datetime

import pytest

from seller_platform.alerts.causes import without_names
from seller_platform.alerts.messages import redacted, slack_payload

NOW = datetime(2026, 5, 20, tzinfo=UTC)


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
