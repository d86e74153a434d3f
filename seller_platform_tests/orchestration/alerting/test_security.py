"""Tests that security events are reported once, grouped by kind, without losing messages."""

import os
from datetime import timedelta

import pytest

from seller_platform_tests.support.alerting import Alerting


class Watch(Alerting):
    """The sensor of security events."""

    def record(self, kind: str, address: str = "192.0.2.7", email: str = "ann@shop.example") -> None:
        self.execute(
            "INSERT INTO service.security_events (kind, address, details) "
            "VALUES (:kind, :address, jsonb_build_object('email', CAST(:email AS text)))",
            **{"kind": kind, "address": address, "email": email},
        )


@pytest.fixture
def watch(alerting: Alerting) -> Watch:
    opened = Watch(**vars(alerting) | {"sensor": "security_events", "passed": timedelta(minutes=1)})
    opened.record("code_replayed")  # before the first evaluation
    opened.tick()
    return opened


def test_alarming_events_are_reported_once_in_one_message_for_each_kind(watch: Watch) -> None:
    for kind in ("refresh_token_reused", "login_failed", "login_locked", "refresh_token_reused", "code_replayed"):
        watch.record(kind)

    assert watch.tick() == "4 new events"
    assert watch.tick() == "0 new events"
    titles = [text.partition("\n")[0] for text in watch.receiver.texts]
    assert titles == [
        "Security: A code was used a second time",
        "Security: Many logins failed",
        "Security: A refresh token was used a second time",
    ]
    assert watch.receiver.texts[2].count("user ann@shop.example, address 192.0.2.7") == 2
    assert "the user must approve the application again" in watch.receiver.texts[2]


def test_a_lock_of_the_same_user_is_reported_once_an_hour(watch: Watch) -> None:
    watch.record("login_locked")
    watch.tick()
    watch.record("login_locked")
    watch.record("login_locked", email="bob@shop.example")
    watch.tick()
    watch.record("login_locked")
    watch.tick(later=timedelta(hours=1))

    reported = [[name for name in ("ann@", "bob@") if name in text] for text in watch.receiver.texts]
    assert reported == [["ann@"], ["bob@"], ["ann@"]]


def test_an_event_waits_for_its_third_second_the_webhook_and_the_database(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.passed, before, url = timedelta(minutes=-10), watch.cursor, os.environ["SELLER_PLATFORM_SERVICE_DATABASE_URL"]
    watch.record("code_replayed")
    watch.receiver.answers = [410]

    assert watch.tick(later=timedelta()) == "0 new events"
    monkeypatch.setenv("SELLER_PLATFORM_SERVICE_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    assert "nothing" in str(watch.tick(later=timedelta(minutes=11)))
    assert watch.cursor == before
    monkeypatch.setenv("SELLER_PLATFORM_SERVICE_DATABASE_URL", url)
    assert "1 message waits for the webhook" in str(watch.tick())
    watch.tick(later=timedelta(minutes=5))
    assert len(watch.receiver.texts) == 1
