"""Causes: what is one cause and what is two, and what a sensor remembers of them without growing for ever."""

from datetime import UTC, datetime, timedelta

import pytest

from seller_platform.orchestration.alerting.causes import RUN, Alerts, Failure, cause_of, redacted, slack_payload

NOW = datetime(2026, 5, 20, tzinfo=UTC)
ACCOUNTS = frozenset({"A1.US", "B2.DE"})


def failure(cause: str, *, place: str = "seller/orders", partition: str = "A1.US", event_id: int = 1) -> Failure:
    return Failure(RUN, cause, place, partition, f"{cause} happened", "run", event_id, NOW)


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
def test_accounts_zones_requests_and_numbers_are_no_part_of_a_cause(one: str, other: str) -> None:
    assert cause_of(RUN, "seller/orders", one, ACCOUNTS) == cause_of(RUN, "seller/transactions", other, ACCOUNTS)


def test_sentences_connections_and_the_assets_of_checks_are() -> None:
    told = [
        cause_of(RUN, "seller/orders", "connection 'one' must be authorised again", ACCOUNTS),
        cause_of(RUN, "seller/orders", "connection 'two' must be authorised again", ACCOUNTS),
        cause_of("Check", "seller/orders, row_count", "mismatch: 3 rows", ACCOUNTS),
        cause_of("Check", "seller/inventory, row_count", "mismatch: 3 rows", ACCOUNTS),
        cause_of("Warning: check", "seller/orders, row_count", "mismatch: 3 rows", ACCOUNTS),
    ]

    assert len(set(told)) == len(told)


def test_a_cause_is_resolved_when_each_partition_it_remembers_is_well() -> None:
    known = Alerts(0)
    for number in range(30):
        known.take(failure("cause", partition=f"P{number}"))

    for number in range(9):
        known.heal("seller/orders", f"P{number}")
    known.heal("seller/transactions", "P9")
    known.forget(NOW)
    assert set(known.causes) == {"cause"}

    known.heal("seller/orders", "P9")
    known.forget(NOW)
    assert known.causes == {}


def test_a_cause_that_is_not_seen_for_long_is_forgotten_and_there_are_never_too_many() -> None:
    known = Alerts(0)
    for number in range(600):
        known.take(failure(f"cause {number}"))

    known.forget(NOW + timedelta(days=13))
    assert len(known.causes) == 500
    known.forget(NOW + timedelta(days=14))
    assert known.causes == {}


def test_letters_wait_longer_after_each_attempt_and_the_oldest_goes_when_there_is_no_room() -> None:
    known = Alerts(0)
    dropped = [letter.text for number in range(102) for letter in known.write(f"letter {number}", NOW)]

    assert dropped == ["letter 0", "letter 1"]
    assert len(known.letters) == 100
    letter, pauses = known.letters[0], []
    for _ in range(9):
        letter = letter.put_off(NOW)
        assert letter.not_before is not None
        pauses.append((letter.not_before - NOW).total_seconds())
    assert pauses == [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]
    assert not letter.is_due(NOW + timedelta(minutes=29))
    assert letter.is_due(NOW + timedelta(minutes=30))


def test_what_a_sensor_remembers_survives_its_cursor() -> None:
    known = Alerts(7, {"run": 3})
    known.take(failure("cause"))
    known.write("letter", NOW)

    assert Alerts.read(known.cursor) == known


def test_secrets_are_not_told() -> None:
    text = "postgresql://me:hidden@db/x, https://user@host, Authorization: Bearer abc.def-1==, key canary"

    assert redacted(text, ["canary", ""]) == (
        "postgresql://***@db/x, https://***@host, Authorization: Bearer ***, key ***"
    )


def test_slack_reads_no_markup_that_is_not_meant() -> None:
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
