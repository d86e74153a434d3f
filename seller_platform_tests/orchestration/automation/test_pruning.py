"""Tests the daily job that deletes what is old."""

import sys
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.orchestration.automation.pruning import pruning_definitions
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.dagster_instance import postgres_instance


def _prune(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[dg.ExecuteInProcessResult, list[dg.EventLogRecord]]:
    """Run the job where an asset has two events, and return its result and the events that stayed."""
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    monkeypatch.setenv("SELLER_PLATFORM_EXPORT_DIR", str(tmp_path / "lake"))
    warehouse = WarehouseResource(database_url=database.url)
    repository = dg.Definitions.merge(
        pruning_definitions(), dg.Definitions(resources={"warehouse": warehouse})
    ).get_repository_def()
    with postgres_instance(database.url, tmp_path) as instance:
        for rows in (1, 2):
            instance.report_runless_asset_event(dg.AssetMaterialization("it", metadata={"rows": rows}))
        with database.begin() as connection:
            connection.execute(text("UPDATE dagster.event_logs SET timestamp = timestamp - interval '31 days'"))

        assert repository.get_schedule_def("prune_daily").default_status is dg.DefaultScheduleStatus.RUNNING
        result = repository.get_job("prune").execute_in_process(instance=instance, raise_on_error=False)

        return result, [*instance.fetch_materializations(dg.AssetKey("it"), limit=5).records]


def test_the_daily_job_deletes_old_events(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, (kept,) = _prune(database, tmp_path, monkeypatch)

    assert result.success
    assert kept.asset_materialization is not None
    assert kept.asset_materialization.metadata["rows"].value == 2


def test_a_table_that_cannot_be_read_fails_the_job_with_what_it_deleted(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "lake" / "orders" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text('{"protocol": "none"}')

    result, kept = _prune(database, tmp_path, monkeypatch)

    failure = result.failure_data_for_node("delete_old")
    assert failure is not None
    assert failure.user_failure_data is not None
    assert f"{log.parent}: cannot be" in str(failure.user_failure_data.description)
    assert failure.user_failure_data.metadata["exported_files"].value == 0
    assert len(kept) == 1


def test_without_the_extra_of_exports_nothing_is_deleted(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "seller_platform.warehouse.exports.tables", raising=False)
    monkeypatch.setitem(sys.modules, "deltalake", None)

    result, kept = _prune(database, tmp_path, monkeypatch)

    assert not result.success
    assert len(kept) == 2
