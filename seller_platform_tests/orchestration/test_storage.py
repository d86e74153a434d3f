"""Tests Dagster's storage: connections that the server ends, and a server that starts."""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest

from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.dagster_instance import connect_to_tables, postgres_instance
from seller_platform_tests.support.waiting import wait_for
from seller_platform_tests.support.watchdog import folder_of_the_run

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
    CREATE TRIGGER ending BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION end_the_first();
"""
KEY = dg.AssetKey("it")


@pytest.mark.parametrize("table", ["event_logs", "asset_keys"])  # the first and the last transaction of an event
def test_an_event_is_stored_once_although_a_connection_ends(database: Database, tmp_path: Path, table: str) -> None:
    with postgres_instance(database.url, tmp_path) as instance:
        _execute(database, _ENDING_THE_FIRST.format(table))

        instance.report_runless_asset_event(dg.AssetMaterialization(KEY, metadata={"rows": 7}))

        events = instance.fetch_materializations(KEY, limit=5).records
        newest = instance.get_latest_materialization_event(KEY)
        _execute(database, "DROP TABLE event_logs CASCADE")
        with pytest.raises(Exception, match='relation "event_logs" does not exist'):  # one that no repetition stores
            instance.report_runless_asset_event(dg.AssetMaterialization(KEY))
    assert [each.event_log_entry for each in events] == [newest]
    assert newest is not None
    assert newest.asset_materialization is not None
    assert newest.asset_materialization.metadata["rows"].value == 7


def test_an_instance_opens_although_the_server_is_still_starting(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    socket = Path(str(database.engine.url.query["host"])) / ".s.PGSQL.5432"
    (empty := Path(tempfile.mkdtemp(dir=folder_of_the_run()))).chmod(0o755)  # paths of sockets must be short
    monkeypatch.setenv(
        "SELLER_PLATFORM_DATABASE_URL", f"postgresql://postgres@/{database.engine.url.database}?host={empty}"
    )
    (tmp_path / "dagster.yaml").write_text(
        "storage:\n  custom: {module: seller_platform.orchestration.storage, class: PooledPostgresStorage}\n"
    )
    monkeypatch.setattr("tenacity.nap.time", time)  # real pauses

    with ThreadPoolExecutor(1) as server:
        server.submit(wait_for, lambda: caplog.messages).add_done_callback(
            lambda _: (empty / socket.name).symlink_to(socket)
        )
        with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
            runs = instance.get_runs_count()

    assert runs == 0
    assert "Attempts go on for half a minute." in caplog.messages[0]


def _execute(database: Database, statements: str) -> None:
    with connect_to_tables(database.url) as connection:
        connection.execute(statements)
