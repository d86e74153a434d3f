"""Fixture of the assets with an upstream, PostgreSQL and a Dagster instance."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.platform import Platform, open_platform


@pytest.fixture
def platform(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Platform]:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    with open_platform(database, database_url, tmp_path) as opened:
        yield opened
