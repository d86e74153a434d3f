"""Tests the public names of `seller_platform` and `seller_platform.dagster`, and the examples of them."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import seller_platform
import seller_platform.dagster as public_dagster


@pytest.mark.parametrize("name", seller_platform.__all__)
def test_a_public_name_is_what_its_module_defines(name: str) -> None:
    assert getattr(seller_platform, name).__name__ == name


def test_a_name_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'seller_platform' has no attribute 'orders'"):
        _ = seller_platform.orders  # type: ignore[attr-defined]  # which the type checker refuses too


@pytest.mark.parametrize("name", public_dagster.__all__)
def test_a_public_name_for_dagster_projects_is_what_its_module_defines(name: str) -> None:
    value = getattr(public_dagster, name)

    assert value == "seller_warehouse" if name == "IO_MANAGER_KEY" else value.__name__ == name


def test_a_name_for_dagster_projects_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"module 'seller_platform\.dagster' has no attribute 'orders'"):
        _ = public_dagster.orders  # type: ignore[attr-defined]  # which the type checker refuses too


def test_dagster_finds_the_component_among_the_public_names() -> None:
    assert set(seller_platform.__all__) <= set(dir(seller_platform))
    assert [each.value for each in entry_points(group="dagster_dg_cli.registry_modules", name="seller_platform")] == [
        "seller_platform"
    ]


def test_specs_for_other_projects_need_neither_the_client_nor_pandas() -> None:
    program = (
        "import sys, seller_platform.dagster as names; names.WarehouseIOManager, names.seller_asset_specs;"
        "print(sorted({'httpx', 'pandas', 'pyarrow', 'seller_platform.client'} & set(sys.modules)))"
    )

    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout

    assert loaded.strip() == "[]"


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


def test_importing_the_package_imports_neither_pandas_nor_sqlalchemy() -> None:
    program = (
        "import sys, seller_platform; print(sorted({'pandas', 'sqlalchemy', 'dagster'} & set(sys.modules)));"
        "seller_platform.read; print(sorted({'pandas', 'pyarrow', 'dagster', 'rich', 'httpx'} & set(sys.modules)))"
    )

    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout

    assert loaded.split() == ["[]", "[]"]
