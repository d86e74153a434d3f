"""Tests of `seller-platform docs --dbt`, by a dbt project and a Dagster project that are built on its files."""

import json
import os
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path

import psycopg
import pytest
import yaml

from seller_platform.cli.dbt import write_dbt_files
from seller_platform.contract import DATASETS, Window, dataset_named
from seller_platform.errors import RequestError
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.relations import SOURCES
from seller_platform_tests.support.processes import completed, environment, run, started
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.stored_rows import store_slice
from seller_platform_tests.support.waiting import wait_for

PACKAGES = ("dbt-core==1.11.16", "dbt-postgres==1.10.2", "dagster-dbt==0.29.27", "dagster==1.13.27")
"""They have an environment of their own: dbt and the tools of these tests want different versions of a package."""

PROJECT = {
    "dbt_project.yml": "{name: shop, version: '1.0', profile: shop, model-paths: [models]}",
    "models/gifts_by_day.sql": (
        "SELECT account, local_day, count(*) FILTER (WHERE gift) AS gifts, sum(fee) AS fees, max(note) AS note\n"
        "FROM {{ ref('stg_seller__orders') }} GROUP BY 1, 2"
    ),
    "models/profit.sql": "SELECT account, profit FROM {{ source('marts', 'account_profit_daily') }}",
}
GRAPH = """
import json, sys
from pathlib import Path
from dagster_dbt import dbt_assets

@dbt_assets(manifest=Path("target/manifest.json"))
def shop(context): ...

print(json.dumps({key.to_user_string(): [each.to_user_string() for each in deps]
                  for key, deps in shop.asset_deps.items()}, default=list))
"""
"""Prints what the assets of the project depend on, as dagster-dbt reads the manifest."""

FIELDS = {"gift": True, "fee": 0.10, "note": "für Ann", "parts": [1], "sku": "own", "{{ 1/0 }}": "x"}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has dbt and dagster-dbt."""
    folder = tmp_path_factory.mktemp("dbt")
    uv = [sys.executable, "-m", "uv", "--quiet"]
    completed([*uv, "venv", "--python", sys.executable, str(folder)], check=True)
    installed = completed([*uv, "pip", "install", "--python", str(folder / "bin" / "python"), *PACKAGES])
    if installed.returncode:
        skip_except_in_ci(f"dbt cannot be installed: {installed.stderr}")
    return folder / "bin"


@pytest.mark.journey
def test_a_dbt_project_on_the_sources_builds_and_tests_green(tmp_path: Path, programs: Path) -> None:
    home = environment(tmp_path / "home", SELLER_PLATFORM_DEMO="1")
    assert run(["demo", "--months", "1"], home).returncode == 0
    project = tmp_path / "shop"
    for name, text in PROJECT.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    with started(["database", "run"], home) as (process, output, _):
        wait_for(lambda: b"Ctrl-C" in os.pread(output.fileno(), 10_000, 0))
        shown = dict(line.split(maxsplit=1) for line in os.pread(output.fileno(), 10_000, 0).decode().splitlines())
        url = run(["database", "url", "--with-password"], home).stdout.strip()
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute("UPDATE seller.orders SET extra = %s WHERE quantity_ordered = 1", [json.dumps(FIELDS)])
            owner.execute("CREATE ROLE dbt LOGIN PASSWORD 'secret' IN ROLE desktop")
            owner.execute("GRANT CREATE ON DATABASE warehouse TO dbt")
            assert run(["docs", "--dbt", str(project / "models" / "seller")], home).returncode == 0
            owner.execute("""UPDATE seller.orders SET extra = '{"fee": "none"}' WHERE quantity_ordered = 2""")
        (project / "profiles.yml").write_text(_profile(shown["Host"], int(shown["Port"])))

        built = _in(project, [programs / "dbt", "build", "--no-use-colors"])
        fresh = _in(project, [programs / "dbt", "source", "freshness", "--no-use-colors"])

        with psycopg.connect(url) as owner:
            (row,) = owner.execute("SELECT sum(gifts), max(note) FROM analytics.gifts_by_day").fetchall()
            (gifts,) = owner.execute("SELECT count(*) FROM seller.orders WHERE quantity_ordered = 1").fetchone() or (0,)
        os.kill(process.pid, signal.SIGINT)
        process.wait()
    assert "WARN=0 ERROR=0 SKIP=0" in built.stdout
    assert fresh.stdout.count(" PASS freshness of ") == len(DATASETS) - 1  # that of reports is any
    assert row == (gifts, "für Ann")
    graph = json.loads(_in(project, [programs / "python", "-c", GRAPH]).stdout)
    assert graph["stg_seller__orders"] == ["seller/orders"]
    assert graph["profit"] == ["marts/account_profit_daily"]


def _profile(host: str, port: int) -> str:
    login = {"host": host, "port": port, "user": "dbt", "password": "secret", "dbname": "warehouse"}
    output = {"type": "postgres", "schema": "analytics", "threads": 4, **login}
    return yaml.safe_dump({"shop": {"target": "dev", "outputs": {"dev": output}}})


def _in(folder: Path, command: list[object]) -> subprocess.CompletedProcess[str]:
    variables = {**environment(folder), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    result = completed([str(word) for word in command], cwd=folder, env=variables)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def test_fields_of_extra_are_typed_columns_of_the_view(database: Database, tmp_path: Path) -> None:
    orders, march = dataset_named("orders"), Window.month_of(date(2026, 3, 1))
    row = ("1", "2026-03-02T03:30:00+02:00", "Shipped", None, "EUR", 2, "SKU", None, None, "2026-03-02")
    store_slice(database, orders, march, [row, row, row], extras={0: json.dumps(FIELDS), 1: '{"fee": 2, "x\'": 1}'})

    with database.connect() as connection:
        write_dbt_files(connection, tmp_path)
        view = (tmp_path / "stg_seller__orders.sql").read_text()
        shown = connection.exec_driver_sql(view.replace("{{ source('seller', 'orders') }}", "seller.orders"))
        (first, second, third) = shown.mappings()

    assert [(each["gift"], each["note"], each["parts"], each["extra_sku"]) for each in (first, third)] == [
        (True, "für Ann", [1], "own"),
        (None, None, None, None),
    ]
    assert [str(each["fee"]) for each in (first, second, third)] == ["0.1", "2", "None"]
    assert "-- 2 fields have an unusual or long name" in view
    assert "1/0" not in view


def test_every_table_is_a_source_of_its_asset(database: Database, tmp_path: Path) -> None:
    with database.connect() as connection:
        write_dbt_files(connection, tmp_path)
        written = write_dbt_files(connection, tmp_path)  # they are replaced
        (tmp_path / "stg_seller__orders.sql").write_text("SELECT 1")
        with pytest.raises(RequestError, match=r"stg_seller__orders.sql is not of `docs --dbt`, and stays as it is"):
            write_dbt_files(connection, tmp_path)

    sources = yaml.safe_load((tmp_path / "sources.yml").read_text())["sources"]
    tables = {f"{source['name']}.{table['name']}": table for source in sources for table in source["tables"]}
    assert tables.keys() == {each.table for each in SOURCES}
    assert {".".join(each["config"]["meta"]["dagster"]["asset_key"]) for each in tables.values()} == tables.keys()
    assert all(column["description"] for each in tables.values() for column in each["columns"])
    assert len(written) == len(DATASETS) + 1
    assert (tmp_path / "stg_seller__orders.sql").read_text() == "SELECT 1"
