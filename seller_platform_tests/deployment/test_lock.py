"""Tests that the lock files have what every machine needs, and the bill of materials and licences of the image."""

import re
from importlib.metadata import distributions
from itertools import product
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from seller_platform_tests.tools.lock import (
    IMAGE_LOCK,
    LOCK,
    PYTHONS,
    TOP,
    LockedPackage,
    extras_of_the_image,
    locked_packages,
    requirements,
)

MACHINES = [
    {
        "python_version": python,
        "python_full_version": f"{python}.4",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
        "sys_platform": system.lower(),
        "platform_system": system,
        "platform_machine": machine,
    }
    for python, (system, machine) in product(PYTHONS, (("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "arm64")))
]
LOCKS = {LOCK: ["test", *extras_of_the_image()], IMAGE_LOCK: extras_of_the_image()}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.relative_to(TOP)))
def test_every_requirement_is_locked_within_its_range_on_every_machine(lock: Path) -> None:
    locked = list(locked_packages(lock))

    for machine in MACHINES:
        names = [package.name for package in locked if package.holds(machine)]
        assert len(names) == len(set(names)), f"{machine}: a package is locked twice"
        for requirement in requirements(LOCKS[lock]):
            versions = [
                package.version
                for package in locked
                if package.name == LockedPackage(requirement, ()).name and package.holds(machine)
            ]
            assert versions, f"{requirement} is not locked on {machine}; write the lock anew"
            assert versions[0] in requirement.specifier, f"{requirement}: {versions[0]} is locked; write the lock anew"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.relative_to(TOP)))
def test_every_file_of_a_locked_package_has_a_hash_and_no_address(lock: Path) -> None:
    for package in locked_packages(lock):
        assert package.hashes, package.name
        assert all(len(each) == 64 and int(each, 16) for each in package.hashes), package.name
        assert package.requirement.url is None, package.name
    assert "://" not in lock.read_text()


def test_the_image_has_the_versions_that_the_tests_ran_with() -> None:
    tested = {(package.name, package.version): set(package.hashes) for package in locked_packages(LOCK)}

    for package in locked_packages(IMAGE_LOCK):
        assert tested[package.name, package.version] == set(package.hashes)


def test_the_image_has_no_package_that_only_tests_need() -> None:
    names = {package.name for package in locked_packages(IMAGE_LOCK)}

    assert not names & {"pytest", "playwright", "mypy", "ruff", "uv"}


PERMITTED = re.compile(
    r"MIT|BSD|Apache|PSF|Python Software Foundation|ISC|Unlicense|Zope|ZPL|MPL|Mozilla|LGPL|Lesser General|HPND"
    r"|PostgreSQL|0BSD|CC0|Public Domain",
    re.IGNORECASE,
)


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
