"""`seller-platform dev --live` loads the days that the sandbox adds."""

from pathlib import Path

import pytest

from seller_platform_tests.support.deployment import SCHEDULES, deployment
from seller_platform_tests.support.stored_rows import stored
from seller_platform_tests.support.waiting import wait_for

pytestmark = [pytest.mark.journey, pytest.mark.nightly, pytest.mark.timeout(2400)]


def test_a_live_sandbox_is_loaded_day_by_day(tmp_path: Path) -> None:
    options = ("--accounts", "1", "--months", "2", "--no-load", "--live")
    with deployment(tmp_path / "home", *options) as place, place.databases() as (_, warehouse):

        def days_with_orders() -> int:
            [(days,)] = stored(warehouse, "SELECT count(DISTINCT local_day) FROM seller.orders")
            return int(days)

        first = wait_for(days_with_orders, pause_seconds=2)
        later = wait_for(days_with_orders, lambda days: days > first, pause_seconds=2)
        schedules = place.ask(SCHEDULES)["repositoryOrError"]["schedules"]

    assert later > first
    assert "orders_today" in [each["name"] for each in schedules if each["scheduleState"]["status"] == "RUNNING"]
