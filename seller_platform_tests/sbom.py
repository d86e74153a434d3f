"""Prints the software bill of materials, in CycloneDX JSON: `python -m seller_platform_tests.sbom`.

It lists the packages of the image's lock file with the hashes of their files on PyPI: those that pip installs with the
image's Python, whichever Python runs this. Licences and dependencies come from the metadata of the installed packages.
The build of the image runs this file by itself.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

IMAGE = {
    "implementation_name": "cpython",
    "implementation_version": "3.12.15",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.12.15",
    "python_version": "3.12",
    "sys_platform": "linux",
}
"""What markers of requirements are compared with in the image."""

_PLATFORM = "seller-platform"


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


def bill_of_materials(lock: Path, *, moment: datetime, environment: dict[str, str] = IMAGE) -> dict[str, Any]:
    """Return the bill of the packages of a lock file that pip installs in an environment.

    Args:
        environment: The values for markers; by default those of the image.
    """
    packages = {package.name: package for package in locked_packages(lock) if package.holds(environment)}
    version = distribution(_PLATFORM).version
    platform = {"type": "application", "bom-ref": _PLATFORM, "name": _PLATFORM, "version": version}
    references = {name: _purl(package) for name, package in packages.items()}
    extras = set(distribution(_PLATFORM).metadata.get_all("Provides-Extra") or ())
    needs = {_PLATFORM: _needs(_PLATFORM, extras, environment)} | {
        references[name]: _needs(name, package.requirement.extras, environment) for name, package in packages.items()
    }
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": moment.isoformat(timespec="seconds"),
            "component": platform | _licences(_PLATFORM),
        },
        "components": [_component(package) for package in packages.values()],
        "dependencies": [
            {"ref": reference, "dependsOn": sorted({references[name] for name in names if name in references})}
            for reference, names in needs.items()
        ],
    }


def _component(package: LockedPackage) -> dict[str, Any]:
    files = {
        "type": "distribution",
        "url": f"https://pypi.org/project/{package.name}/{package.version}/",
        "hashes": [{"alg": "SHA-256", "content": each} for each in package.hashes],
    }
    reference = _purl(package)
    return {
        "type": "library",
        "bom-ref": reference,
        "name": package.name,
        "version": package.version,
        "purl": reference,
        **_licences(package.name),
        "externalReferences": [files],
    }


def _purl(package: LockedPackage) -> str:
    return f"pkg:pypi/{package.name}@{package.version}"


def _licences(name: str) -> dict[str, Any]:
    """Return the licences of an installed package: an SPDX expression, or the names that its authors gave."""
    installed = _installed(name)
    if installed is None:
        return {}
    metadata = installed.metadata.json
    if expression := metadata.get("license_expression"):
        return {"licenses": [{"expression": str(expression)}]}
    classifiers = metadata.get("classifier", [])
    names = [each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License :: ")]
    first_line = str(metadata.get("license", "")).strip().partition("\n")[0]
    return {"licenses": [{"license": {"name": each}} for each in names or [first_line] if each]}


def _needs(name: str, extras: set[str], environment: dict[str, str]) -> set[str]:
    """Return the names of the packages that an installed package requires, with some of its extras."""
    installed = _installed(name)
    requirements = [Requirement(line) for line in (installed.requires if installed else None) or ()]
    return {
        canonicalize_name(each.name)
        for each in requirements
        if each.marker is None or any(each.marker.evaluate({**environment, "extra": extra}) for extra in ("", *extras))
    }


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def main() -> None:
    """Print the bill of the lock file that is named, or of the image's."""
    default = Path(__file__).parents[1] / "docker" / "requirements.lock"
    lock = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    json.dump(bill_of_materials(lock, moment=datetime.now(UTC)), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
