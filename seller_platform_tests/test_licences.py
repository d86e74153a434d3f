"""Tests that the licences of all installed requirements are permitted."""

import re

from seller_platform_tests.licences import licences

PERMITTED = re.compile(
    r"MIT|BSD|Apache|PSF|Python Software Foundation|ISC|Unlicense|Zope|ZPL|MPL|Mozilla|LGPL|Lesser General|HPND"
    r"|PostgreSQL|0BSD|CC0|Public Domain",
    re.IGNORECASE,
)


def test_every_package_that_is_installed_with_the_platform_may_be_used() -> None:
    installed = licences()

    assert len(installed) > 40
    unknown = {name: licence for name, licence in installed.items() if not PERMITTED.search(licence)}
    assert unknown == {}
