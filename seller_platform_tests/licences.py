"""The licences of all that is installed with the platform: `python -m seller_platform_tests.licences` prints a list."""

import re
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement


def _installed_with(name: str) -> set[str]:
    """Return the names of a distribution and of all that it requires here, but for extras."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if each in found:
            continue
        try:
            required = distribution(each).requires or []
        except PackageNotFoundError:
            continue
        found.add(each)
        wanted = map(Requirement, required)
        waiting += [need.name for need in wanted if need.marker is None or need.marker.evaluate({"extra": ""})]
    return found


def _licence(name: str) -> str:
    told = distribution(name).metadata.json
    classifiers = [line for line in told.get("classifier", []) if line.startswith("License")]
    return " ".join(map(str, [told.get("license_expression", ""), *classifiers, str(told.get("license", ""))[:200]]))


def licences() -> dict[str, str]:
    """Return what each distribution that the platform requires here says of its licence, by its name."""
    return {name: _licence(name) for name in sorted(_installed_with("seller-platform"))}


def main() -> None:
    """Print the list."""
    for name, licence in licences().items():
        print(f"{name} {distribution(name).version}: {' '.join(licence.split())[:100]}")


if __name__ == "__main__":
    main()
