"""Tests runs of a code server of Dagster whose run workers are forked."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.launcher import WorkerStatus
from dagster._core.utils import make_new_run_id
from dagster_postgres.event_log import PostgresEventLogStorage

from seller_platform.orchestration.instance.run_launcher import ATTENDED_TAG, AttendedRunLauncher
from seller_platform.warehouse.postgres.advisory_locks import try_lock
from seller_platform_tests.orchestration.instance import forking_location
from seller_platform_tests.support.dagster_instance import CodeLocation, code_server, postgres_instance
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import environment, left_behind
from seller_platform_tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Dagster starts its run workers itself"),
]

_ASSETS = "__ASSET_JOB"
_AT_ONCE = """
telemetry: {enabled: false}
run_coordinator: {module: dagster._core.run_coordinator, class: DefaultRunCoordinator}
run_launcher: {module: seller_platform.orchestration.instance.run_launcher, class: AttendedRunLauncher}
"""
_END_HOLDERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_locks
WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@dataclass(frozen=True)
class Location(CodeLocation):
    """A code location whose instance begins runs at once.

    Attributes:
        ended: The file to which each run of the asset `process` adds a line at its end.
    """

    ended: Path

    def health_of(self, run: str) -> WorkerStatus:
        """Return what the launcher says of the process of a run."""
        return self.instance.run_launcher.check_run_worker_health(self.run(run)).status

    def described(self) -> dict[str, object]:
        """Execute a run of the asset `process`, and return what it says."""
        assert self.end_of(self.launch(_ASSETS, "process")) is dg.DagsterRunStatus.SUCCESS
        (record,) = self.instance.fetch_materializations(dg.AssetKey("process"), limit=1).records
        assert record.asset_materialization is not None
        return {name: value.value for name, value in record.asset_materialization.metadata.items()}

    def await_waiting(self, run: str) -> int:
        """Wait until a run of the asset `waiting` waits, and return its process."""
        messages = wait_for(lambda: self.messages(run), lambda found: "waits" in found)
        (started,) = (each for each in messages if each.startswith("Started process for run"))
        return int("".join(filter(str.isdigit, started)))


@pytest.fixture(scope="module")
def location(dagster_databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    folder = tmp_path_factory.mktemp("forking")
    ended = folder / "ended"
    variables = environment(folder, **{forking_location.ENDED: str(ended)})
    with (
        dagster_databases.lent() as database,
        postgres_instance(database.url, folder, _AT_ONCE) as instance,
        code_server(instance, forking_location.__name__, "forking", variables) as started,
    ):
        yield Location(started.name, instance, started.workspace, ended)
    assert left_behind(folder) == []


def test_runs_are_forked_from_one_process_which_is_started_again(location: Location) -> None:
    described = [location.described() for _ in range(2)]
    parent = described[0]["parent"]
    assert isinstance(parent, int)
    os.kill(parent, signal.SIGKILL)
    location.ended.unlink(missing_ok=True)
    run = location.launch(_ASSETS, "process")
    ends = location.end_of(run)
    messages = location.messages(run)

    def is_named() -> bool:  # a process of a former run may end, and write its number, in between
        ended = location.ended.read_text().strip() if location.ended.exists() else ""
        return f"Started process for run (pid: {ended})." in messages

    assert [each["loads its definitions itself"] for each in described] == [True, True]
    assert [each["threads of the parent"] for each in described] == [1, 1]
    assert parent == described[1]["parent"]
    assert ends is dg.DagsterRunStatus.SUCCESS
    wait_for(is_named)  # what was registered for its end was executed


def test_a_forked_run_is_canceled_or_fails_when_it_is_killed(location: Location) -> None:
    early = location.launch(_ASSETS, "waiting")
    assert location.instance.run_launcher.terminate(early), "it loads its definitions"
    canceled, killed = (location.launch(_ASSETS, "waiting") for _ in range(2))
    location.await_waiting(canceled)
    process = location.await_waiting(killed)

    assert location.instance.run_launcher.terminate(canceled)
    health = location.health_of(killed)
    os.kill(process, signal.SIGKILL)

    assert {location.end_of(run) for run in (early, canceled)} == {dg.DagsterRunStatus.CANCELED}
    assert health is WorkerStatus.RUNNING
    assert location.end_of(killed) is dg.DagsterRunStatus.FAILURE
    assert any("terminated by signal 9 (SIGKILL)" in message for message in location.messages(killed))


def test_a_run_that_begins_while_it_is_canceled_does_not_fail(location: Location) -> None:
    early = location.launch(_ASSETS, "waiting")
    process = location.await_waiting(early)
    location.instance.report_run_canceling(location.run(early))
    storage = location.instance.event_log_storage
    assert isinstance(storage, PostgresEventLogStorage)
    with storage.index_connection() as connection:  # as the beginning of the run does at the same moment
        connection.exec_driver_sql("UPDATE runs SET status = 'STARTED' WHERE run_id = %s", (early,))

    os.kill(process, signal.SIGINT)
    wait_for(lambda: not Path(f"/proc/{process}").exists())

    assert location.run(early).status is dg.DagsterRunStatus.CANCELED


def test_a_run_has_failed_if_its_lock_stays_free(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = location.launch(_ASSETS, "waiting")
    of_process = dg.RunsFilter(run_ids=[ended], tags={ATTENDED_TAG: ended})
    wait_for(lambda: location.instance.get_runs_count(of_process))
    location.await_waiting(ended)
    assert location.instance.run_launcher.terminate(ended)
    location.end_of(ended)

    def started(tags: Mapping[str, str]) -> str:
        status = dg.DagsterRunStatus.STARTED
        return location.instance.add_run(dg.DagsterRun("lost", make_new_run_id(), status=status, tags=tags)).run_id

    unknown, lost, retry = started({}), started({}), started({ATTENDED_TAG: ended})
    storage = location.instance.event_log_storage
    assert isinstance(storage, PostgresEventLogStorage)
    with storage.index_connection() as connection:  # as a change of its status at the same moment does
        of_lost = connection.exec_driver_sql("SELECT run_body FROM runs WHERE run_id = %s", (lost,)).scalar_one()
        location.instance.add_run_tags(lost, {ATTENDED_TAG: lost})
        connection.exec_driver_sql("UPDATE runs SET run_body = %s WHERE run_id = %s", (of_lost, lost))
    free_at_first = location.health_of(lost)
    launcher = location.instance.run_launcher
    assert isinstance(launcher, AttendedRunLauncher)
    monkeypatch.setattr(launcher.locks, "gone_after_seconds", 0.0)

    assert (free_at_first, location.health_of(lost)) == (WorkerStatus.RUNNING, WorkerStatus.FAILED)
    assert location.health_of(unknown) is WorkerStatus.RUNNING
    assert location.health_of(retry) is WorkerStatus.RUNNING, "a retry is not judged by the tags of its first run"


def test_a_lock_whose_connection_is_lost_is_taken_again(location: Location) -> None:
    run = location.launch(_ASSETS, "waiting")
    location.await_waiting(run)
    storage = location.instance.event_log_storage
    assert isinstance(storage, PostgresEventLogStorage)
    with storage.index_connection() as connection:

        def is_held() -> bool:
            return not try_lock(connection, f"worker|{run}")

        wait_for(is_held)
        lost = connection.exec_driver_sql(_END_HOLDERS).scalars().all()
        was_held = is_held()
        wait_for(is_held)

    assert location.instance.run_launcher.terminate(run)
    assert (lost, was_held) == ([True], False)
    assert location.end_of(run) is dg.DagsterRunStatus.CANCELED
