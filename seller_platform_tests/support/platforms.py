"""Fixtures of the assets with an upstream and PostgreSQL, and a Dagster instance."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from seller_platform.contract import dataset_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.platform import HISTORY_START, KEYS, Platform, open_platform
from seller_platform_tests.support.postgres import Databases


@pytest.fixture
def platform(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Platform]:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    with open_platform(database, database_url, tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def instance(dagster_databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """An instance on PostgreSQL, because schedules open it again."""
    with (
        dagster_databases.lent() as database,
        postgres_instance(database.url, tmp_path_factory.mktemp("instance")) as opened,
    ):
        yield opened


@pytest.fixture(scope="session")
def materialized(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Platform, Path]]:
    """A platform whose accounts, orders, transactions, sales and stock are materialized, and its home."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch, databases.lent() as database:
        patch.setenv("SELLER_PLATFORM_HOME", str(home))
        patch.setenv("SELLER_PLATFORM_HISTORY_START", HISTORY_START.isoformat())
        with open_platform(database, database.url, home) as platform:
            platform.discover()
            for dataset in ("orders", "transactions", "daily_product_sales"):
                assert platform.months(dataset_named(dataset)).success
            assert platform.run([dataset_named("inventory")], KEYS[0], KEYS[-1]).success
            patch.undo()
            yield platform, home


@pytest.fixture
def loaded(materialized: tuple[Platform, Path], monkeypatch: pytest.MonkeyPatch) -> Platform:
    """That platform, which all tests share: they change no row of it."""
    platform, home = materialized
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(home))
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", platform.database.url)
    monkeypatch.setenv("SELLER_PLATFORM_HISTORY_START", HISTORY_START.isoformat())
    return platform
