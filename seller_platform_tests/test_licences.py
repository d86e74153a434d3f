"""The licences of everything that is installed with the platform: known, and such that it may be used at work."""

import re
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement

PERMITTED = re.compile(
    r"MIT|BSD|Apache|PSF|Python Software Foundation|ISC|Unlicense|Zope|ZPL|MPL|Mozilla|LGPL|Lesser General|HPND"
    r"|PostgreSQL|0BSD|CC0|Public Domain",
    re.IGNORECASE,
)


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


def test_every_package_that_is_installed_with_the_platform_may_be_used() -> None:
    licences = {name: _licence(name) for name in _installed_with("seller-platform")}

    assert len(licences) > 40
    unknown = {name: licence for name, licence in licences.items() if not PERMITTED.search(licence)}
    assert unknown == {}
