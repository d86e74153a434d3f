"""`seller-platform dev` opens with the last month, and with `--live` loads the days that the sandbox adds.

Tests of one module share a deployment, in their order.
"""

import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from seller_platform.contract import LISTS
from seller_platform.sandbox.commands.demo import approve
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform_tests.support.deployment import Deployment, deployment
from seller_platform_tests.support.processes import completed, environment, left_behind, try_to_connect
from seller_platform_tests.support.stored_rows import stored
from seller_platform_tests.support.waiting import wait_for

pytestmark = [pytest.mark.journey, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A running `seller-platform dev` with its last month."""
    with deployment(tmp_path_factory.mktemp("dev") / "a home", "--accounts", "1", "--months", "2") as running:
        yield running


def test_the_last_month_is_there_and_every_printed_command_works(place: Deployment, tmp_path: Path) -> None:
    assets = wait_for(place.assets, pause_seconds=1)
    known: tuple[dict[str, list[str]], ...] = ({}, {"marts/cost_coverage": ["sales_are_covered"]})
    wait_for(place.failed_checks, lambda failed: failed in known, pause_seconds=2)
    command = re.search(r"`(.+?)`", place.told["In another shell"])
    assert command is not None
    typed = command[1].replace(" seller-platform ", f" {sys.executable} -m seller_platform.cli ")
    status = completed(typed, check=True, shell=True, cwd=tmp_path, env=environment(tmp_path)).stdout  # as printed
    person = partial(approve, email=place.told["Sandbox login"], password=place.told["Sandbox password"])
    connected = try_to_connect(environment(place.sandbox), person)

    assert typed != command[1]
    unfinished = {key for key, progress in assets.items() if not progress.is_whole}
    assert unfinished == {"seller/report_rows"}
    assert any(assets[f"seller/{dataset.name}"].materialized for dataset in LISTS)
    assert {f"marts/{mart.name}" for mart in MARTS} <= assets.keys() - unfinished
    assert "never loaded" not in status
    assert connected.returncode == 0, connected.stderr
    assert "Connected: 1 account" in connected.stdout + connected.stderr
    following = f"Next: `SELLER_PLATFORM_HOME='{place.sandbox}' seller-platform sync`"
    assert following in connected.stdout + connected.stderr


def test_a_program_that_dies_is_started_again(place: Deployment) -> None:
    place.kill("dagster_webserver")

    assert place.assets()


def test_it_ends_in_order(place: Deployment) -> None:
    place.await_quiet()

    assert (place.end(), left_behind(place.home)) == (0, [])


@pytest.mark.nightly
def test_a_live_sandbox_is_loaded_day_by_day(tmp_path: Path) -> None:
    options = ("--accounts", "1", "--months", "2", "--no-load", "--live")
    with deployment(tmp_path / "home", *options) as running, running.warehouse() as warehouse:

        def days_with_orders() -> int:
            [(days,)] = stored(warehouse, "SELECT count(DISTINCT local_day) FROM seller.orders")
            return int(days)

        first = wait_for(days_with_orders, pause_seconds=2)
        later = wait_for(days_with_orders, lambda days: days > first, pause_seconds=2)

    assert later > first
