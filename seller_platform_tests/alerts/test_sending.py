"""Tests that what platform.problems names is alerted once for each cause, and resolved when nothing of it is left."""

import json
import logging
import os

import pytest

from seller_platform.client.http.concurrency import in_threads
from seller_platform.contract import dataset_named
from seller_platform.errors import (
    ListChangedError,
    ReadingHeldError,
    ReauthorizationRequiredError,
    UpstreamUnavailableError,
)
from seller_platform_tests.alerts.shop import KEYS, MARCH, ORDERS, Shop
from seller_platform_tests.support.command_line import run_here

TRANSACTIONS, INVENTORY = (dataset_named(name) for name in ("transactions", "inventory"))


def away(path: str = "/sales/orders") -> UpstreamUnavailableError:
    return UpstreamUnavailableError(f"GET {path}", "no answer (ConnectError)", attempts=6)


def test_a_failed_slice_is_told_with_title_month_reason_and_link(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.load(ORDERS, KEYS[0], MARCH)
    without_problems = shop.send()
    shop.fail(away(), *KEYS[:12])

    shop.send()

    (document,) = shop.receiver.documents
    assert without_problems == "no cause is open"
    title, sentence, since, link = document["text"].splitlines()
    named = "; ".join(f"Möbel Söhne, DE, EUR ({key}), 2026-03" for key in KEYS[:3])
    assert title == f"Failed: seller/orders of {named} and 9 more"
    assert sentence == str(away())
    assert since.startswith("Since 20")
    assert link == "Run: https://dagster.example/runs/run-1"
    assert document["blocks"][0]["text"]["text"].startswith("*Failed: seller/orders of Möbel")
    assert document["text"] in [record.message for record in caplog.records if record.levelno == logging.ERROR]


def test_one_cause_in_many_slices_is_one_message_until_none_is_left(shop: Shop) -> None:
    shop.fail(away(), *KEYS[:3])
    shop.fail(away("/finances/transactions"), *KEYS[:2], dataset=TRANSACTIONS)
    shop.send()
    shop.fail(away(), *KEYS[3:])
    shop.send()

    (message,) = shop.receiver.texts
    assert message.startswith("Failed: seller/orders of ")
    assert "; seller/transactions of " in message

    shop.repair(*KEYS)
    shop.repair(KEYS[0], dataset=TRANSACTIONS)
    assert shop.send() == "1 cause is open"
    shop.repair(KEYS[1], dataset=TRANSACTIONS)
    assert shop.send() == "no cause is open"
    assert shop.receiver.texts[1] == f"Resolved: {message.splitlines()[0]}\nIt was: {away()}"

    shop.fail(away(), KEYS[0])
    shop.send()
    assert len(shop.receiver.documents) == 3

    changed = ListChangedError(f"orders of {KEYS[0]}", "the list changed while it was read (last: page 4)")
    shop.fail(changed, KEYS[0])  # another reason is another cause
    shop.send()
    *_, new, resolved = shop.receiver.texts
    assert str(changed) in new
    assert resolved.startswith("Resolved: Failed: seller/orders of Möbel Söhne")


def test_a_held_reading_is_reported_for_each_account_with_its_step(shop: Shop) -> None:
    notes = {"held": {"reason": "no row was read"}}
    load = shop.load(ORDERS, KEYS[0], MARCH, verdict="held", notes=notes)
    shop.fail(ReadingHeldError("orders", "no row was read", load), KEYS[0])
    shop.send()
    shop.load(ORDERS, KEYS[1], MARCH, verdict="held", notes=notes)
    shop.send("shop")
    shop.load(ORDERS, KEYS[0], MARCH)
    shop.repair(KEYS[0])
    shop.send()

    first, second, resolved = shop.receiver.texts
    assert first.splitlines() == [
        f"Held: seller/orders of Möbel Söhne, DE, EUR ({KEYS[0]}), 2026-03",
        f"orders of {KEYS[0]}, 2026-03-01..2026-03-31: no row was read. The stored rows stay, the reading is held.",
        f"Compare with the upstream, then publish it with `seller-platform accept {load}` or the job accept_held of "
        "the Dagster UI, or wait: each refresh reads the slice again, and after three that say the same, 20 hours "
        "apart, it is published.",
        "Since 2026-04-10 08:00 UTC",
        f"Partition: https://dagster.example/assets/seller/orders?view=partitions&amp;partition={KEYS[0]}%7C2026-03-01",
    ]
    assert "or the job shop_accept_held of" in second
    assert second.startswith(f"Held: shop/seller/orders of Möbel Söhne, DE, EUR ({KEYS[1]}), 2026-03")
    assert resolved.startswith(f"Resolved: Held: seller/orders of Möbel Söhne, DE, EUR ({KEYS[0]}), 2026-03")


def test_a_refused_grant_is_one_message_with_the_slices_that_fail_for_it(shop: Shop) -> None:
    shop.execute("UPDATE platform.grants SET refused = 'it was revoked'")
    shop.send()
    shop.fail(ReauthorizationRequiredError("default", "it was revoked"), *KEYS[:3])
    shop.send()

    (message,) = shop.receiver.texts
    assert message.splitlines()[:3] == [
        "Refused: seller/accounts of default",
        "connection 'default' must be authorised again: it was revoked.",
        "Run `seller-platform connect`.",
    ]
    shop.execute("UPDATE platform.grants SET refused = NULL, issued_at = now() - interval '27 days'")
    assert shop.send() == "2 causes are open"
    shop.repair(*KEYS[:3])
    shop.execute("DELETE FROM platform.grants")
    shop.send()
    assert sorted(message.splitlines()[0] for message in shop.receiver.texts[1:]) == [
        "Refused: seller/accounts of default",
        "Resolved: Refused: seller/accounts of default",
        "Resolved: Warning: Expiring: seller/accounts of default",
        "Warning: Expiring: seller/accounts of default",
    ]


def test_2_000_problems_are_a_few_messages(shop: Shop) -> None:
    shop.execute(
        "INSERT INTO platform.slices (dataset, account, month, error, message, failed_since) "
        "SELECT 'orders', 'A' || account, CAST('2023-01-01' AS date) + month * interval '1 month', 'Error', "
        "md5(CAST(account * 2 + month AS text)), now() "
        "FROM generate_series(1, 1000) AS account, generate_series(1, 2) AS month"
    )

    while "for the webhook" in (outcome := shop.send()):  # for a few seconds each
        assert "causes are open; " in outcome
    assert len(shop.receiver.documents) == 11
    assert "more causes, the first: Failed: seller/orders of " in shop.receiver.texts[-1]


def test_a_webhook_that_is_away_delays_messages_and_loses_none(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop.fail(away(), KEYS[0])
    shop.receiver.answers = [404]

    assert shop.send().startswith("1 cause is open; 1 message waits for the webhook: the webhook at 127.0.0.1 took no")
    shop.repair(KEYS[0])
    assert shop.send() == "no cause is open"
    assert [text.partition(":")[0] for text in shop.receiver.texts] == ["Failed", "Resolved"]
    monkeypatch.delenv("SELLER_PLATFORM_ALERT_WEBHOOK_URL")
    caplog.clear()
    shop.fail(away(), KEYS[0])
    assert (shop.send(), len(shop.receiver.documents)) == ("1 cause is open", 2)
    assert any(str(away()) in record.message for record in caplog.records if record.levelno == logging.ERROR)
    assert "canary-secret" not in caplog.text


def test_several_processes_report_a_cause_once(shop: Shop) -> None:
    shop.fail(away(), *KEYS[:3])

    for _ in in_threads(lambda _: shop.send(), range(4), 4):
        pass

    assert len(shop.receiver.texts) == 1


def test_the_command_needs_a_webhook_and_sends(shop: Shop) -> None:
    shop.fail(away(), KEYS[0])

    sent, again = (run_here(["alerts", "send", "--json"], dict(os.environ)) for _ in range(2))
    without = run_here(["alerts", "send"], {**os.environ, "SELLER_PLATFORM_ALERT_WEBHOOK_URL": ""})

    assert json.loads(sent.stdout) == json.loads(again.stdout) == {"message": "1 cause is open"}
    assert len(shop.receiver.texts) == 1
    assert without.returncode == 2
    assert "SELLER_PLATFORM_ALERT_WEBHOOK_URL is not set" in without.stderr
