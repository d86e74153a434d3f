"""Tests that no version takes away what the page *Promises* promises, and that the page says what is supported."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

from seller_platform import __version__
from seller_platform.documentation import page_named
from seller_platform.warehouse.postgres.health import OLDEST_VERSION
from seller_platform_tests.lock import PYTHONS, TOP, requirements
from seller_platform_tests.released_names import TABLES, promised_names, released_names, renew
from seller_platform_tests.stored_names import GOLDEN

PAGE = page_named("promises").text


def test_what_the_last_release_promises_is_still_there() -> None:
    version, released = released_names()
    if Version(version).major != Version(__version__).major:
        pytest.skip("a major version may remove what was announced")

    assert sorted({*released} - {*promised_names(json.loads(GOLDEN.read_text()))}) == []


def test_the_released_names_are_those_of_this_version() -> None:
    assert released_names()[0] == __version__, "run `python -m seller_platform_tests.regenerate`"


def test_the_released_names_are_renewed_by_a_version_that_keeps_them(tmp_path: Path) -> None:
    names, file = json.loads(GOLDEN.read_text()), tmp_path / "released_names.txt"
    fewer = names | {"settings": {}}

    renew(file, fewer, "1.0.0")
    renew(file, names, "1.1.0")
    with pytest.raises(ValueError, match=r"1\.2\.0 must not take away what 1\.1\.0 promises:\nsetting "):
        renew(file, fewer, "1.2.0")

    assert file.read_text().splitlines() == ["1.1.0", *promised_names(names)]
    renew(file, fewer, "2.0.0")
    assert file.read_text().splitlines() == ["2.0.0", *promised_names(fewer)]


@pytest.mark.parametrize(
    "name",
    [
        "asset seller/orders: account (dynamic: accounts) × month (0 0 1 * * as %Y-%m-%d)",
        "command seller-platform sync: --from Y-m",
        "exit code 3 of AuthorizationDeniedError",
        "http GET /sales/orders: account_title",
        "json seller-platform status: coverage[].account",
        "python seller_platform.read: account",
        "python seller_platform.SellerPlatformComponent: datasets",
        "schedule orders_today",
        "setting SELLER_PLATFORM_HOME",
        "table marts.profit_bridge_monthly: account text",
    ],
)
def test_each_kind_of_promise_is_among_the_released_names(name: str) -> None:
    assert name in released_names()[1]


def test_the_page_names_the_tables_whose_columns_are_promised() -> None:
    (row,) = re.findall(r"^\| tables \|(.*)$", PAGE, re.MULTILINE)

    assert {name.removeprefix("platform.").removesuffix(".") for name in TABLES} <= {*re.findall(r"`(\w+)`", row)}


def test_the_page_names_the_versions_that_are_supported() -> None:
    rows = dict(re.findall(r"^\| (Python|PostgreSQL|Dagster) \| ([\d., ]*\d)", PAGE, re.MULTILINE))
    (dagster,) = (each for each in requirements([]) if each.name == "dagster")

    assert rows["Python"] == ", ".join(PYTHONS)
    assert rows["PostgreSQL"].startswith(f"{OLDEST_VERSION}, ")
    assert f"=={rows['Dagster']}" == str(dagster.specifier)
    oldest = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["requires-python"]
    assert oldest == f">={PYTHONS[0]}"
