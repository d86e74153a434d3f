"""`seller-platform dev`: the UI, its daemon and the service, and a backfill as the UI launches it."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from seller_platform_tests.journeys.processes import COMMAND, environment, free_port

pytestmark = pytest.mark.journey

_PARTITIONS = """
{ assetNodeOrError(assetKey: {path: ["seller", "orders"]}) { ... on AssetNode { partitionKeys } } }
"""
_BACKFILL = """
mutation ($keys: [String!]!) {
  launchPartitionBackfill(backfillParams: {
    assetSelection: [{path: ["seller", "orders"]}, {path: ["seller", "transactions"]}], partitionNames: $keys
  }) { __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } }
}
"""
_STATUS = """
query ($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } }
  assetNodeOrError(assetKey: {path: ["seller", "orders"]}) {
    ... on AssetNode {
      partitionStats { numMaterialized numFailed numPartitions }
      assetChecksOrError { ... on AssetChecks { checks { name executionForLatestMaterialization { status } } } }
    }
  }
}
"""


def _descendants(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    return [each for child in map(int, found) for each in (child, *_descendants(child))]


def _is_alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    command = [*COMMAND, "dev", "--port", str(free_port()), "--service-port", str(free_port())]
    variables = environment(tmp_path / "a home")
    process = subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert process.stdout is not None
    told: dict[str, str] = {}
    for line in process.stdout:
        found = re.fullmatch(r"(.+?)  +(\S+)", line.strip())
        if found is None:
            break
        told[found[1]] = found[2]
    try:
        yield process, told
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def _ask(url: str, query: str, **variables: Any) -> dict[str, Any]:
    answer = httpx.post(f"{url}/graphql", json={"query": query, "variables": variables}, timeout=60).json()
    assert "errors" not in answer, answer
    found = answer["data"]
    assert isinstance(found, dict)
    return found


def test_a_backfill_from_the_ui_is_complete_and_ctrl_c_leaves_nothing(
    dev: tuple[subprocess.Popen[str], dict[str, str]], tmp_path: Path
) -> None:
    process, told = dev
    url = told["Dagster UI"]
    login = httpx.get(f"{told['Service']}/service-status").json()
    keys = _ask(url, _PARTITIONS)["assetNodeOrError"]["partitionKeys"]

    launched = _ask(url, _BACKFILL, keys=keys)["launchPartitionBackfill"]
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        status = _ask(url, _STATUS, id=launched["backfillId"])
        if status["partitionBackfillOrError"]["status"] != "REQUESTED":
            break
        time.sleep(1)
    children = _descendants(process.pid)
    process.send_signal(signal.SIGINT)
    code = process.wait(60)
    time.sleep(1)

    assert login["status"] == "active"
    assert told["Sandbox login"] == "demo@sandbox.example"
    assert status["partitionBackfillOrError"]["status"] == "COMPLETED_SUCCESS"
    stats = status["assetNodeOrError"]["partitionStats"]
    assert (stats["numMaterialized"], stats["numFailed"]) == (len(keys), 0)
    assert len(keys) == 12
    assert code == 0
    assert [pid for pid in children if _is_alive(pid)] == []
    assert not (tmp_path / "a home" / "sandbox" / "postgres" / "data" / "postmaster.pid").exists()
