"""Tests which databases the sandbox, the demo and the service use."""

import json
from pathlib import Path

from seller_platform.project import HOME_FOLDER
from seller_platform.settings import DEMO_FOLDER
from seller_platform_tests.support.processes import environment, run


def test_the_service_opens_the_sandbox_of_the_demo_and_says_so(tmp_path: Path) -> None:
    """A sandbox of its own, once filled, comes first."""
    variables = {name: value for name, value in environment(tmp_path).items() if name != "SELLER_PLATFORM_HOME"}
    demo = {**variables, "SELLER_PLATFORM_HOME": str(tmp_path / HOME_FOLDER / DEMO_FOLDER)}
    load = ["sandbox", "load", "--accounts", "1", "--months", "1", "--orders-per-month", "1"]
    assert run(["service", "application", "add", "Demo", "--redirect-uri", "http://127.0.0.1:1/"], demo).returncode == 0

    result = run(["service", "application", "list", "--json"], variables, folder=tmp_path)
    with_option = run(["--demo", "service", "application", "list", "--json"], variables, folder=tmp_path)
    assert run(load, variables, folder=tmp_path).returncode == 0
    own = run(["service", "application", "list", "--json"], variables, folder=tmp_path)
    without_rows = [run(words, variables, folder=tmp_path) for words in (["query", "SELECT 1"], ["sync"], ["status"])]

    assert "This is the database of `demo` and `dev`" in result.stderr
    assert [each["name"] for each in json.loads(result.stdout)["applications"]] == ["Demo"]
    assert json.loads(with_option.stdout) == json.loads(result.stdout)
    assert json.loads(own.stdout) == {"applications": []}
    assert len({ended.stderr for ended in without_rows}) == 1, [ended.stderr for ended in without_rows]
    assert "or add `--demo` to read the data of `seller-platform demo`" in without_rows[0].stderr
