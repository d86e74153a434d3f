"""Tests Dagster's storage: connections that the server ends, and the states of checks."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluation,
    AssetCheckEvaluationPlanned,
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.events import DagsterEvent
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionResolvedStatus
from dagster._core.storage.asset_check_state import AssetCheckState, bulk_update_asset_check_state
from dagster._core.utils import make_new_run_id
from dagster_postgres.event_log import PostgresEventLogStorage
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from sqlalchemy.event import listen, remove

from seller_platform.orchestration.instance.check_states import CheckedAssets
from seller_platform.orchestration.instance.held_evaluations import stored_together
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.dagster_instance import connect_to_tables, postgres_instance
from seller_platform_tests.support.postgres import drop_database
from seller_platform_tests.support.waiting import wait_for

_ENDING_THE_FIRST = """
    CREATE SEQUENCE inserts;
    CREATE FUNCTION end_the_first() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        -- A sequence counts on although the transaction is lost.
        IF nextval('inserts') <= 1 THEN
            PERFORM pg_terminate_backend(pg_backend_pid());
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER ending BEFORE INSERT ON event_logs FOR EACH ROW EXECUTE FUNCTION end_the_first();
"""
KEY = dg.AssetKey("it")
_NUMBERS = count()


def test_an_event_is_stored_although_the_server_ends_the_connection(database: Database, tmp_path: Path) -> None:
    with postgres_instance(database.url, tmp_path) as instance:
        _execute(database, _ENDING_THE_FIRST)

        instance.report_runless_asset_event(dg.AssetMaterialization(KEY, metadata={"rows": 7}))

        event = instance.get_latest_materialization_event(KEY)
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["rows"].value == 7


def test_the_columns_of_a_table_are_read_once(database: Database, tmp_path: Path) -> None:
    statements: list[str] = []

    def note(*arguments: Any) -> None:
        statements.append(arguments[2])

    with postgres_instance(database.url, tmp_path) as instance:
        first = instance.event_log_storage.can_read_asset_status_cache()
        listen(Engine, "before_cursor_execute", note)
        try:
            again = instance.event_log_storage.can_read_asset_status_cache()
        finally:
            remove(Engine, "before_cursor_execute", note)

    assert (first, again, statements) == (True, True, [])


def test_an_instance_opens_although_the_server_is_still_starting(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    socket = Path(str(database.engine.url.query["host"])) / ".s.PGSQL.5432"
    (empty := tmp_path / "socket").mkdir()
    monkeypatch.setenv(
        "SELLER_PLATFORM_DATABASE_URL", f"postgresql://postgres@/{database.engine.url.database}?host={empty}"
    )
    (tmp_path / "dagster.yaml").write_text(
        "storage:\n  custom: {module: seller_platform.orchestration.storage, class: PooledPostgresStorage}\n"
    )

    with ThreadPoolExecutor(1) as server:
        server.submit(wait_for, lambda: caplog.messages).add_done_callback(
            lambda _: (empty / socket.name).symlink_to(socket)
        )
        with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
            runs = instance.get_runs_count()

    assert runs == 0
    assert len(caplog.messages) == 1
    assert "Trying again in 1 s." in caplog.messages[0]


def test_an_event_that_cannot_be_stored_is_tried_once(database: Database, tmp_path: Path) -> None:
    with postgres_instance(database.url, tmp_path) as instance:
        _execute(database, "DROP TABLE event_logs CASCADE")

        with pytest.raises(Exception, match='relation "event_logs" does not exist'):
            instance.report_runless_asset_event(dg.AssetMaterialization(KEY))


def test_a_partition_is_evaluated_twice_without_a_run(database: Database, tmp_path: Path) -> None:
    with postgres_instance(database.url, tmp_path) as instance:
        for passed in (False, True):
            instance.report_runless_asset_event(
                dg.AssetCheckEvaluation(asset_key=KEY, check_name="c", passed=passed, partition="a")
            )

        (execution,) = instance.event_log_storage.get_asset_check_execution_history(dg.AssetCheckKey(KEY, "c"), limit=5)
    assert execution.evaluation is not None
    assert execution.evaluation.passed


_PLANNED = """
INSERT INTO asset_check_executions (asset_key, check_name, partition, run_id, execution_status, evaluation_event)
VALUES ('["it"]', 'c', %s, %s, 'PLANNED', 'planned')
"""
_STORED = """
SELECT checked.check_name, checked.partition, checked.execution_status, checked.materialization_event_storage_id,
       replace(checked.evaluation_event, checked.run_id, 'run'), checked.evaluation_event_timestamp,
       event_logs.dagster_event_type, event_logs.timestamp, event_logs.step_key, event_logs.asset_key,
       event_logs.partition, replace(event_logs.event, event_logs.run_id, 'run')
