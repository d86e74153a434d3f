"""Fixture of the sensors of alerts."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.alerting import Alerting
from seller_platform_tests.support.receiver import webhook_receiver


@pytest.fixture
def alerting(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Alerting]:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    for name in ("DATABASE_URL", "SERVICE_DATABASE_URL"):
        monkeypatch.setenv(f"SELLER_PLATFORM_{name}", database_url)
    monkeypatch.setenv("SELLER_PLATFORM_DAGSTER_URL", "https://dagster.example/")
    with webhook_receiver() as receiver, dg.DagsterInstance.ephemeral() as instance:
        monkeypatch.setenv("SELLER_PLATFORM_ALERT_WEBHOOK_URL", receiver.url)
        yield Alerting(database, receiver, instance)
