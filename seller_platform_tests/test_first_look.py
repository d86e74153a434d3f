"""Executes the notebook of the package, cell by cell."""

import ast
import json
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.marts import mart_named
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.shop import ACCOUNT, MARCH, Shop
from seller_platform_tests.support.stored_rows import connect_accounts

NOTEBOOK = json.loads((files("seller_platform") / "docs" / "first_look.ipynb").read_text("utf-8"))


@pytest.fixture
def shop(database: Database) -> Shop:
    """A shop that sold two products on two days of March; one of them has no cost."""
    account = Account(1, "North Pine US", "US", "USD", "America/Los_Angeles", "US", "S1")
    connect_accounts(database, [(ACCOUNT, account)])
    shop = Shop(database)
    mark_loaded(database, dataset_named("accounts"), "default", Window.day(date(2026, 3, 1)))
    shop.insert("accounts", (1, "North Pine US", "US", "USD", "America/Los_Angeles", "US", "S1", "default"))
    shop.sell("2026-03-02", "A", 3, "30.00")
    shop.sell("2026-03-03", "B", 1, "1234.50")
    shop.cost("A", "2026-01-01", None, '[{"name": "Freight", "amount": 2, "currency": "USD"}]')
    mark_loaded(database, dataset_named("daily_product_sales"), ACCOUNT, MARCH)
    shop.build(mart_named("product_performance_monthly"))
    return shop


def _executed(source: str, names: dict[str, Any]) -> Any:
    """Execute a cell as Jupyter does, and return the value of its last expression."""
    *statements, last = ast.parse(source).body
    exec(compile(ast.Module(statements, []), "cell", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    exec(compile(ast.Module([last], []), "cell", "exec"), names)
    return None


def test_every_cell_of_the_notebook_shows_rows(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", shop.database.url)
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    names: dict[str, Any] = {}

    shown = {
        cell["id"]: _executed("".join(cell["source"]), names)._repr_html_()
        for cell in NOTEBOOK["cells"]
        if cell["cell_type"] == "code"
    }

    assert "North Pine US" in shown["accounts"]
    assert "Name of A" in shown["sales"]
    assert "30.0" in shown["by-day"]
    assert "1,234.50" in shown["bars"]
    assert "linear-gradient" in shown["bars"]
    assert "1,234.50" in shown["products"]


def test_the_notebook_is_stored_without_results() -> None:
    cells = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]

    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in NOTEBOOK["cells"]}) == len(NOTEBOOK["cells"])
