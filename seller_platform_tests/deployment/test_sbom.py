"""Tests the bill of materials of the image, and the licences of its packages."""

import json
import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from seller_platform_tests.lock import IMAGE_LOCK, locked_packages

PERMITTED = re.compile(
    r"MIT|BSD|Apache|PSF|Python Software Foundation|ISC|Unlicense|Zope|ZPL|MPL|Mozilla|LGPL|Lesser General|HPND"
    r"|PostgreSQL|0BSD|CC0|Public Domain",
    re.IGNORECASE,
)


@pytest.mark.nightly  # .ci/run writes it
def test_the_bill_of_materials_lists_every_package_with_its_hashes() -> None:
    command = [str(Path(sys.executable).with_name("cyclonedx-py")), "requirements", "--validate", str(IMAGE_LOCK)]
    components = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["components"]

    hashes = {
        (each["name"], checksum["content"])
        for each in components
        for file in each["externalReferences"]
        for checksum in file.get("hashes", ())
    }
    assert {(package.name, each) for package in locked_packages(IMAGE_LOCK) for each in package.hashes} == hashes


def test_every_package_of_the_image_has_a_licence_that_is_permitted() -> None:
    names = {package.name for package in locked_packages(IMAGE_LOCK)}
    licences = {
        canonicalize_name(each.name): " ".join(
            str(value).partition("\n")[0]
            for field in ("License-Expression", "License", "Classifier")
            for value in each.metadata.get_all(field, [])
        )
        for each in distributions()
        if canonicalize_name(each.name) in names
    }

    assert {"dagster", "psycopg", "celery", "deltalake"} <= licences.keys()
    assert [name for name, licence in licences.items() if not PERMITTED.search(licence)] == []