FROM asset_check_executions AS checked
LEFT JOIN event_logs ON event_logs.id = checked.evaluation_event_storage_id AND event_logs.run_id = checked.run_id
WHERE checked.run_id = %s ORDER BY checked.partition
"""


def _evaluation(run: str, partition: str | None, *, passed: bool, judged: int | None) -> dg.EventLogEntry:
    target = None
    if judged is not None:
        target = AssetCheckEvaluationTargetMaterializationData(storage_id=judged, run_id="a", timestamp=1.5)
    evaluation = AssetCheckEvaluation(
        asset_key=KEY,
        check_name="c",
        passed=passed,
        metadata={"%(run_id)s": dg.MetadataValue.text("it's 100 % – ü")},
        target_materialization_data=target,
        partition=partition,
    )
    return _entry(run, DagsterEvent("ASSET_CHECK_EVALUATION", "job", step_key="it", event_specific_data=evaluation))


def _entry(run: str, event: DagsterEvent) -> dg.EventLogEntry:
    return dg.EventLogEntry(  # type: ignore[no-untyped-call]  # its constructor is made while it runs
        error_info=None,
        level=10,
        user_message="checked",
        run_id=run,
        timestamp=1_800_000_000.25,
        step_key="it",
        job_name="job",
        dagster_event=event,
    )


@pytest.mark.parametrize("together", [False, True])
def test_evaluations_are_stored_as_dagster_stores_them(database: Database, tmp_path: Path, together: bool) -> None:
    runs = {"pooled": make_new_run_id(), "unpooled": make_new_run_id()}
    partitions = ("a|2026-01-01", "b|2026-01-01", "ü'%|2026-01-01", None)
    plain_url = database.url.replace("postgresql:", "postgresql+psycopg2:", 1)
    with (
        postgres_instance(database.url, tmp_path) as instance,
        connect_to_tables(database.url) as direct,
    ):
        plain = PostgresEventLogStorage(f"{plain_url}&options=-csearch_path%3Ddagster")
        for name, storage in (("pooled", instance.event_log_storage), ("unpooled", plain)):
            with stored_together(instance) if together and name == "pooled" else nullcontext():
                for number, partition in enumerate(partitions):
                    if number % 2:
                        direct.execute(_PLANNED, (partition, runs[name]))
                    storage.store_event(_evaluation(runs[name], partition, passed=number < 2, judged=number or None))
        plain.dispose()
        pooled, unpooled = (direct.execute(_STORED, (runs[name],)).fetchall() for name in ("pooled", "unpooled"))

    assert len(pooled) == len(partitions)
    assert pooled == unpooled


def test_evaluations_of_an_interrupted_step_are_stored_in_order(database: Database, tmp_path: Path) -> None:
    run = make_new_run_id()
    with postgres_instance(database.url, tmp_path) as instance, connect_to_tables(database.url) as direct:
        _execute(database, _ENDING_THE_FIRST)  # they are stored again
        with suppress(KeyboardInterrupt), stored_together(instance):
            for number in range(20):
                instance.event_log_storage.store_event(_evaluation(run, str(number), passed=True, judged=None))
            raise KeyboardInterrupt
        stored = direct.execute(
            "SELECT executed.partition FROM event_logs "
            "JOIN asset_check_executions AS executed ON executed.evaluation_event_storage_id = event_logs.id "
            "WHERE event_logs.run_id = %s ORDER BY event_logs.id",
            (run,),
        ).fetchall()

    assert [partition for (partition,) in stored] == [str(number) for number in range(20)]


@pytest.mark.parametrize("keys", [("a", "ü'%", "c"), None])
def test_planned_checks_are_stored_as_dagster_stores_them(
    database: Database, tmp_path: Path, keys: tuple[str, ...] | None
) -> None:
    runs = {"pooled": make_new_run_id(), "unpooled": make_new_run_id()}
    subset = dg.StaticPartitionsDefinition(keys).subset_with_partition_keys(keys) if keys else None
    plain_url = database.url.replace("postgresql:", "postgresql+psycopg2:", 1)
    with (
        postgres_instance(database.url, tmp_path) as instance,
        connect_to_tables(database.url) as direct,
    ):
        plain = PostgresEventLogStorage(f"{plain_url}&options=-csearch_path%3Ddagster")
        for storage, run in ((instance.event_log_storage, runs["pooled"]), (plain, runs["unpooled"])):
            planned = AssetCheckEvaluationPlanned(asset_key=KEY, check_name="c", partitions_subset=subset)
            event = DagsterEvent("ASSET_CHECK_EVALUATION_PLANNED", "job", step_key="it", event_specific_data=planned)
            storage.store_event(_entry(run, event))
        plain.dispose()
        pooled, unpooled = (direct.execute(_STORED, (runs[name],)).fetchall() for name in ("pooled", "unpooled"))

    assert len(pooled) == len(keys or [None])
    assert pooled == unpooled


def _execute(database: Database, statements: str) -> None:
    with connect_to_tables(database.url) as connection:
        connection.execute(statements)


@dataclass
class Many:
    """An instance with partitions and with runs of every status."""

    instance: dg.DagsterInstance
    url: str
    partitions: dg.MultiPartitionsDefinition
    runs: list[str]


@pytest.fixture(scope="module")
def many(postgres: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Many]:
    url = postgres.database("test_check_states", template="template_seller")
    with postgres_instance(url, tmp_path_factory.mktemp("instance")) as instance:
        instance.add_dynamic_partitions("shops", ["a", "b"])
        statuses = [dg.DagsterRunStatus[name] for name in ("STARTED", "SUCCESS", "FAILURE", "CANCELED")]
        runs = [
            instance.add_run(dg.DagsterRun(job_name="job", run_id=make_new_run_id(), status=status)).run_id
            for status in statuses
        ]
        partitions = dg.MultiPartitionsDefinition(
            {
                "account": dg.DynamicPartitionsDefinition(name="shops"),
                "month": dg.MonthlyPartitionsDefinition("2026-01-01", end_date="2026-04-01"),
            }
        )
        yield Many(instance, url, partitions, runs)
    drop_database(postgres, "test_check_states")


_CHECKED = """
INSERT INTO asset_check_executions (asset_key, check_name, partition, run_id, execution_status,
                                    evaluation_event_storage_id, materialization_event_storage_id)
VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
"""
_LOADED = """
INSERT INTO event_logs (run_id, event, dagster_event_type, timestamp, asset_key, partition)
VALUES ('loads', '{}', 'ASSET_MATERIALIZATION', now(), %s, %s) RETURNING id
"""
_ENDED = """
UPDATE asset_check_executions
SET execution_status = 'SUCCEEDED', evaluation_event_storage_id = %s, materialization_event_storage_id = %s
WHERE id IN (SELECT min(id) FROM asset_check_executions WHERE asset_key = %s AND execution_status = 'PLANNED')
"""
_STATUSES = ("PLANNED", "SUCCEEDED", "FAILED")


@given(st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_the_states_of_checks_are_those_of_dagster_whatever_changed_since(many: Many, rng: random.Random) -> None:
    asset = dg.AssetKey(f"it{next(_NUMBERS)}")
    checks = [dg.AssetCheckKey(asset, name) for name in ("c", "d")]
    partitions = many.partitions if rng.random() < 0.8 else None
    candidates: list[str | None] = (
        [*partitions.get_partition_keys(dynamic_partitions_store=many.instance)] if partitions else [None]
    )
    if partitions:
        candidates += ["gone|2026-01-01", "a|2026-13-01", "a", "a|2026-01-01|b"]
    storage = many.instance.event_log_storage

    for _ in range(3):
        with connect_to_tables(many.url) as connection:
            for _ in range(rng.randrange(20)):
                _change(connection, asset, rng, candidates, many.runs)
        keys = [(check, partitions) for check in checks]
        with dg.partition_loading_context(dynamic_partitions_store=many.instance):
            expected = bulk_update_asset_check_state(
                many.instance, keys, {check: AssetCheckState.empty() for check in checks}
            )
            states = storage.get_asset_check_state(keys)

        for check in checks:
            assert {status: subset.value for status, subset in states[check].subsets.items()} == {
                status: subset.value for status, subset in expected[check].subsets.items()
            }
            assert states[check].in_progress_runs == expected[check].in_progress_runs
        assert states[checks[0]].latest_storage_id == max(each.latest_storage_id for each in expected.values())


def _change(
    connection: psycopg.Connection[Any],
    asset: dg.AssetKey,
    rng: random.Random,
    candidates: list[str | None],
    runs: list[str],
) -> None:
    """Load a partition and check it, or end a check that was planned."""
    partition, name = rng.choice(candidates), rng.choice(("c", "d"))
    loaded = connection.execute(_LOADED, (asset.to_string(), partition)).fetchone()
    checked = connection.execute(_LOADED, ("other", None)).fetchone()
    assert loaded
    assert checked
    if rng.random() < 0.2:
        connection.execute(_ENDED, (checked[0], loaded[0], asset.to_string()))
    elif rng.random() < 0.8:
        run, status = rng.choice(runs), rng.choice(_STATUSES)
        connection.execute(_CHECKED, (asset.to_string(), name, partition, run, status, checked[0], loaded[0]))


def test_the_states_of_checks_follow_deleted_events(many: Many) -> None:
    asset = dg.AssetKey(f"it{next(_NUMBERS)}")
    check = dg.AssetCheckKey(asset, "c")
    storage = many.instance.event_log_storage
    with connect_to_tables(many.url) as connection:
        for run in many.runs[:2]:
            loaded = connection.execute(_LOADED.replace("'loads'", "%s"), (run, asset.to_string(), "a|2026-01-01"))
            number = (loaded.fetchone() or (0,))[0]
            values = (asset.to_string(), "c", "a|2026-01-01", run, "FAILED", number, number)
            connection.execute(_CHECKED, values)
    failed = AssetCheckExecutionResolvedStatus.FAILED
    before = storage.get_asset_check_state([(check, many.partitions)])[check].subsets[failed].size

    storage.delete_events(many.runs[1])

    assert before == 1
    assert storage.get_asset_check_state([(check, many.partitions)])[check].subsets[failed].size == 0


def test_the_newest_executions_of_checks_are_those_of_dagster(many: Many) -> None:
    checks = [dg.AssetCheckKey(dg.AssetKey(f"it{next(_NUMBERS)}"), name) for name in ("c", "d", "unchecked")]
    for number, check in enumerate(checks[:2] * 3):
        many.instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=check.asset_key, check_name=check.name, passed=True, partition=f"p{number}"
            )
        )
    storage = many.instance.event_log_storage
    assert isinstance(storage, PostgresEventLogStorage)

    newest = storage.get_latest_asset_check_execution_by_key(checks)

    assert newest == PostgresEventLogStorage.get_latest_asset_check_execution_by_key(storage, checks)
    assert {check: execution.partition for check, execution in newest.items()} == {checks[0]: "p4", checks[1]: "p5"}


def test_an_event_that_appears_late_with_a_lower_number_is_read() -> None:
    states, after = CheckedAssets(), list[int]()

    def changed(number: int) -> list[str]:
        after.append(number)
        return []

    for _ in range(2):
        states.read(
            dg.AssetKey("orders"),
            None,
            last_event=lambda: 5_000,
            last_of_whole=lambda: None,
            changed=changed,
            read=lambda _partitions, _whole: [],
        )

    (number,) = after
    assert number < 4_999
