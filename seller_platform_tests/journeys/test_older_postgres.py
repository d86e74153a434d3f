"""An installation moves to the oldest PostgreSQL that is supported, and goes on there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from seller_platform.contract import LISTS
from seller_platform.warehouse.postgres.health import OLDEST_VERSION
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import count_transactions
from seller_platform_tests.support.processes import connect, document, foreign_environment, free_port, run
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.system_postgres import SYSTEM_SERVERS, system_server
from seller_platform_tests.support.watchdog import folder_of_the_run

pytestmark = [pytest.mark.journey, pytest.mark.dagster_tables]

MONTHS = ["--from", "2026-01", "--to", "2026-03"]
# A new server counts transactions anew, so that `restore` changes these.
OF_SERVER = {
    ("platform", "loads"): "transaction_id",
    ("platform", "slices"): "transaction_id",
}


@pytest.fixture
def older() -> Iterator[str]:
    """The URL of an empty database, whose owner may create roles and is no superuser."""
    server = next((each for each in SYSTEM_SERVERS if each.parts[-3] == str(OLDEST_VERSION)), None)
    if server is None:
        skip_except_in_ci(f"PostgreSQL {OLDEST_VERSION} is not installed; install postgresql-{OLDEST_VERSION}")
    with temporary_folder(folder_of_the_run()) as folder, system_server(server, folder) as sockets:
        with psycopg.connect(f"host={sockets} user=postgres", autocommit=True) as connection:
            connection.execute("CREATE ROLE seller LOGIN CREATEROLE")
            connection.execute("CREATE DATABASE shop OWNER seller")
        yield f"postgresql://seller@/shop?host={quote(str(sockets), safe='')}"


def _content(url: str) -> dict[object, object]:
    """Return the digest of each table, and the state of each sequence."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname !~ '^(pg_|information_schema)'"
        ).fetchall()
        content: dict[object, object] = dict(
            connection.execute("SELECT (schemaname, sequencename)::text, last_value FROM pg_sequences").fetchall()
        )
        for schema, table in tables:
            row = sql.SQL("(to_jsonb(stored) - {})::text").format(OF_SERVER.get((schema, table), ""))
            statement = sql.SQL(
                "SELECT count(*), md5(string_agg({row}, '' ORDER BY {row} COLLATE \"C\")) FROM {} AS stored"
            )
            content[schema, table] = connection.execute(
                statement.format(sql.Identifier(schema, table), row=row)
            ).fetchone()
    return content


def test_an_installation_goes_on_on_the_oldest_server(older: str, database_url: str, tmp_path: Path) -> None:
    with independent_upstream.open_independent_upstream(f"http://127.0.0.1:{free_port()}/back") as upstream:
        variables = foreign_environment(upstream, database_url, tmp_path / "home")
        moved = variables | {"SELLER_PLATFORM_DATABASE_URL": older}

        def answer(command: str, *options: str, on: dict[str, str] = moved) -> Any:
            return document(run([*command.split(), "--json", *options], on))

        count_transactions(database_url)
        connect(variables)
        answer("sync", *MONTHS, on=variables)
        built = answer("marts build", *MONTHS, on=variables)
        answer("backup", str(tmp_path / "backup"), on=variables)
        restored = answer("restore", str(tmp_path / "backup"))
        content = _content(older)
        rebuilt = answer("marts build", "--full", *MONTHS)
        loads = answer("sync", *MONTHS)["loads"]
        lists = [name for dataset in LISTS if not dataset.parameters for name in ("--dataset", dataset.name)]
        verified = answer("verify", *MONTHS, *lists)["results"]
        reader = answer("database reader", "ana")["reader"]
        told = json.loads(run(["doctor", "--json"], moved).stdout)["findings"]
        with psycopg.connect(older, user=reader) as connection:
            rows = connection.execute("SELECT count(*) FROM seller.orders").fetchone()

    assert restored["grants_left_out"] == []
    assert content == _content(database_url)
    assert built == rebuilt
    assert {load["verdict"] for load in loads} == {"match", "unverifiable"}
    assert [load["changed"] for load in loads] == [0] * len(loads)
    assert verified.keys() == {"equal"}
    assert rows == (sum(row["rows"] for row in loads if row["dataset"] == "orders"),)
    assert any(each["subject"] == "PostgreSQL" and each["level"] == "ok" for each in told)
    assert {each["subject"] for each in told if each["level"] == "fail"} == {"durability"}  # of the tests' server
