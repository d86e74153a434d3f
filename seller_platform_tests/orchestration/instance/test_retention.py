"""Tests the storage in another Dagster project, and that its old events are deleted without a visible change."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import dagster as dg
import psycopg
import pytest
from dagster._core.utils import make_new_run_id

from seller_platform.orchestration.instance.retention import prune_instance
from seller_platform_tests.orchestration.instance.other_project import OtherProject, other_project
from seller_platform_tests.support.postgres import drop_database

pytestmark = pytest.mark.slow

MONTHS = ("2026-01-01", "2026-02-01", "2026-03-01")
BEFORE = datetime.now(UTC) - timedelta(days=30)
_TABLES = ("event_logs", "asset_check_executions", "runs", "asset_event_tags", "bulk_actions")
_BACKDATE = """
UPDATE event_logs SET timestamp = timestamp - interval '60 days';
UPDATE asset_check_executions SET create_timestamp = create_timestamp - interval '60 days',
       evaluation_event_timestamp = evaluation_event_timestamp - interval '60 days';
UPDATE runs SET end_time = end_time - 60 * 86400, start_time = start_time - 60 * 86400,
       update_timestamp = update_timestamp - interval '60 days',
       create_timestamp = create_timestamp - interval '60 days';
INSERT INTO bulk_actions (key, status, timestamp, body)
VALUES ('old', 'COMPLETED_SUCCESS', now() - interval '60 days', ''), ('running', 'REQUESTED', now(), '');
"""


@pytest.fixture(scope="module")
def url(postgres: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    address = postgres.database("other_dagster")  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTHER_DAGSTER_URL", address.replace("postgresql:", "postgresql+psycopg2:"))
        yield address
    drop_database(postgres, "other_dagster")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def project(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherProject]:
    with other_project(tmp_path_factory.mktemp("other")) as opened:
        yield opened


def test_another_project_shows_partitions_and_checks_with_the_storage(project: OtherProject) -> None:
    for month in MONTHS:
        for shop in ("open", "closed"):
            assert project.materialize(f"{month}|{shop}").success

    state = project.state

    (statuses,) = state["assetPartitionStatuses"]["ranges"]
    (check,) = state["assetChecksOrError"]["checks"]
    assert (statuses["primaryDimStartKey"], statuses["primaryDimEndKey"]) == (MONTHS[0], MONTHS[-1])
    assert sorted(statuses["secondaryDim"]["materializedPartitions"]) == ["closed", "open"]
    assert check["executionForLatestMaterialization"]["status"] == "FAILED"


def test_old_events_are_deleted_and_every_state_stays(project: OtherProject, url: str) -> None:
    for rows in ("2", "3"):
        project.materialize(f"{MONTHS[0]}|open", rows=rows)
    project.materialize(f"{MONTHS[1]}|open", fails="yes")
    running = make_new_run_id()
    project.instance.add_run(dg.DagsterRun(job_name="job", run_id=running, status=dg.DagsterRunStatus.STARTED))
    project.instance.report_engine_event("it runs", run_id=running, job_name="job")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_BACKDATE)
        for rows in ("4", "5"):
            project.materialize(f"{MONTHS[2]}|open", rows=rows)
        state, runs = project.state, project.instance.get_runs_count()
        counts = {table: _count(connection, table) for table in _TABLES}
        foreseen = prune_instance(project.instance, before=BEFORE, dry=True)
        assert {table: _count(connection, table) for table in _TABLES} == counts

        removed = prune_instance(project.instance, before=BEFORE, dry=False)
        again = prune_instance(project.instance, before=BEFORE, dry=False)

        left = {table: _count(connection, table) for table in _TABLES}

    assert project.state == state
    assert {name: foreseen[name] for name in ("executions of checks", "events", "backfills")} == {
        name: removed[name] for name in ("executions of checks", "events", "backfills")
    }
    assert removed["executions of checks"] == counts["asset_check_executions"] - left["asset_check_executions"] >= 2
    assert removed["events"] > counts["event_logs"] / 2
    assert removed["runs"] == runs - project.instance.get_runs_count() >= 1
    assert removed["backfills"] == 1
    assert again == dict.fromkeys(removed, 0)
    assert project.instance.get_run_by_id(running)
    assert len(project.instance.all_logs(running)) == 1
    plotted = project.plotted
    assert plotted.count((f"{MONTHS[0]}|open", 3)) == 1
    assert (f"{MONTHS[0]}|open", 2) not in plotted
    assert plotted[:2] == [(f"{MONTHS[2]}|open", 5), (f"{MONTHS[2]}|open", 4)]


def test_a_partition_keeps_the_version_that_others_have_read(project: OtherProject, url: str) -> None:
    rates = dg.AssetKey("rates")

    def load(partition: str, version: str) -> None:
        tags = {"dagster/data_version": version}
        project.instance.report_runless_asset_event(dg.AssetMaterialization(rates, partition=partition, tags=tags))

    def kept(partition: str) -> list[str]:
        of_partition = dg.AssetRecordsFilter(rates, asset_partitions=[partition])
        records = project.instance.fetch_materializations(of_partition, limit=10, ascending=True).records
        return [(each.asset_materialization.tags or {})["dagster/data_version"] for each in records]  # type: ignore[union-attr]

    for version in ("a", "b", "a", "a", "a"):
        load("unchanged", version)
    for version in ("a", "a", "b"):
        load("changed", version)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE event_logs SET timestamp = timestamp - interval '60 days'")
    newest = project.instance.fetch_materializations(dg.AssetRecordsFilter(rates, asset_partitions=["unchanged"]), 1)
    load("unchanged", "a")

    prune_instance(project.instance, before=BEFORE, dry=False)

    assert kept("unchanged") == ["a", "a"]
    assert kept("changed") == ["b"]
    read = newest.records[0].storage_id
    assert project.instance.get_latest_data_version_record(rates, partition_key="unchanged", before_cursor=read + 1)


def _count(connection: psycopg.Connection[tuple[int]], table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row
    return row[0]
