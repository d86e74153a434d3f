"""Tests what a release contains, that it is the same each time, and that the wheel needs no clone of the repository."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from seller_platform import __version__
from seller_platform_tests.support.processes import environment
from seller_platform_tests.tools.lock import PYTHONS, TOP
from seller_platform_tests.tools.release import CHECKSUMS, build, reason_against

pytestmark = pytest.mark.journey

LEFTOVERS = (
    "seller_platform/notes.txt",
    "seller_platform/__pycache__/notes.cpython-311.pyc",
    "seller_platform/docs/.ipynb_checkpoints/first_look.ipynb",
    "seller_platform_tests/.hypothesis/examples",
    ".seller_platform/secret.key",
    "docker/secrets/secret_key",
    "storage/run.db",
    "build/lib/seller_platform/old.py",
    "dist/seller_platform-0.9-py3-none-any.whl",
)
"""Files that work in a clone leaves there. All of them are untracked, and most are ignored."""
REPOSITORY = "https://github.com/shop/seller-platform"
AUTHOR = ("-c", "user.name=Ann", "-c", "user.email=ann@shop.example", "-c", "commit.gpgsign=false")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose only commit has the files of this one as they are now."""
    clone = tmp_path_factory.mktemp("clone") / "seller platform"
    for name in _git(TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")[:-1]:
        if (TOP / name).exists():  # one that is deleted, but not committed yet, is listed
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TOP / name, clone / name)
    (clone / "CHANGELOG.md").write_text(f"# Changelog\n\n## {__version__}\n")
    _git(clone, "init", "--quiet")
    _git(clone, "add", "--all")
    _git(clone, *AUTHOR, "commit", "--quiet", "--message=All", "--date=2026-03-01T00:00:00Z")
    return clone


@pytest.fixture(scope="module")
def dist(clone: Path) -> Path:
    """The files of a release, built in a clone with leftovers."""
    for name in LEFTOVERS:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("left over")
    return build(clone, clone / "build" / "dist", repository=REPOSITORY).parent


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return dist / f"seller_platform-{__version__}-py3-none-any.whl"


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


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


def test_the_readme_names_the_wheel_of_this_version(wheel: Path) -> None:
    assert f"`{wheel.name}`" in (TOP / "README.md").read_text()


def test_a_release_has_three_files_and_their_checksums(dist: Path) -> None:
    stem = f"seller_platform-{__version__}"
    built = {f"{stem}.tar.gz", f"{stem}-py3-none-any.whl", f"{stem}.cdx.json"}

    sums = dict(line.split()[::-1] for line in (dist / CHECKSUMS).read_text().splitlines())

    assert {path.name for path in dist.iterdir()} == {CHECKSUMS, *built}
    assert sums == {name: sha256((dist / name).read_bytes()).hexdigest() for name in built}


def test_the_source_distribution_has_what_is_committed_and_no_more(clone: Path, dist: Path) -> None:
    stem = f"seller_platform-{__version__}"

    with tarfile.open(dist / f"{stem}.tar.gz") as archive:
        packed = {member.name.removeprefix(f"{stem}/") for member in archive.getmembers()}

    assert packed == {*_git(clone, "ls-files", "-z").split("\0")[:-1], "PKG-INFO"}


def test_the_wheel_has_every_file_of_the_package_except_pictures(clone: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("seller_platform/")}
        (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in archive.namelist())

    committed = _git(clone, "ls-files", "-z", "seller_platform").split("\0")[:-1]
    expected = {name for name in committed if not name.startswith("seller_platform/docs/images/")}
    assert packed == expected | {f"seller_platform/orchestration/{name}.yaml" for name in ("dagster", "workspace")}
    assert {"seller_platform/docs/deploy.md", "seller_platform/docs/reference/commands.md"} <= packed
    pythons = re.findall(r"^Classifier: Programming Language :: Python :: (3\..+)$", metadata, re.MULTILINE)
    assert pythons == list(PYTHONS)


def test_links_and_pictures_of_a_package_index_lead_to_the_repository(clone: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))

    links = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", metadata)
    paths = {
        (mark, link.removeprefix(f"{REPOSITORY}/{kind}/v{__version__}/").partition("#")[0])
        for mark, link in links
        for kind in ["raw" if mark else "blob"]
        if link.startswith(REPOSITORY)
    }
    assert {("!", "seller_platform/docs/images/backfill.png"), ("", ".github/CONTRIBUTING.md")} <= paths
    assert [path for _, path in paths if not (clone / path).exists()] == []
    assert [link for _, link in links if not link.startswith(("https://", "#"))] == []
    assert f"Project-URL: Repository, {REPOSITORY}\n" in metadata


@pytest.mark.nightly
def test_the_same_commit_gives_the_same_bytes(clone: Path, dist: Path, tmp_path: Path) -> None:
    again = tmp_path / "another clone"
    _git(tmp_path, "clone", "--quiet", str(clone), str(again))
    mask = os.umask(0o077)
    try:
        build(again, tmp_path / "dist", repository=f"{REPOSITORY}/")
    finally:
        os.umask(mask)

    assert (tmp_path / "dist" / CHECKSUMS).read_text() == (dist / CHECKSUMS).read_text()


def test_what_is_not_committed_or_in_the_changelog_is_not_released(clone: Path, tmp_path: Path) -> None:
    early = tmp_path / "clone"
    _git(tmp_path, "clone", "--quiet", str(clone), str(early))
    assert reason_against(early) is None
    (early / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 0.9.0\n")
    (early / "seller_platform" / "notes.txt").write_text("left over")
    changed = reason_against(early)
    _git(early, "add", "--all")
    _git(early, *AUTHOR, "commit", "--quiet", "--message=Next")

    changes = " M CHANGELOG.md\n?? seller_platform/notes.txt"
    assert changed == f"these files are changed or new; commit or delete them:\n{changes}"
    assert reason_against(early) == f"the newest entry of CHANGELOG.md is Unreleased, not {__version__}"


def test_the_installed_wheel_needs_no_clone(programs: Path, tmp_path: Path) -> None:
    variables = {name: value for name, value in environment(tmp_path).items() if name != "PYTHONPATH"}

    def run(*words: str) -> str:
        return subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True, check=True).stdout

    where = run(str(programs / "python"), "-c", "import seller_platform; print(seller_platform.__file__)")
    assert Path(where.strip()).is_relative_to(programs.parent)
    assert run(str(programs / "seller-platform"), "--version").startswith(f"seller-platform {__version__} (")
    assert "seller-platform migrate" in run(str(programs / "seller-platform"), "docs", "deploy")
