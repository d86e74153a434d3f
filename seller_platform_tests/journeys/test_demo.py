"""`seller-platform demo` as a new user runs it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from seller_platform.contract import LISTS
from seller_platform_tests.journeys.processes import COMMAND, document, environment, left_behind, run

pytestmark = pytest.mark.journey


def test_the_demo_lands_everything_twice_and_leaves_nothing_running(tmp_path: Path) -> None:
    home = tmp_path / "a home with spaces"
    variables = environment(home)

    first, second = (document(run(["demo", "--json"], variables)) for _ in range(2))

    for told in (first, second):
        assert {load["dataset"] for load in told["loads"]} == {"accounts", *(dataset.name for dataset in LISTS)}
        assert {load["verdict"] for load in told["loads"]} == {"match", "unverifiable"}
        assert all(load["rows"] == load["announced"] for load in told["loads"] if load["verdict"] == "match")
        assert all(load["verdict"] == "match" for load in told["loads"] if load["dataset"] != "notifications")
        assert sum(load["rows"] for load in told["loads"] if load["dataset"] == "orders") > 5_000
    assert [load["changed"] for load in second["loads"]] == [0] * len(second["loads"])
    assert left_behind(home) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_the_demo_works_for_somebody_who_is_not_root(tmp_path: Path) -> None:
    home = Path("/tmp") / f"seller-platform-nobody-{os.getpid()}"  # somewhere that nobody may write
    home.mkdir(mode=0o700)
    shutil.chown(home, "nobody")
    try:
        result = subprocess.run(
            [*COMMAND, "demo", "--json"],
            env=environment(home, HOME=str(home)),
            user="nobody",
            group="nogroup",
            cwd=home,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        if "Permission denied" in result.stderr and "seller_platform" in result.stderr and not result.stdout:
            pytest.skip(f"nobody may not read this checkout or its Python: {result.stderr.strip()[-200:]}")
        assert document(result)["loads"]
    finally:
        shutil.rmtree(home, ignore_errors=True)
