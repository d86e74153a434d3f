"""Writes the lock files: `python -m seller_platform_tests.tools.lock`.

`requirements.lock` has every package of every extra but `notebook`, with the hashes of its files on PyPI. CI installs
it.
`docker/requirements.lock` has those of them that the image needs.

Without `--upgrade`, versions that still fit pyproject.toml stay; with it, every package gets its newest version.
"""

import argparse
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).parents[2]
LOCK = TOP / "requirements.lock"
IMAGE_LOCK = TOP / "docker" / "requirements.lock"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python that are supported."""

_OPTIONS = (
    "--universal",
    "--generate-hashes",
    "--no-header",
    # pip accepts only the requirements that the lock names, and some of them are of extras.
    "--no-strip-extras",
    "--quiet",
    # The lock has no address of a package index: pip takes the one that its machine names.
    "--no-emit-index-url",
    # pip installs the others, and is part of every virtual environment.
    "--no-emit-package=pip",
    # A format checker of jsonschema. It compiles a grammar for two seconds in each process; no schema here has an IRI.
    "--no-emit-package=rfc3987-syntax",
    "--no-emit-package=lark",
)


@dataclass(frozen=True)
class LockedPackage:
    """A line of a lock file: one version of a package, and the SHA-256 hashes of its files."""

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        (specifier,) = self.requirement.specifier
        return specifier.version

    def holds(self, environment: dict[str, str]) -> bool:
        """Whether pip installs it in an environment with these values for markers."""
        marker = self.requirement.marker
        return marker is None or marker.evaluate({"extra": "", **environment})


def locked_packages(lock: Path) -> Iterator[LockedPackage]:
    """Read a lock file that pip can install from."""
    text = re.sub(r"^\s*#.*\n", "", lock.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    for line in filter(str.strip, text.splitlines()):
        requirement, *hashes = line.split("--hash=sha256:")
        yield LockedPackage(Requirement(requirement), tuple(each.strip() for each in hashes))


def pyproject() -> dict[str, Any]:
    """Return the content of pyproject.toml."""
    return tomllib.loads((TOP / "pyproject.toml").read_text())


def extras_of_the_image() -> list[str]:
    """Return the extras that the image contains: all except those of people and of tests."""
    return [name for name in pyproject()["project"]["optional-dependencies"] if name not in ("notebook", "test")]


def requirements(extras: list[str]) -> list[Requirement]:
    """Return what the package requires, with these extras."""
    project = pyproject()["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upgrade", action="store_true", help="Take the newest version of every package.")
    upgrade = ["--upgrade"] if parser.parse_args().upgrade else []
    _compile(LOCK, ["test", *extras_of_the_image()], upgrade)
    # The versions are those of the first file.
    IMAGE_LOCK.unlink(missing_ok=True)
    _compile(IMAGE_LOCK, extras_of_the_image(), ["--constraint", str(LOCK)])


def _compile(target: Path, extras: list[str], options: list[str]) -> None:
    lowest = pyproject()["project"]["requires-python"].removeprefix(">=")
    subprocess.run(
        ["uv", "pip", "compile", "-", f"--output-file={target}", f"--python-version={lowest}", *_OPTIONS, *options],
        input="\n".join(map(str, requirements(extras))),
        text=True,
        cwd=TOP,
        check=True,
    )


if __name__ == "__main__":
    main()
