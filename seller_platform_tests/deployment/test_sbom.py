"""Tests the software bill of materials."""

import json
import subprocess
import sys
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from seller_platform_tests.lock import IMAGE_LOCK, TOP
from seller_platform_tests.sbom import locked_packages


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    printed = subprocess.run(
        [sys.executable, "-m", "seller_platform_tests.sbom"], cwd=TOP, capture_output=True, text=True, check=True
    ).stdout
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(printed) is None
    document: dict[str, Any] = json.loads(printed)
    return document


def test_the_bill_of_materials_lists_every_package_with_its_hashes(bill: dict[str, Any]) -> None:
    listed = {
        (each["name"], each["version"]): {each["content"] for each in each["externalReferences"][0]["hashes"]}
        for each in bill["components"]
    }

    assert listed == {
        (package.name, package.version): set(package.hashes)
        for package in locked_packages(IMAGE_LOCK)
        if package.holds()
    }


def test_the_bill_of_materials_says_which_package_needs_which(bill: dict[str, Any]) -> None:
    names = {each["bom-ref"]: each["name"] for each in bill["components"]} | {"seller-platform": "seller-platform"}
    needs = {names[each["ref"]]: {names[need] for need in each["dependsOn"]} for each in bill["dependencies"]}

    assert {"dagster", "psycopg", "opentelemetry-sdk"} <= needs["seller-platform"]
    assert "psycopg-binary" in needs["psycopg"]
    assert needs.keys() == set(names.values())


def test_the_bill_of_materials_names_licences(bill: dict[str, Any]) -> None:
    licences = {each["name"]: each.get("licenses") for each in bill["components"]}

    assert licences["dagster"]
    assert licences["psycopg"]
    assert sum(1 for each in licences.values() if each) > 0.9 * len(licences)
