"""Fixtures of the assets with an upstream and PostgreSQL, and of Dagster instances."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.platform import Platform, open_platform


@pytest.fixture
def platform(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Platform]:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    with open_platform(database, database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
def instance(database_url: str, tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """A Dagster instance on PostgreSQL, because schedules use other processes."""
    with postgres_instance(database_url, tmp_path) as opened:
        yield opened
