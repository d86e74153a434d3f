"""`seller-platform dev`: a data engineer's whole way through the UI, with a daemon and a run that die in the middle."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from seller_platform_tests.journeys.processes import COMMAND, environment, free_port

pytestmark = [pytest.mark.journey, pytest.mark.timeout(600)]

LISTS = [
    *("orders", "daily_product_sales", "transactions", "sales_by_product", "sales_by_date"),
    *("inventory", "warehouse_stock", "inbound_shipments", "notifications", "cost_periods"),
]
_BACKFILL = """
mutation ($assets: [AssetKeyInput!]!) {
  launchPartitionBackfill(backfillParams: {assetSelection: $assets, allPartitions: true}) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}
"""
_LAUNCH = """
mutation {
  launchRun(executionParams: {
    selector: {
      repositoryName: "__repository__", repositoryLocationName: "seller_platform", jobName: "request_reports"
    }, runConfigData: {}
  }) { __typename ... on PythonError { message } }
}
"""
_STATE = """
{
  assetNodes {
    assetKey { path }
    partitionStats { numMaterialized numFailed numPartitions }
    assetChecksOrError { ... on AssetChecks { checks {
      name
      executionForLatestMaterialization { status }
      partitionStatuses {
        ... on AssetCheckDefaultPartitionStatuses { failedPartitions executionFailedPartitions }
        ... on AssetCheckMultiPartitionStatuses { ranges { secondaryDim {
          ... on AssetCheckTimePartitionStatuses { ranges { status startKey } }
          ... on AssetCheckDefaultPartitionStatuses { failedPartitions executionFailedPartitions }
        } } }
      }
    } } }
  }
  runsOrError(limit: 500) { ... on Runs { results { status } } }
}
"""


def _descendants(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    return [each for child in map(int, found) for each in (child, *_descendants(child))]


def _is_alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


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
        # Asked first: killed, it would leave the programs that it started.
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _ask(url: str, query: str, **variables: Any) -> dict[str, Any]:
    answer = httpx.post(f"{url}/graphql", json={"query": query, "variables": variables}, timeout=60).json()
    assert "errors" not in answer, answer
    found = answer["data"]
    assert isinstance(found, dict)
    return found


def _state(url: str) -> dict[str, dict[str, Any]]:
    """Return what the UI shows of each asset, by its key."""
    return {"/".join(node["assetKey"]["path"]): node for node in _ask(url, _STATE)["assetNodes"]}


def _is_whole(node: dict[str, Any]) -> bool:
    stats = node["partitionStats"]
    return stats is None or (stats["numMaterialized"] == stats["numPartitions"] and not stats["numFailed"])


def _failed_checks(node: dict[str, Any]) -> list[str]:
    """Return the checks of an asset that failed for any partition."""

    def has_failed(statuses: Any) -> bool:
        if isinstance(statuses, dict):
            failed = statuses.get("failedPartitions") or statuses.get("executionFailedPartitions")
            return bool(failed) or "FAILED" in str(statuses.get("status")) or any(map(has_failed, statuses.values()))
        return isinstance(statuses, list) and any(map(has_failed, statuses))

    def is_red(check: dict[str, Any]) -> bool:
        execution = check["executionForLatestMaterialization"]
        is_partitioned = check["partitionStatuses"] is not None
        return has_failed(check["partitionStatuses"]) if is_partitioned else execution["status"] != "SUCCEEDED"

    return [check["name"] for check in node["assetChecksOrError"]["checks"] if is_red(check)]


def _await(look: Callable[[], Any], is_there: Callable[[Any], bool], seconds: float, told: Callable[[Any], Any]) -> Any:
    deadline = time.monotonic() + seconds
    while not is_there(found := look()):
        assert time.monotonic() < deadline, told(found)
        time.sleep(0.5)
    return found


def test_a_backfill_reports_marts_and_checks_come_whole_though_daemon_and_run_are_killed(
    dev: tuple[subprocess.Popen[str], dict[str, str]], tmp_path: Path
) -> None:
    process, told = dev
    url = told["Dagster UI"]
    assert httpx.get(f"{told['Service']}/service-status").json()["status"] == "active"
    assert told["Sandbox login"] == "demo@sandbox.example"

    launched = _ask(url, _BACKFILL, assets=[{"path": ["seller", name]} for name in LISTS])["launchPartitionBackfill"]
    requested = _ask(url, _LAUNCH)["launchRun"]
    for words in ("multiprocessing.spawn", "dagster._daemon run"):
        (victim, *_) = _await(
            lambda words=words: [pid for pid in _descendants(process.pid) if words in _command_of(pid)],  # type: ignore[misc]  # a default that fixes the loop's value
            bool,
            120,
            lambda _, words=words: f"no process runs {words}",  # type: ignore[misc]  # likewise
        )
        os.kill(victim, signal.SIGKILL)

    whole = _await(
        lambda: _state(url),
        lambda state: all(map(_is_whole, state.values())),
        420,
        lambda state: {key: node["partitionStats"] for key, node in state.items() if not _is_whole(node)},
    )
    children = _descendants(process.pid)
    process.send_signal(signal.SIGINT)
    code = process.wait(60)
    time.sleep(1)

    assert (launched["__typename"], requested["__typename"]) == ("LaunchBackfillSuccess", "LaunchRunSuccess")
    assert whole["seller/orders"]["partitionStats"]["numPartitions"] == 12
    assert whole["seller/report_rows"]["partitionStats"]["numMaterialized"] == 3
    assert {key for key in whole if key.startswith("marts/")} >= {"marts/account_profit_daily", "marts/restock_plan"}
    red = {key: failed for key, node in whole.items() if (failed := _failed_checks(node))}
    # The sandbox's sellers know no cost of some products.
    assert red.items() <= {"marts/cost_coverage": ["sales_are_covered"]}.items()
    assert code == 0
    assert [pid for pid in children if _is_alive(pid)] == []
    assert not (tmp_path / "a home" / "sandbox" / "postgres" / "data" / "postmaster.pid").exists()
