"""A shop with accounts, whose alerts a webhook receives."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.alerts.sending import send_alerts
from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.errors import SellerPlatformError
from seller_platform.settings import read_settings
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.loads.refusals import forget_refusal, keep_refusal
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.receiver import Receiver, webhook_receiver

KEYS = [f"us-{100 + number}" for number in range(30)]
ORDERS, MARCH = dataset_named("orders"), Window.month_of(date(2026, 3, 1))


@dataclass
class Shop:
    """Accounts with slices, and the webhook of their alerts."""

    database: Database
    receiver: Receiver

    def send(self, *prefix: str) -> str:
        return send_alerts(self.database, read_settings(), prefix)

    def execute(self, statement: str, **values: object) -> None:
        self.database.execute(text(statement), values)

    def fail(self, error: SellerPlatformError, *keys: str, dataset: Dataset = ORDERS, month: Window = MARCH) -> None:
        for key in keys:
            keep_refusal(self.database, dataset, key, month, error, run_id="run-1")

    def repair(self, *keys: str, dataset: Dataset = ORDERS, month: Window = MARCH) -> None:
        for key in keys:
            forget_refusal(self.database, dataset, key, month)

    def load(self, dataset: Dataset, key: str, month: Window, *, verdict: str = "match", notes: object = None) -> int:
        """Store a receipt, with a verdict and notes."""
        facts: dict[str, Any] = {"rows": 11, "announced": 12, "restatement": {"rows": {"before": "100", "after": "90"}}}
        facts |= {"started_at": datetime(2026, 4, 10, 8, tzinfo=UTC), "verdict": verdict, "notes": notes or {}}
        return store_receipt(self.database, dataset, key, month, **facts)


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
