"""Tests the public names of `seller_platform`, and the README's example of them."""

import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import seller_platform
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
