"""Measures the first steps of a new user: from the clone to the table of the demo.

`python -m seller_platform_tests.benchmarks.first_hour` prints one table, with the seconds that passed and the seconds
of CPU. The CPU of PostgreSQL is not in it. The steps run in a new folder whose name has a space. The cache of pip stays
as it is, so run it twice to measure with a warm cache. `--locked` installs the lock file, not the newest packages.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from seller_platform_tests.lock import TOP
from seller_platform_tests.support.processes import environment

MOST_SECONDS = 90
MOST_DEMO_SECONDS = 15


@dataclass(frozen=True)
class Step:
    """A command of a new user, and what it took."""

    name: str
    seconds: float
    cpu_seconds: float


def main() -> None:
    """Run the steps and print what each took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--locked", action="store_true", help="Install the packages of the lock file.")
    is_locked = parser.parse_args().locked
    folder = Path(tempfile.mkdtemp(prefix="first hour "))
    try:
        clone, programs = folder / "seller platform", folder / "seller platform" / ".venv" / "bin"
        variables = environment(folder / "home")
        variables = {name: value for name, value in variables.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
        pip = [str(programs / "pip"), "install", "--quiet"]
        newest = [[*pip, "--editable", "."]]
        locked = [
            [*pip, "--no-deps", "--require-hashes", "--requirement", "docker/requirements.lock"],
            [*pip, "--no-deps", "--no-build-isolation", "--editable", "."],
        ]
        demo = [[str(programs / "seller-platform"), "demo"]]
        steps = [
            _measured("git clone", [["git", "clone", "--quiet", str(TOP), str(clone)]], folder, variables),
            _measured("virtual environment", [[_python(), "-m", "venv", ".venv"]], clone, variables),
            _measured("pip install", locked if is_locked else newest, clone, variables),
            _measured("demo", demo, clone, variables),
        ]
        again = _measured("demo again", demo, clone, variables)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    total = Step("clone to table", sum(step.seconds for step in steps), sum(step.cpu_seconds for step in steps))
    table = Table("step", "seconds", "seconds of CPU", "at most")
    limits = {total.name: str(MOST_SECONDS), steps[-1].name: str(MOST_DEMO_SECONDS), again.name: str(MOST_DEMO_SECONDS)}
    for step in (*steps, total, again):
        table.add_row(step.name, f"{step.seconds:.1f}", f"{step.cpu_seconds:.1f}", limits.get(step.name, ""))
    Console().print(table)
    Console().print(
        f"Two cores are the measure; this machine has {os.cpu_count()}, with a load of {os.getloadavg()[0]:.1f}."
    )


def _python() -> str:
    """Return the Python that virtual environments are made of."""
    return str(Path(sys.base_prefix) / "bin" / "python3")


def _measured(name: str, commands: list[list[str]], folder: Path, variables: dict[str, str]) -> Step:
    started, used = time.monotonic(), _cpu_seconds()
    for command in commands:
        subprocess.run(command, cwd=folder, env=variables, check=True, stdout=subprocess.DEVNULL)
    return Step(name, time.monotonic() - started, _cpu_seconds() - used)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
