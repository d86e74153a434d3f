"""Tests the first day of history: stored once, extended, and read when definitions load."""

import runpy
from datetime import date
from importlib import resources
from pathlib import Path

import pytest

from seller_platform.orchestration.partitions import MONTH, account_months
from seller_platform.settings import read_settings
from seller_platform.warehouse.loads.history_start import (
    extend_history,
    history_start_in,
    history_start_of,
    keep_history_start,
)
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer

NEW_YEAR, AUTUMN = date(2026, 1, 1), date(2025, 9, 1)


def test_history_begins_earlier_but_never_later(database: Database) -> None:
    moves = [extend_history(database, day) for day in (NEW_YEAR, AUTUMN, AUTUMN, NEW_YEAR)]

    assert moves == [True, True, False, False]
    assert history_start_in(database, read_settings()) == AUTUMN


def test_without_a_stored_day_the_setting_counts_and_the_first_is_stored(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HISTORY_START", "2024-02-29")

    before = history_start_in(database, read_settings())
    stored = [keep_history_start(database, day) for day in (NEW_YEAR, AUTUMN)]

    assert (before, stored) == (date(2024, 2, 29), [NEW_YEAR, NEW_YEAR])


def test_a_database_without_the_tables_has_no_stored_day(postgres: EmbeddedServer) -> None:
    with Database(postgres.url("postgres")) as empty:
        assert history_start_in(empty, read_settings()) == read_settings().history_start


def test_a_warehouse_that_is_away_leaves_the_setting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", "postgresql://user:canary@127.0.0.1:1/none")
    monkeypatch.setenv("SELLER_PLATFORM_HISTORY_START", "2026-01-01")

    assert history_start_of(read_settings()) == NEW_YEAR
    assert "history begins with 2026-01-01 of the settings" in caplog.text
    assert "canary" not in caplog.text


def test_a_new_home_folder_gets_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path / "home"))

    assert history_start_of(read_settings()) == read_settings().history_start
    assert not (tmp_path / "home").exists()


def test_definitions_have_the_partitions_of_the_stored_history(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database_url)
    monkeypatch.setenv("SELLER_PLATFORM_HISTORY_START", "2026-01-01")
    extend_history(database, AUTUMN)

    defs = runpy.run_path(str(resources.files("seller_platform.orchestration") / "definitions.py"))["defs"]

    dated = {spec.partitions_def for spec in defs.resolve_all_asset_specs()} - {None}
    months = {str(each) for each in dated if MONTH in getattr(each, "partition_dimension_names", ())}
    assert months == {str(account_months(AUTUMN))}
