"""Tests that security events are reported once, grouped by kind."""

import pytest

from seller_platform_tests.alerts.shop import Shop


def record(shop: Shop, kind: str, email: str = "ann@shop.example", ago: str = "0 s") -> None:
    shop.execute(
        "INSERT INTO service.security_events (kind, address, details, at) VALUES (:kind, '192.0.2.7', "
        "jsonb_build_object('email', CAST(:email AS text)), now() - CAST(:ago AS interval))",
        **{"kind": kind, "email": email, "ago": ago},
    )


def test_alarming_events_are_reported_once_in_one_message_for_each_kind(shop: Shop) -> None:
    record(shop, "code_replayed", ago="2 days")
    for kind in ("refresh_token_reused", "login_failed", "login_locked", "refresh_token_reused", "code_replayed"):
        record(shop, kind)

    for _ in range(2):
        assert shop.send() == "no cause is open"

    titles = [text.partition("\n")[0] for text in shop.receiver.texts]
    assert titles == [
        "Security: A refresh token was used a second time",
        "Security: Many logins failed",
        "Security: A code was used a second time",
    ]
    assert shop.receiver.texts[0].count("user ann@shop.example, address 192.0.2.7") == 2
    assert "the user must approve the application again" in shop.receiver.texts[0]


def test_a_lock_of_the_same_user_is_reported_once_an_hour(shop: Shop) -> None:
    record(shop, "login_locked")
    shop.send()
    record(shop, "login_locked")
    record(shop, "login_locked", email="bob@shop.example")
    shop.send()
    shop.execute("UPDATE platform.alerts SET written_at = written_at - interval '61 minutes' WHERE cause LIKE '%ann@%'")
    record(shop, "login_locked")
    shop.send()

    reported = [[name for name in ("ann@", "bob@") if name in text] for text in shop.receiver.texts]
    assert reported == [["ann@"], ["bob@"], ["ann@"]]


def test_an_event_beside_one_that_was_just_reported_is_reported(shop: Shop) -> None:
    record(shop, "login_locked")
    shop.send()
    record(shop, "login_locked", ago="-2 hours")  # the clock of the service is ahead
    record(shop, "login_locked", email="bob@shop.example")
    shop.send()

    assert ["bob@shop.example" in text for text in shop.receiver.texts] == [False, True]


def test_alerts_are_sent_while_the_service_database_is_away(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    record(shop, "code_replayed")
    url = "postgresql://nobody@127.0.0.1:1/nothing"
    with monkeypatch.context() as patch:
        patch.setenv("SELLER_PLATFORM_SERVICE_DATABASE_URL", url)
        assert "nothing" in shop.send()
    shop.send()

    assert len(shop.receiver.texts) == 1
