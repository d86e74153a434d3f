"""`seller-platform dev` opens with the last month, its messages can be followed, and it opens again with the same."""

import re
import sys
from functools import partial
from pathlib import Path
from subprocess import run as run_in_shell

import pytest
from sqlalchemy import text

from seller_platform.cli.sandbox.demo import approve
from seller_platform.warehouse.marts import MARTS
from seller_platform_tests.support.deployment import LOADED, Deployment, deployment
from seller_platform_tests.support.processes import environment, left_behind, try_to_connect

pytestmark = [pytest.mark.journey, pytest.mark.timeout(900)]

OPTIONS = ("--accounts", "1", "--months", "2")


def test_the_last_month_is_there_and_every_printed_command_works(tmp_path: Path) -> None:
    home = tmp_path / "a home"
    with deployment(home, *OPTIONS) as place:
        state = place.state()
        failed = place.failed_checks()
        loads = _loads(place)
        command = re.search(r"`(.+?)`", place.told["In another shell"])
        assert command is not None
        status = _run(command[1], tmp_path)
        connected = _connect_again(place)
        code = place.end()
    with deployment(home, *OPTIONS) as again:
        loads_again = _loads(again)
        end = again.end()

    unfinished = {key for key, progress in state.assets.items() if not progress.is_whole}
    assert unfinished == {"seller/report_rows"}
    assert state.materialized(LOADED) > 0
    assert {f"marts/{mart.name}" for mart in MARTS} <= state.assets.keys() - unfinished
    assert failed in ({}, {"marts/cost_coverage": ["sales_are_covered"]})
    assert "never loaded" not in status
    assert "Connected: 1 account" in connected
    assert f"Next: `SELLER_PLATFORM_HOME='{place.sandbox}' seller-platform sync`" in connected
    assert loads_again == loads
    assert (code, end, left_behind(home)) == (0, 0, [])


def _run(command: str, folder: Path) -> str:
    """Run a printed command as in a shell of a person, in another folder."""
    installed = command.replace(" seller-platform ", f" {sys.executable} -m seller_platform.cli ")
    assert installed != command
    ended = run_in_shell(
        installed, shell=True, cwd=folder, env=environment(folder), capture_output=True, text=True, check=True
    )  # as printed
    return ended.stdout


def _connect_again(place: Deployment) -> str:
    person = partial(approve, email=place.told["Sandbox login"], password=place.told["Sandbox password"])
    connected = try_to_connect(environment(place.sandbox), person)
    assert connected.returncode == 0, connected.stderr
    return connected.stdout + connected.stderr


def _loads(place: Deployment) -> int:
    """Return how many slices of lists were ever loaded."""
    with place.databases() as (_, warehouse), warehouse.begin() as connection:
        loads = connection.execute(text("SELECT count(*) FROM platform.loads WHERE dataset <> 'accounts'"))
        return int(loads.scalar_one())
