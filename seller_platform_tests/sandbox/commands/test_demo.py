"""`seller-platform demo` as a new user runs it."""

import json
import re
import shlex
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from seller_platform.contract import REFRESHED
from seller_platform.project import PROJECT_FILE
from seller_platform.warehouse.postgres.location import data_elsewhere
from seller_platform.warehouse.postgres.root_user import is_root
from seller_platform_tests.documents.markdown import Document
from seller_platform_tests.support.processes import completed, environment, left_behind, run
from seller_platform_tests.tools.documentation import README

pytestmark = pytest.mark.journey


LOOK = """
import ast, json, sys, warnings
from seller_platform.reading import MixedCurrenciesWarning

warnings.simplefilter("error", MixedCurrenciesWarning)
names = {}
example, *cells = json.load(sys.stdin)
exec(example, names)
from matplotlib import pyplot
axes = pyplot.gca()
seen = {"label": axes.get_ylabel(), "chart": sum(axes.lines[0].get_ydata()), "sum": names["frame"].sum()}
shown = []
for cell in cells:
    exec(cell, names)
    last = ast.parse(cell).body[-1]
    if isinstance(last, ast.Expr):
        shown.append(eval(ast.unparse(last), names)._repr_html_().count("</tr>"))
print(json.dumps({**seen, "products": len(names["best"]), "shown": shown}))
"""
"""Runs the README's example and the cells of the notebook, in which no amounts of several currencies are mixed."""
SALES = (
    "SELECT sum(product_sales) FROM seller.daily_product_sales "
    "JOIN platform.accounts ON key = account WHERE title = 'North Pine US'"
)


LOADS = (
    "SELECT dataset, verdict, count(*) AS slices, sum(rows)::float AS rows, sum(announced)::float AS announced "
    "FROM platform.loads GROUP BY account, dataset, verdict"
)


@pytest.mark.parametrize(
    ("options", "months", "earlier", "others"),
    [
        (["--months", "3"], 3, 0, ["held", "sync --dataset inventory"]),
        # The earlier months are left to the command that loads them.
        pytest.param(
            [],
            13,
            11,
            ["doctor", "verify --dataset orders", "report request", "report load"],
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["3 months", "all"],
)
def test_the_demo_lands_everything_and_its_commands_show_it(
    tmp_path: Path, options: list[str], months: int, earlier: int, others: list[str]
) -> None:
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    (folder / PROJECT_FILE).write_text('datasets = ["orders"]\naccounts = ["us-77"]')  # of a real connection
    variables = {name: value for name, value in environment(tmp_path).items() if name != "SELLER_PLATFORM_HOME"}
    variables |= dict.fromkeys(("HTTP_PROXY", "https_proxy", "ALL_PROXY"), "http://127.0.0.1:9")  # all is on loopback

    first = run(["demo", *options], variables, folder=folder)
    assert run(["docs", "--notebook", "look.ipynb"], variables, folder=folder).returncode == 0
    (example,) = Document(README).blocks("python")[:1]
    in_notebook = json.loads((folder / "look.ipynb").read_text("utf-8"))["cells"]
    cells = ["".join(cell["source"]) for cell in in_notebook if cell["cell_type"] == "code"]
    looked = completed(
        [sys.executable, "-c", LOOK],
        env=variables | {"MPLBACKEND": "agg"},
        cwd=folder,
        input=json.dumps([example, *cells]),
    )
    stored = json.loads(run(["query", "--demo", "--json", SALES], variables, folder=folder).stdout)
    loads = json.loads(run(["query", "--demo", "--json", LOADS], variables, folder=folder).stdout)
    commands = re.findall(r"^  seller-platform (--demo .*)$", first.stderr, re.MULTILINE)
    shown = [run(shlex.split(command), variables, folder=folder) for command in commands]
    without = run(["status"], variables, folder=folder)
    ended = [run([*words.split(), "--demo"], variables, folder=folder) for words in others]

    assert first.returncode == 0, first.stderr
    assert looked.returncode == 0, looked.stderr
    seen = json.loads(looked.stdout)
    assert seen["label"] == "USD"
    assert [seen["chart"], seen["sum"]] == pytest.approx([float(stored[0]["sum"])] * 2)
    assert seen["products"] > 5
    assert [rows > 1 for rows in seen["shown"]] == [True] * 5  # the head of a table, and rows
    assert (folder / "sales.png").stat().st_size > 5_000
    data = data_elsewhere(folder / ".seller_platform" / "sandbox")
    assert f"A new home folder was created: {folder / '.seller_platform'}" in first.stderr.splitlines()[0]
    assert (f"are stored in {data}." in first.stderr.splitlines()[0]) is is_root()
    assert (f"The rows are in {data}." in shown[0].stdout) is is_root()
    assert re.search(r"Every row (since \w+ \d{4} )?is stored exactly as the sandbox holds it\.", first.stderr)
    assert {load["dataset"] for load in loads} == {"accounts", *(dataset.name for dataset in REFRESHED)}
    assert {load["verdict"] for load in loads} == {"match", "unverifiable"}
    assert all(load["rows"] == load["announced"] for load in loads if load["verdict"] == "match")
    unannounced = {load["dataset"] for load in loads if load["verdict"] == "unverifiable"}
    assert unannounced == {"notifications", "cost_periods"}
    assert sum(load["rows"] for load in loads if load["dataset"] == "orders") > 150 * months
    assert re.findall("^(Out of stock|Runs out|Margin fell|Sales without)", first.stdout, re.MULTILINE) == [
        "Out of stock",
        "Runs out",
        "Margin fell",
        "Sales without",
    ]
    assert commands[0] == "--demo status"
    assert [each.returncode for each in shown] == [0] * (3 if earlier else 2), [each.stderr for each in shown]
    assert "net_profit" in shown[1].stdout
    assert "North Pine US" in shown[0].stdout
    assert re.search(
        r"^(Everything is loaded, and nothing|contradicted +marts\.cost_coverage of )", shown[0].stdout, re.MULTILINE
    )
    begun = (datetime.now(UTC) + timedelta(hours=14)).day == 1  # in the easternmost zone the next month may have
    assert {months} <= {load["slices"] for load in loads if load["dataset"] == "orders"} <= {months, months + begun}
    if earlier:
        assert "History begins with" in shown[2].stderr
        assert re.search(rf"^  orders +{earlier} ", shown[2].stdout, re.MULTILINE)
    assert "add `--demo` to read the data of `seller-platform demo`" in without.stderr
    assert [each.returncode for each in ended] == [0] * len(others), [each.stderr for each in ended]
    assert left_behind(folder) == []
