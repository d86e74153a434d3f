"""Tests that the wheel contains all that the platform needs, so that it works without a clone of the repository."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seller_platform import __version__
from seller_platform_tests.lock import TOP
from seller_platform_tests.support.processes import environment, left_behind
from seller_platform_tests.support.skipping import skip_except_in_ci

pytestmark = pytest.mark.journey


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Without isolation: the tool that builds it is installed with the extra `test`.
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=TOP, capture_output=True, check=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can read, which those below tmp_path are not."""
    folder = Path(tempfile.mkdtemp(prefix="seller-platform-wheel-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def programs(wheel: Path, folder: Path) -> Path:
    """The folder of the programs of an environment that has only the wheel, as `pipx run --spec WHEEL` makes one.

    The packages that it requires are those of this environment, without this clone.
    """
    target = folder / "an environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", target], check=True)
    python = target / "bin" / "python"
    packages = sysconfig.get_path("purelib", vars={"base": str(target), "platbase": str(target)})
    # A path in a .pth file is added as it is: the .pth file in it that leads to the clone is not read.
    (Path(packages) / "requirements.pth").write_text(sysconfig.get_path("purelib"))
    install = ["--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    subprocess.run(["chmod", "-R", "a+rX", target], check=True)
    return target / "bin"


@pytest.fixture
def home(folder: Path) -> Iterator[Path]:
    """A home folder of a new user, in which nothing runs after the test."""
    user = folder / "user"
    user.mkdir()
    if os.geteuid() == 0 and sys.platform == "linux":
        shutil.chown(user, "nobody")
    yield user / "a home with spaces"
    assert left_behind(user) == []


def test_the_wheel_has_every_file_of_the_package_except_pictures(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("seller_platform/")}
    folders = os.walk(TOP / "seller_platform")
    files = {Path(folder) / name for folder, _, names in folders for name in names if not name.endswith(".pyc")}
    pictures = TOP / "seller_platform" / "docs" / "images"

    expected = {str(file.relative_to(TOP)) for file in files if pictures not in file.parents}
    assert packed == expected | {f"seller_platform/orchestration/{name}.yaml" for name in ("dagster", "workspace")}


@pytest.mark.nightly  # its files are compared above, and `journeys/test_demo.py` runs the demo
def test_the_demo_runs_from_the_wheel_outside_of_the_clone_without_root(programs: Path, home: Path) -> None:
    user = str(home.parent)
    shell = environment(home, HOME=user, TMPDIR=user)
    variables = {name: value for name, value in shell.items() if name != "PYTHONPATH"}
    python, seller_platform = str(programs / "python"), str(programs / "seller-platform")
    run = _runner_without_root(python, variables)

    where = run(python, "-c", "import seller_platform; print(seller_platform.__file__)")
    version = run(seller_platform, "--version")
    loads = json.loads(run(seller_platform, "demo", "--accounts", "1", "--months", "1", "--json"))["loads"]

    assert Path(where.strip()).is_relative_to(programs.parent)
    assert version.startswith(f"seller-platform {__version__} (")
    assert sum(load["rows"] for load in loads if load["dataset"] == "orders") > 0


def _runner_without_root(python: str, variables: dict[str, str]) -> Callable[..., str]:
    """Return a function that runs a command as nobody, if we are root, and returns its output.

    Python may lie in a folder that only root enters. So nobody gets the capability to read every file, but not to write
    it. Where a container does not have this capability, nobody runs without. Where nobody cannot run our Python, the
    test is skipped.
    """
    ways: list[tuple[list[str], dict[str, Any]]] = [([], {})]
    if os.geteuid() == 0 and sys.platform == "linux":
        read_everything = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")
        with_capability = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *read_everything]
        ways = [(with_capability, {}), ([], {"user": "nobody", "group": "nogroup", "extra_groups": ()})]
    problems = []
    for start, options in ways:
        whole = {"env": variables, "cwd": variables["HOME"], "capture_output": True, "text": True, **options}
        try:
            subprocess.run([*start, python, "--version"], timeout=600, check=True, **whole)
        except (OSError, subprocess.CalledProcessError) as error:
            problems.append(f"{error} {getattr(error, 'stderr', '')[-200:]}".strip())
        else:
            break
    else:
        skip_except_in_ci(f"nobody cannot run {python}: {problems}")

    def run(*command: str) -> str:
        ended = subprocess.run([*start, *command], timeout=600, check=False, **whole)
        assert ended.returncode == 0, ended.stderr
        return str(ended.stdout)

    return run
