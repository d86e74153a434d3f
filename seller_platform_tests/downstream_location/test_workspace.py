"""Tests both code locations in one web server: the graph, and a run."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.warehouse.loads.slices import Slice, open_load
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.processes import environment, free_port
from seller_platform_tests.support.stored_rows import connect_accounts
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

# `orchestration/test_downstream.py` reads partitions in one process.
pytestmark = [pytest.mark.journey, pytest.mark.nightly]

TOP = Path(__file__).parents[2]
ACCOUNT = "S1.EU"
PARTITION = f"{ACCOUNT}|2026-02-01"

_LOCATIONS = """
{
  workspaceOrError {
    ... on Workspace { locationEntries { name loadStatus locationOrLoadError { __typename
      ... on PythonError { message } } } }
  }
}
"""
_NODES = """
{
  assetNodes(assetKeys: [{path: ["seller", "orders"]}, {path: ["finance", "monthly_revenue"]}]) {
    assetKey { path } repository { location { name } } isExecutable jobNames
    dependencyKeys { path } dependedByKeys { path } partitionDefinition { name type }
  }
}
"""
_LAUNCH = """
mutation ($partition: String!) {
  launchPipelineExecution(executionParams: {
    selector: {
      repositoryLocationName: "finance", repositoryName: "__repository__", pipelineName: "__ASSET_JOB",
      assetSelection: [{path: ["finance", "monthly_revenue"]}]
    }
    runConfigData: {}
    executionMetadata: {tags: [
      {key: "dagster/partition", value: $partition},
      {key: "dagster/partition/account", value: "S1.EU"}, {key: "dagster/partition/month", value: "2026-02-01"}
    ]}
  }) { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } }
}
"""
_RUN = """
query ($id: ID!) {
  runOrError(runId: $id) { ... on Run { status } }
  assetOrError(assetKey: {path: ["finance", "monthly_revenue"]}) { ... on Asset {
    assetMaterializations(limit: 1) { partition metadataEntries { label
      ... on IntMetadataEntry { intValue } ... on TextMetadataEntry { text } } }
  } }
}
"""


@pytest.fixture
def variables(database_url: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with the warehouse and without the API."""
    home = tmp_path / "dagster"
    home.mkdir()
    # Runs start at once here: the daemon that would take them from the queue is another process.
    settings = (TOP / "dagster.yaml").read_text().split("run_queue:")[0]
    coordinator = "run_coordinator: {module: dagster._core.run_coordinator, class: DefaultRunCoordinator}\n"
    (home / "dagster.yaml").write_text(settings + coordinator + "telemetry: {enabled: false}\n")
    return environment(
        tmp_path,
        DAGSTER_HOME=str(home),
        SELLER_PLATFORM_DATABASE_URL=database_url,
        SELLER_PLATFORM_HISTORY_START="2026-01-01",
        PYTHONPATH=str(TOP),
    )


@pytest.fixture
def webserver(variables: dict[str, str], database: Database, tmp_path: Path) -> Iterator[str]:
    """The URL of a web server of both locations, with a month of orders."""
    _store(database, dataset_named("orders"))
    subprocess.run(
        [sys.executable, "-c", _ADD_ACCOUNT], env=variables, check=True, timeout=PATIENCE_SECONDS, capture_output=True
    )
    port = free_port()
    workspace = Path(__file__).with_name("workspace.yaml")
    command = [sys.executable, "-m", "dagster_webserver", "-w", str(workspace), "-h", "127.0.0.1", "-p", str(port)]
    with (tmp_path / "webserver.log").open("wb") as log:
        process = subprocess.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        _await(url, process, tmp_path / "webserver.log")
        yield url
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


_ADD_ACCOUNT = f"""
import dagster as dg
with dg.DagsterInstance.get() as instance:
    instance.add_dynamic_partitions("accounts", ["{ACCOUNT}"])
"""


def _store(database: Database, orders: Dataset) -> None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    connect_accounts(database, [(ACCOUNT, Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "EU", "S1"))])
    rows = [
        (f"o{number}", f"2026-02-{number:02d}T10:00:00+01:00", "Shipped", Decimal("0.10"), "EUR", 1, "SKU", None, None)
        for number in range(1, 4)
    ]
    with open_load(database, Slice(orders, ACCOUNT, Window.month_of(date(2026, 2, 1)))) as load:
        load.spool.write([(*row, row[1][:10]) for row in rows], tags=("platform",), page=1)
        load.store(LoadFacts(1, 1, 0, len(rows), CountVerdict.MATCH), started_at=datetime.now(UTC))


def _await(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        with suppress(httpx.TransportError):
            return httpx.get(f"{url}/server_info", timeout=PATIENCE_SECONDS).status_code == 200
        return False

    wait_for(answers, pause_seconds=0.5, explain=lambda _: log.read_text())


def _ask(url: str, query: str, **variables: Any) -> dict[str, Any]:
    answer = httpx.post(
        f"{url}/graphql", json={"query": query, "variables": variables}, timeout=PATIENCE_SECONDS
    ).json()
    assert "errors" not in answer, answer
    data = answer["data"]
    assert isinstance(data, dict)
    return data


def test_both_locations_are_one_graph_and_the_other_reads_our_rows(webserver: str) -> None:
    entries = _ask(webserver, _LOCATIONS)["workspaceOrError"]["locationEntries"]
    nodes = _ask(webserver, _NODES)["assetNodes"]
    launched = _ask(webserver, _LAUNCH, partition=PARTITION)["launchPipelineExecution"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    state = wait_for(
        lambda: _ask(webserver, _RUN, id=launched["run"]["runId"]),
        lambda state: state["runOrError"]["status"] in ("SUCCESS", "FAILURE", "CANCELED"),
        pause_seconds=0.5,
    )

    assert {entry["name"]: entry["locationOrLoadError"] for entry in entries} == {
        name: {"__typename": "RepositoryLocation"} for name in ("seller_platform", "finance")
    }
    by_key = {"/".join(node["assetKey"]["path"]): node for node in nodes}
    assert len(nodes) == 2
    orders, revenue = by_key["seller/orders"], by_key["finance/monthly_revenue"]
    assert orders["repository"]["location"]["name"] == "seller_platform"
    assert orders["isExecutable"]
    assert {"path": ["finance", "monthly_revenue"]} in orders["dependedByKeys"]
    assert revenue["dependencyKeys"] == [{"path": ["seller", "orders"]}]
    assert revenue["partitionDefinition"] == orders["partitionDefinition"]
    assert state["runOrError"]["status"] == "SUCCESS"
    (event,) = state["assetOrError"]["assetMaterializations"]
    assert event["partition"] == PARTITION
    facts = {entry["label"]: entry.get("intValue", entry.get("text")) for entry in event["metadataEntries"]}
    assert (facts["orders"], facts["EUR"]) == (3, "0.30")
