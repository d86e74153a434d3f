"""`seller-platform dev`: a data engineer's whole way through the UI, with a daemon and a run that die in the middle."""

from pathlib import Path

import httpx
import pytest

from seller_platform_tests.support.deployment import DAEMON, LOADED, RUN_WORKER, deployment
from seller_platform_tests.support.processes import left_behind
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

pytestmark = [pytest.mark.journey, pytest.mark.timeout(2400)]

# One of the sandbox's sellers does not know what some of few products cost: a warning, where that is much of a month.
GREEN: tuple[dict[str, list[str]], ...] = ({}, {"marts/cost_coverage": ["sales_are_covered"]})


def test_a_backfill_completes_although_daemon_and_run_are_killed(tmp_path: Path) -> None:
    with deployment(tmp_path / "a home", "--accounts", "2", "--months", "3") as place:
        assert (
            httpx.get(f"{place.told['Service']}/service-status", timeout=PATIENCE_SECONDS).json()["status"] == "active"
        )
        assert place.told["Sandbox login"] == "demo@sandbox.example"
        assert place.told["Sandbox group"] == "All shops"

        place.backfill(LOADED)
        place.request_reports()
        for part in (RUN_WORKER, DAEMON):
            place.kill(part)
        state = place.settled()
        wait_for(place.failed_checks, lambda red: red in GREEN, pause_seconds=1)
        code = place.end()

    assert state.assets["seller/orders"].partitions == 6
    assert state.assets["seller/report_rows"].materialized == 2
    assert state.assets.keys() >= {"marts/account_profit_daily", "marts/restock_plan"}
    assert (code, left_behind(place.home)) == (0, [])
