"""Lists the licences of all installed requirements: `python -m seller_platform_tests.licences`."""

import re
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement


def _installed_with(name: str) -> set[str]:
    """Return the names of a distribution and of all its requirements, without extras."""
    names: set[str] = set()
    waiting = [name]
    while waiting:
        current = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if current in names:
            continue
        try:
            required = distribution(current).requires or []
        except PackageNotFoundError:
            continue
        names.add(current)
        requirements = map(Requirement, required)
        waiting += [need.name for need in requirements if need.marker is None or need.marker.evaluate({"extra": ""})]
    return names


def _licence(name: str) -> str:
    metadata = distribution(name).metadata.json
    classifiers = [line for line in metadata.get("classifier", []) if line.startswith("License")]
    return " ".join(
        map(str, [metadata.get("license_expression", ""), *classifiers, str(metadata.get("license", ""))[:200]])
    )


def licences() -> dict[str, str]:
    """Return the licence of each distribution that the platform requires, by name."""
    return {name: _licence(name) for name in sorted(_installed_with("seller-platform"))}


def main() -> None:
    """Print the list."""
    for name, licence in licences().items():
        print(f"{name} {distribution(name).version}: {' '.join(licence.split())[:100]}")


if __name__ == "__main__":
    main()
