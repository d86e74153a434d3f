"""Tests the public names of `seller_platform` and `seller_platform.dagster`, and the examples of them."""

import re
import subprocess
import sys
from datetime import date
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import seller_platform
import seller_platform.dagster as public_dagster
from seller_platform.contract import Account, Window, dataset_named
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.documentation import README
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.stored_rows import copy_rows


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
    program = "import sys, seller_platform; print(sorted({'pandas', 'sqlalchemy', 'dagster'} & set(sys.modules)))"

    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout

    assert loaded.strip() == "[]"


def test_the_readmes_python_example_reads_orders(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_connection(database, KnownConnection("default", "http://api", "http://api", "client"))
    save_accounts(database, "default", [("A1B2.US", Account(1, "Shop", "US", "USD", "America/New_York", "US", "A1B2"))])
    with database.begin() as connection:
        row = ("o1", "2026-03-02T10:00:00-05:00", "Shipped", None, "USD", 2, "SKU", "ASIN", None, "2026-03-02")
        driver: Any = connection.connection.driver_connection
        copy_rows(driver, dataset_named("orders"), [row], account="A1B2.US", tags=("platform",))
    mark_loaded(database, dataset_named("orders"), "A1B2.US", Window.month_of(date(2026, 3, 1)))
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database_url)
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path / "home"))
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names: dict[str, Any] = {}

    exec(example, names)  # the README's text, as a reader runs it

    assert list(names["frame"]["platform_order_id"]) == ["o1"]
