"""`seller-platform dev`: a data engineer's whole way through the UI, with a daemon and a run that die in the middle."""

import time
from pathlib import Path

import httpx
import pytest

from seller_platform_tests.journeys.deployment import DAEMON, LOADED, RUN_WORKER, awaited, deployment, is_alive

pytestmark = [pytest.mark.journey, pytest.mark.timeout(600)]


def test_a_backfill_reports_marts_and_checks_come_whole_though_daemon_and_run_are_killed(tmp_path: Path) -> None:
    with deployment(tmp_path / "a home") as place:
        assert httpx.get(f"{place.told['Service']}/service-status").json()["status"] == "active"
        assert place.told["Sandbox login"] == "demo@sandbox.example"

        place.backfill(LOADED)
        place.request_reports()
        for part in (RUN_WORKER, DAEMON):
            awaited(lambda part=part: place.kill(part), told=lambda _, part=part: f"no {part} to kill")  # type: ignore[misc]  # defaults that fix the loop's value
        whole = awaited(place.state, lambda state: state.is_whole, 420, told=lambda state: state.unfinished)
        red = place.failed_checks()
        processes = place.processes()
        code = place.end()
        time.sleep(1)

    assert whole.assets["seller/orders"].partitions == 12
    assert whole.assets["seller/report_rows"].materialized == 3
    assert whole.assets.keys() >= {"marts/account_profit_daily", "marts/restock_plan"}
    assert {key: names for key, names in red.items() if key.startswith("seller/")} == {}
    assert code == 0
    assert [pid for pid in processes if is_alive(pid)] == []
    assert not (place.sandbox / "postgres" / "data" / "postmaster.pid").exists()
