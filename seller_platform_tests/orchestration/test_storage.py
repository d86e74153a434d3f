"""Dagster's storage, where the server ends connections under it."""

from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.warehouse.database import Database
from seller_platform_tests.orchestration.instances import postgres_instance

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


def test_an_event_is_stored_although_the_server_ends_the_connection(database: Database, tmp_path: Path) -> None:
    with postgres_instance(database.url, tmp_path) as instance:
        _execute(database, _ENDING_THE_FIRST)

        instance.report_runless_asset_event(dg.AssetMaterialization(KEY, metadata={"rows": 7}))

        found = instance.get_latest_materialization_event(KEY)
    assert found is not None
    assert found.asset_materialization is not None
    assert found.asset_materialization.metadata["rows"].value == 7


def test_an_event_that_cannot_be_stored_is_not_stored_again_and_again(database: Database, tmp_path: Path) -> None:
    with postgres_instance(database.url, tmp_path) as instance:
        _execute(database, "DROP TABLE event_logs CASCADE")

        with pytest.raises(Exception, match='relation "event_logs" does not exist'):
            instance.report_runless_asset_event(dg.AssetMaterialization(KEY))


def _execute(database: Database, statements: str) -> None:
    with database.begin() as connection:
        connection.execute(text(statements))
