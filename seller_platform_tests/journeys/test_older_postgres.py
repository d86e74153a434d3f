"""An installation moves to the oldest PostgreSQL that is supported, and goes on there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from seller_platform.contract import LISTS
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.postgres import count_transactions
from seller_platform_tests.support.processes import connect, document, foreign_environment, free_port, run
from seller_platform_tests.support.system_postgres import oldest_server

pytestmark = [pytest.mark.journey, pytest.mark.dagster_tables]

MONTHS = ["--from", "2026-01", "--to", "2026-03"]
# A new server counts transactions anew, so that `restore` changes these.
OF_SERVER = {("platform", name): "transaction_id" for name in ("loads", "slices")}


@pytest.fixture
def older() -> Iterator[str]:
    """The URL of an empty database, whose owner may create roles and is no superuser."""
    with oldest_server() as url:
        yield url


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
            digest = "SELECT count(*), md5(string_agg({row}, '' ORDER BY {row} COLLATE \"C\")) FROM {} AS stored"
            statement = sql.SQL(digest).format(sql.Identifier(schema, table), row=row)
            content[schema, table] = connection.execute(statement).fetchone()
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
