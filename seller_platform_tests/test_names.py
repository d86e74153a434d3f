"""Tests the names that users type and installations store, the page *Promises*, and the public names."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import seller_platform
import seller_platform.dagster as public_dagster
from seller_platform.cli.pages import page_named
from seller_platform.warehouse.postgres.health import OLDEST_VERSION
from seller_platform_tests.names import NAMES, TABLES, current_names, renewed, stored_names
from seller_platform_tests.tools.lock import PYTHONS, TOP, requirements

PAGE = page_named("promises").text


def test_the_names_are_those_of_their_file(database_url: str) -> None:
    written = renewed(stored_names(), current_names(database_url))

    assert written.splitlines() == NAMES.read_text().splitlines(), "write the generated files anew"


def test_a_name_stays_until_the_next_major_version() -> None:
    kept = {"setting A": "1.0.0", "setting B": "1.1.0"}

    assert renewed(kept, ["setting C", "setting A"], "1.1.0") == "1.0.0 setting A\n1.1.0 setting C\n"
    with pytest.raises(ValueError, match=r"^1\.1\.0 must not take away what earlier versions promise:\nsetting A$"):
        renewed(kept, ["setting B"], "1.1.0")
    assert renewed(kept, ["setting B"], "2.0.0") == "1.1.0 setting B\n"


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


def test_a_name_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'seller_platform' has no attribute 'orders'"):
        getattr(seller_platform, "orders")  # noqa: B009  # the type checker knows that it is not there


def test_dagster_finds_the_component_among_the_public_names() -> None:
    assert set(seller_platform.__all__) <= set(dir(seller_platform))
    assert [each.value for each in entry_points(group="dagster_dg_cli.registry_modules", name="seller_platform")] == [
        "seller_platform"
    ]


def test_public_names_load_only_what_they_need() -> None:
    program = (
        "import sys; gone = lambda *names: print(sorted({*names} & set(sys.modules)));"
        "import seller_platform; gone('pandas', 'sqlalchemy', 'dagster');"
        "seller_platform.read; gone('pandas', 'pyarrow', 'dagster', 'rich', 'httpx');"
        "import seller_platform.dagster as names; names.WarehouseIOManager, names.seller_asset_specs;"
        "gone('pandas', 'pyarrow')"
    )

    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout

    assert loaded.split() == ["[]", "[]", "[]"]


def test_the_example_of_the_module_for_dagster_projects_loads(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database_url)
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path / "home"))
    _, _, indented = (public_dagster.__doc__ or "").partition("settings:\n")
    names: dict[str, Any] = {}

    exec(dedent(indented), names)  # the docstring's text, as a reader runs it

    graph = names["defs"].resolve_asset_graph()
    (revenue,) = graph.materializable_asset_keys
    assert {key.to_user_string() for key in graph.get(revenue).parent_keys} == {"seller/orders"}
