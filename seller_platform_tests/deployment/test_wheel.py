"""Tests that the wheel contains all that the platform needs, so that it works without a clone of the repository."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from seller_platform import __version__
from seller_platform_tests.lock import TOP
from seller_platform_tests.support.processes import environment, left_behind

pytestmark = pytest.mark.journey


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Without isolation: the tool that builds it is installed with the extra `test`.
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=TOP, capture_output=True, check=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment that has only the wheel, as `pipx run --spec WHEEL` makes one.

    The packages that it requires are those of this environment, without this clone.
    """
    folder = tmp_path_factory.mktemp("an environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    packages = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    # A path in a .pth file is added as it is: the .pth file in it that leads to the clone is not read.
    (Path(packages) / "requirements.pth").write_text(sysconfig.get_path("purelib"))
    install = ["--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    return folder / "bin"


@pytest.fixture
def variables(tmp_path: Path) -> Iterator[dict[str, str]]:
    shell = environment(tmp_path / "home")
    yield {name: value for name, value in shell.items() if name != "PYTHONPATH"}
    assert left_behind(tmp_path / "home") == []


def test_the_wheel_has_every_file_of_the_package_except_pictures(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("seller_platform/")}
    folders = os.walk(TOP / "seller_platform")
    files = {Path(folder) / name for folder, _, names in folders for name in names if not name.endswith(".pyc")}
    pictures = TOP / "seller_platform" / "docs" / "images"

    expected = {str(file.relative_to(TOP)) for file in files if pictures not in file.parents}
    assert packed == expected | {f"seller_platform/orchestration/{name}.yaml" for name in ("dagster", "workspace")}


def test_the_demo_runs_from_the_wheel_outside_of_the_clone(
    programs: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    def run(*command: str) -> str:
        return subprocess.run(
            command, cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True, timeout=300, check=True
        ).stdout

    where = "import seller_platform; print(seller_platform.__file__)"
    assert Path(run(str(programs / "python"), "-c", where).strip()).is_relative_to(programs.parent)
    seller_platform = str(programs / "seller-platform")
    assert run(seller_platform, "--version").startswith(f"seller-platform {__version__} (")
    loads = json.loads(run(seller_platform, "demo", "--accounts", "1", "--months", "1", "--json"))["loads"]
    assert sum(load["rows"] for load in loads if load["dataset"] == "orders") > 0
