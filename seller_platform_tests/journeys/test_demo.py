"""`seller-platform demo` as a new user runs it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from compileall import compile_dir
from pathlib import Path
from typing import Any

import pytest

import seller_platform
from seller_platform.contract import REFRESHED
from seller_platform.orchestration.instance.home import shipped_file
from seller_platform_tests.support.processes import COMMAND, document, environment, left_behind, run
from seller_platform_tests.support.skipping import skip_except_in_ci

pytestmark = pytest.mark.journey


@pytest.fixture
def demo() -> Iterator[tuple[Path, Callable[[], dict[str, Any]]]]:
    """A home folder, and a function that runs the demo there: as nobody if we are root, as other tests are not."""
    folder = Path(tempfile.mkdtemp(prefix="seller-platform-nobody-", dir="/tmp"))  # nobody cannot write below tmp_path
    home = folder / "a home with spaces"
    try:
        if os.geteuid() == 0 and sys.platform == "linux":
            copy = _copy_of_the_package(folder)
            shutil.chown(folder, "nobody")
            variables = environment(home, HOME=str(folder), TMPDIR=str(folder), PYTHONPATH=str(copy))
            yield home, lambda: document(_run_as_nobody(["demo", "--json"], variables))
        else:
            yield home, lambda: document(run(["demo", "--json"], environment(home), forked=False))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_the_demo_lands_everything_twice_and_leaves_nothing_running(
    demo: tuple[Path, Callable[[], dict[str, Any]]],
) -> None:
    home, run_demo = demo

    first, second = run_demo(), run_demo()

    for told in (first, second):
        assert {load["dataset"] for load in told["loads"]} == {"accounts", *(dataset.name for dataset in REFRESHED)}
        assert {load["verdict"] for load in told["loads"]} == {"match", "unverifiable"}
        assert all(load["rows"] == load["announced"] for load in told["loads"] if load["verdict"] == "match")
        unannounced = {load["dataset"] for load in told["loads"] if load["verdict"] == "unverifiable"}
        assert unannounced == {"notifications", "cost_periods"}
        assert sum(load["rows"] for load in told["loads"] if load["dataset"] == "orders") > 5_000
        assert [line.partition(" ")[0] for line in told["insights"]] == ["Runs", "Margin", "Sales"]
    assert [load["changed"] for load in second["loads"]] == [0] * len(second["loads"])
    assert left_behind(home) == []


def test_every_command_that_demo_names_shows_what_it_stored(tmp_path: Path) -> None:
    variables = {name: value for name, value in environment(tmp_path).items() if name != "SELLER_PLATFORM_HOME"}

    ended = run(["demo"], variables, folder=tmp_path)
    commands = re.findall(r"^  seller-platform (--demo .*)$", ended.stderr, re.MULTILINE)
    shown = [run(shlex.split(command), variables, folder=tmp_path) for command in commands]
    without = run(["status"], variables, folder=tmp_path)
    others = [
        run(words, variables, folder=tmp_path)
        for words in (
            ["held", "--demo"],
            ["doctor", "--demo"],
            ["verify", "--demo", "--dataset", "orders"],
            ["sync", "--demo", "--dataset", "inventory"],
            ["report", "request", "--demo"],
            ["report", "load", "--demo"],
        )
    ]

    assert ended.returncode == 0, ended.stderr
    assert f"A new home folder was created: {tmp_path / '.seller_platform'}" in ended.stderr
    assert commands[0] == "--demo status"
    assert [each.returncode for each in shown] == [0, 0], [each.stderr for each in shown]
    assert "net_profit" in shown[1].stdout
    assert "North Pine US" in shown[0].stdout
    assert "nothing needs attention" in shown[0].stdout
    assert "add `--demo` to read the data of `seller-platform demo`" in without.stderr
    assert [each.returncode for each in others] == [0] * len(others), [each.stderr for each in others]
    assert left_behind(tmp_path) == []


def _copy_of_the_package(folder: Path) -> Path:
    """Return the folder of a copy that nobody can read: the checkout may lie in a folder of root's, such as /root.

    It has our bytecode, because nobody cannot write any.
    """
    target = folder / "installed"
    package = Path(seller_platform.__file__).parent
    compile_dir(package, quiet=1)
    shutil.copytree(package, target / package.name)
    shutil.copy(shipped_file("dagster.yaml"), target / package.name / "orchestration")
    subprocess.run(["chmod", "-R", "a+rX", target], check=True)
    return target


def _run_as_nobody(arguments: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command as nobody, or skip the test where nobody cannot run our Python.

    Python, too, may lie in a folder that only root enters. So nobody gets the capability to read every file, but not to
    write it. Where a container does not have this capability, nobody runs without.
    """
    read_everything = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")
    with_capability = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *read_everything]
    without: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": ()}
    problem = ""
    for start, options in ((with_capability, {}), ([], without)):
        whole = {"env": variables, "cwd": variables["HOME"], "capture_output": True, "text": True, **options}
        try:
            subprocess.run([*start, *COMMAND, "--version"], timeout=60, check=True, **whole)
        except (OSError, subprocess.CalledProcessError) as error:
            problem = f"{error} {getattr(error, 'stderr', '')[-200:]}".strip()
        else:
            break
    else:
        skip_except_in_ci(f"nobody cannot run {sys.executable}: {problem}")
    return subprocess.run([*start, *COMMAND, *arguments], timeout=480, check=False, **whole)
