"""Tests the software bill of materials."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import distributions
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name

from seller_platform_tests.lock import IMAGE_LOCK, TOP
from seller_platform_tests.sbom import IMAGE, bill_of_materials, locked_packages

PERMITTED = re.compile(
    r"MIT|BSD|Apache|PSF|Python Software Foundation|ISC|Unlicense|Zope|ZPL|MPL|Mozilla|LGPL|Lesser General|HPND"
    r"|PostgreSQL|0BSD|CC0|Public Domain",
    re.IGNORECASE,
)


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
        if package.holds(IMAGE)
    }


def test_the_environment_of_the_bill_is_that_of_the_image() -> None:
    (python,) = re.findall(r"^FROM python:([\d.]+)-", (TOP / "docker" / "Dockerfile").read_text(), re.MULTILINE)

    assert IMAGE["python_full_version"] == IMAGE["implementation_version"] == python
    assert python.startswith(f"{IMAGE['python_version']}.")


@pytest.mark.parametrize(("python", "numpy"), [("3.11.2", "<"), ("3.12.15", ">="), ("3.14.1", ">=")])
def test_the_bill_is_that_of_its_environment_whichever_python_runs(python: str, numpy: str) -> None:
    environment = IMAGE | {"python_version": python.rpartition(".")[0], "python_full_version": python}
    bill = bill_of_materials(IMAGE_LOCK, moment=datetime.now(UTC), environment=environment)
    needs = {each["ref"].partition("@")[0]: " ".join(each["dependsOn"]) for each in bill["dependencies"]}

    (version,) = (
        each.version
        for each in locked_packages(IMAGE_LOCK)
        if each.name == "numpy" and f"python_full_version {numpy} " in str(each.requirement.marker)
    )
    assert f"pkg:pypi/numpy@{version}" in needs["seller-platform"]
    # Python's own library has it since 3.11.3.
    assert ("pkg:pypi/async-timeout" in needs) == ("async-timeout" in needs["pkg:pypi/redis"]) == (python == "3.11.2")


def test_the_bill_of_materials_says_which_package_needs_which(bill: dict[str, Any]) -> None:
    names = {each["bom-ref"]: each["name"] for each in bill["components"]} | {"seller-platform": "seller-platform"}
    needs = {names[each["ref"]]: {names[need] for need in each["dependsOn"]} for each in bill["dependencies"]}

    assert {"dagster", "psycopg", "opentelemetry-sdk"} <= needs["seller-platform"]
    assert "psycopg-binary" in needs["psycopg"]
    assert needs.keys() == set(names.values())


def test_every_package_of_the_image_has_a_licence_that_is_permitted(bill: dict[str, Any]) -> None:
    # With newer packages than those of the lock, some of these may be needed no more.
    installed = {canonicalize_name(each.name) for each in distributions()}
    licences = {each["name"]: json.dumps(each.get("licenses", [])) for each in bill["components"]}

    assert {"dagster", "psycopg", "celery", "deltalake"} <= licences.keys() & installed
    assert {
        name: licence for name, licence in licences.items() if name in installed and not PERMITTED.search(licence)
    } == {}
