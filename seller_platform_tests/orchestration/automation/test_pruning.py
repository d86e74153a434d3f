"""Tests the job that deletes what is old, and the daily job with it."""

import shutil
import sys
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.orchestration.automation.schedules import PRUNE, daily_definitions, delete_old
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.platform import failure_of

pytestmark = pytest.mark.dagster_tables


@pytest.mark.needs("lake", "reports")
def test_the_daily_job_deletes_old_events_and_fails_where_it_cannot(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    monkeypatch.setenv("SELLER_PLATFORM_EXPORT_DIR", str(tmp_path / "lake"))
    warehouse = WarehouseResource(database_url=database.url)
    repository = dg.Definitions.merge(
        daily_definitions([delete_old]), dg.Definitions(jobs=[PRUNE], resources={"warehouse": warehouse})
    ).get_repository_def()
    log = tmp_path / "lake" / "orders" / "_delta_log"
    with postgres_instance(database.url, tmp_path) as instance:

        def prune() -> tuple[dg.ExecuteInProcessResult, list[object]]:
            """Run the job, and return its result, and the rows of the events that are left."""
            result = repository.get_job("prune").execute_in_process(instance=instance, raise_on_error=False)
            left = instance.fetch_materializations(dg.AssetKey("it"), limit=5).records
            return result, [each.asset_materialization.metadata["rows"].value for each in left]  # type: ignore[union-attr]

        for rows in (1, 2):
            instance.report_runless_asset_event(dg.AssetMaterialization("it", metadata={"rows": rows}))
        database.execute(text("UPDATE dagster.event_logs SET timestamp = timestamp - interval '31 days'"))
        with monkeypatch.context() as patch:
            patch.delitem(sys.modules, "seller_platform.lake.delta_tables", raising=False)
            patch.setitem(sys.modules, "deltalake", None)
            without_the_extra, all_events = prune()
        log.mkdir(parents=True)
        (log / f"{0:020}.json").write_text('{"protocol": "none"}')
        with_a_broken_table, newest = prune()
        shutil.rmtree(log)
        afterwards, still_newest = prune()

    assert repository.get_schedule_def("daily").default_status is dg.DefaultScheduleStatus.RUNNING
    assert repository.get_job("daily").get_node_named("delete_old").definition is delete_old
    assert [each.success for each in (without_the_extra, with_a_broken_table, afterwards)] == [False, False, True]
    assert (all_events, newest, still_newest) == ([2, 1], [2], [2])
    sentence, facts = failure_of(with_a_broken_table)
    assert f"{log.parent}: cannot be" in sentence
    assert facts["exported_files"] == 0
