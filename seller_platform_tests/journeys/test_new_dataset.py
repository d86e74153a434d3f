"""A list that is new to the project takes a declaration, a generator and one command."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import seller_platform
from seller_platform_tests.support.command_line import check_document
from seller_platform_tests.support.processes import document, environment

# The tests of each part read the declarations, whatever datasets there are.
pytestmark = [pytest.mark.journey, pytest.mark.nightly]

DECLARATION = """
RETURNS = Dataset(
    name="returns",
    path="/sales/returns",
    doc="One return of a product.",
    area="sales",
    slicing=Slicing.MONTH,
    page_sizes=(500, 1000, 2000),
    day="return_date",
    order=("return_date", "return_id"),
    lookback_days=30,
    columns=(
        Column("return_id", Kind.TEXT, "Identifier of the return.", key=True, example="R-1"),
        Column("return_date", Kind.DATE, "The day of the return.", key=True),
        Column("sku", Kind.TEXT, "Seller SKU.", example="MUG-BLUE-350"),
        Column("refund", Kind.MONEY, "Amount refunded."),
    ),
)

SALES = (RETURNS, """
GENERATOR = '''    "returns": lambda history, rng, day_number: [
        (f"R-{day_number}-{number}", str(day), history.products[0].sku, "9.90", day)
        for day in (history.days[day_number].date,)
        for number in range(int(rng.integers(0, 3)))
    ],
}
"""The generator of each list.'''
# As `seller-platform demo`, for one list of two accounts.
LANDING = """
import os, sys
from seller_platform.cli import main
from seller_platform.cli.installation import open_installation
from seller_platform.cli.output import Output
from seller_platform.cli.sandbox.demo import connect_local_stack
from seller_platform.cli.sandbox.local_stack import open_local_stack
from seller_platform.settings import read_settings

output = Output(as_json=True)
with open_local_stack(read_settings().home, output, accounts=2, months=4) as stack:
    os.environ.update(stack.environment)
    with open_installation() as installation:
        connect_local_stack(installation, stack, output)
    sys.argv[1:] = ["sync", "--dataset", "returns", "--json"]
    main()
"""


def test_a_declared_list_with_a_generator_is_landed_whole(tmp_path: Path) -> None:
    top, tree = Path(seller_platform.__file__).parents[1], tmp_path / "tree"
    shutil.copytree(top, tree, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", "*_cache"))
    _replace(tree / "seller_platform/contract/datasets/sales.py", "\nSALES = (", DECLARATION)
    _replace(tree / "seller_platform/sandbox/account_history.py", '}\n"""The generator of each list.', GENERATOR)
    variables = environment(tmp_path / "home", PYTHONPATH=str(tree))

    _run([sys.executable, "-m", "seller_platform_tests.regenerate"], variables, tree)
    landed = _run([sys.executable, "-c", LANDING], variables, tree)
    check_document(["sync", "--json"], landed.stdout)
    summary = document(landed)

    returns = [load for load in summary["loads"] if load["dataset"] == "returns"]
    assert sum(load["rows"] for load in returns) > 100
    assert {load["verdict"] for load in returns} == {"match"}
    assert "| `seller/returns` | `/sales/returns` |" in (tree / "seller_platform/docs/reference/assets.md").read_text()


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def _run(command: list[str], variables: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        command, env=variables, cwd=folder, capture_output=True, text=True, timeout=480, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result
