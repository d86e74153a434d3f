"""Makes a release in `dist/`: `python -m seller_platform_tests.tools.release`, in a clean clone.

It builds what the last commit contains: a source distribution, a wheel from it, the bill of materials of the image, and
the checksums of the three. The same commit gives the same wheel and source distribution. Then it installs the wheel,
with packages from PyPI, into an empty environment in another folder, and runs `seller-platform demo` there. What
`dist/` had before is replaced only after that.

A package index shows the README without the files beside it. With `--repository URL`, its links and pictures lead to
the repository at the tag of the version, and the package names the repository.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from seller_platform import __version__
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.processes import environment
from seller_platform_tests.tools.lock import IMAGE_LOCK, TOP

DIST = TOP / "dist"
CHECKSUMS = "SHA256SUMS"
"""The file of checksums, which `sha256sum --check` reads."""

TAG = f"v{__version__}"
"""The tag that the released commit gets."""

_RELATIVE = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\])\((?!https?://|#)(?P<path>[^)\s]+)\)")
_UV = (sys.executable, "-m", "uv")
_DEMO = ("demo", "--accounts", "1", "--months", "1")


def reason_against(clone: Path) -> str | None:
    """Return why a clone must not be released, or None."""
    if changes := _git(clone, "status", "--porcelain").decode():
        return f"these files are changed or new; commit or delete them:\n{changes.rstrip()}"
    newest = re.search(r"^## (.+)$", (clone / "CHANGELOG.md").read_text(), re.MULTILINE)
    if newest is None or newest[1] != __version__:
        return f"the newest entry of CHANGELOG.md is {newest and newest[1]}, not {__version__}"
    return None


def build(clone: Path, dist: Path, *, repository: str | None = None) -> Path:
    """Write the files of a release, and return the wheel.

    Args:
        clone: Only its last commit counts: untracked and ignored files are not built.
        dist: The folder to create.
        repository: The URL of the repository on GitHub, for links of the README. Without it they stay relative.
    """
    variables = {**os.environ, "SOURCE_DATE_EPOCH": _git(clone, "log", "-1", "--format=%ct").decode().strip()}
    with temporary_folder() as folder:
        committed, source = folder / "committed.tar", folder / "committed"
        committed.write_bytes(_git(clone, "archive", "HEAD"))
        source.mkdir()
        subprocess.run(["tar", "-xf", committed, "-C", source], check=True)
        if repository is not None:
            _lead_to(repository.rstrip("/"), source)
        # The wheel is built from the source distribution, so that this is shown to be complete; without isolation,
        # because the tool that builds both is installed with the extra `test`.
        options = ("--no-config", "--no-build-isolation", "--no-create-gitignore", "--quiet")
        where = ("--python", sys.executable, "--out-dir", str(dist), str(source))
        subprocess.run([*_UV, "build", *options, *where], env=variables, check=True)
    bill = dist / f"seller_platform-{__version__}.cdx.json"
    command = ("cyclonedx-py", "requirements", "--output-reproducible", "--output-file", str(bill), str(IMAGE_LOCK))
    subprocess.run(command, stderr=subprocess.DEVNULL, check=True)
    sums = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(dist.iterdir())]
    (dist / CHECKSUMS).write_text("".join(sums))
    return next(dist.glob("*.whl"))


def run_demo(wheel: Path, python: str) -> None:
    """Install a wheel into an empty environment, and run the demo of one account and month in an empty folder."""
    with temporary_folder() as top:
        home, programs = top / "an empty folder", top / "an environment" / "bin"
        home.mkdir()
        variables = environment(top, UV_NO_CONFIG="1")
        for name in ("SELLER_PLATFORM_HOME", "PYTHONPATH", "VIRTUAL_ENV"):
            variables.pop(name, None)
        for command in (
            (*_UV, "venv", "--quiet", "--python", python, str(programs.parent)),
            (*_UV, "pip", "install", "--quiet", "--python", str(programs / "python"), str(wheel)),
            (str(programs / "seller-platform"), "--version"),
            (str(programs / "seller-platform"), *_DEMO),
        ):
            subprocess.run(command, cwd=home, env=variables, check=True)


def main() -> int:
    """Make the release, and return 2 if the clone is not clean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only-build", action="store_true", help="Install nothing.")
    text = "Install with this Python, by version or path; may be repeated. By default the one that runs this."
    parser.add_argument("--python", action="append", help=text)
    parser.add_argument("--repository", metavar="URL", help="Where the repository is, for the links of the README.")
    arguments = parser.parse_args()
    if reason := reason_against(TOP):
        print(f"Nothing was built: {reason}", file=sys.stderr)
        return 2
    with temporary_folder() as folder:
        wheel = build(TOP, folder / DIST.name, repository=arguments.repository)
        for python in [] if arguments.only_build else arguments.python or [sys.executable]:
            run_demo(wheel, python)
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.move(folder / DIST.name, DIST)
    print((DIST / CHECKSUMS).read_text(), end="")
    return 0


def _lead_to(repository: str, source: Path) -> None:
    """Let links of the README, and the package's metadata, lead to the repository at the version's tag."""
    readme, project = source / "README.md", source / "pyproject.toml"

    def absolute(match: re.Match[str]) -> str:
        kind = "raw" if match["picture"] else "blob"
        return f"{match['picture']}{match['text']}({repository}/{kind}/{TAG}/{match['path']})"

    readme.write_text(_RELATIVE.sub(absolute, readme.read_text()))
    urls = f'Repository = "{repository}"\nChangelog = "{repository}/blob/{TAG}/CHANGELOG.md"'
    project.write_text(project.read_text().replace("[project.scripts]", f"[project.urls]\n{urls}\n\n[project.scripts]"))


def _git(clone: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=clone, stdout=subprocess.PIPE, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
