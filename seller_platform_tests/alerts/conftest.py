"""Fixture of alerts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seller_platform.contract import Account
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.alerts.shop import KEYS, Shop
from seller_platform_tests.support.pauses import pauses_take_no_time
from seller_platform_tests.support.receiver import webhook_receiver

__all__ = ["pauses_take_no_time"]


@pytest.fixture
def shop(database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    url = "https://api.example"
    save_connection(database, KnownConnection("default", url, url, "client"))
    account = Account(7, "Möbel Söhne", "DE", "EUR", "Europe/Berlin", "MARKET", "SELLER00")
    save_accounts(database, "default", [(key, account) for key in KEYS])
    with webhook_receiver() as receiver:
        variables = {
            **{"HOME": f"{tmp_path}", "DATABASE_URL": database_url, "SERVICE_DATABASE_URL": database_url},
            **{"DAGSTER_URL": "https://dagster.example/", "ALERT_WEBHOOK_URL": receiver.url},
        }
        for name, value in variables.items():
            monkeypatch.setenv(f"SELLER_PLATFORM_{name}", value)
        opened = Shop(database, receiver)
        opened.execute(
            "INSERT INTO platform.grants (connection, token_pair, generation, issued_at, expires_at) "
            "VALUES ('default', '', 1, now(), now())"
        )
        yield opened
