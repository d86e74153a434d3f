"""Tests of `seller-platform docs`."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import Result

from seller_platform.cli.docs import docs, schema_of
from seller_platform.cli.output import CommandFailure
from seller_platform.cli.pages import NOTEBOOK, PAGES, page_named
from seller_platform.errors import RequestError
from seller_platform_tests.support.command_line import COMMAND_LINE, all_commands, invoke


def _run(*arguments: str) -> Result:
    return invoke(docs, list(arguments), catch_exceptions=False)


def test_without_a_name_every_page_is_listed_with_its_title() -> None:
    listed = _run().stdout.splitlines()

    assert all(any(page.name in line and page.title in line for line in listed) for page in PAGES)
    assert len(listed) <= 27


def test_json_has_the_markdown_of_a_page() -> None:
    document = json.loads(_run("connect", "--json").stdout)

    assert document["page"] == "connect"
    assert document["text"] == Path(document["file"]).read_text()
    assert len(json.loads(_run("--json").stdout)["pages"]) == len(PAGES)


def test_a_page_is_named_by_its_last_part_and_in_any_case() -> None:
    assert page_named("settings") == page_named("reference/settings") == page_named("Settings.md")
    assert page_named("checks").name == "checks"


def test_a_wrong_name_is_answered_with_similar_ones_and_all() -> None:
    with pytest.raises(RequestError, match=r"no page 'conect' \(did you mean 'connect'") as raised:
        page_named("conect")

    assert "concepts, connect" in str(raised.value)


def test_the_schema_of_every_document_allows_its_keys_and_no_others() -> None:
    printing = (names for command, names in all_commands() if any("--json" in each.opts for each in command.params))
    schemas = {names: schema_of(names, COMMAND_LINE) for names in printing}

    objects = [each for schema in schemas.values() for each in schema["$defs"].values() if "properties" in each]
    assert {("sync",), ("keys", "rotate"), ("docs",), ("query",)} <= schemas.keys()
    assert [each["title"] for each in objects if each["additionalProperties"] is not False] == []
    # Only what a failure adds may be missing.
    optional = [{*each["properties"]} - {*each["required"]} for each in objects]
    assert {frozenset(keys) for keys in optional} == {frozenset(), frozenset(CommandFailure.__struct_fields__)}


def test_the_schema_of_a_command_is_printed() -> None:
    printed = invoke(COMMAND_LINE, ["docs", "--schema", "keys rotate"])

    assert json.loads(printed.stdout) == schema_of(["keys", "rotate"], COMMAND_LINE)
    for words in ("keys", "rotate", "keys generate"):
        with pytest.raises(RequestError, match=f"no command '{words}' takes --json; `seller-platform docs json` lists"):
            invoke(COMMAND_LINE, ["docs", "--schema", words], catch_exceptions=False)


def test_the_notebook_is_copied_and_no_file_is_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "a look.ipynb"

    first, second = (_run("--notebook", str(file)) for _ in range(2))

    assert (first.exit_code, second.exit_code) == (0, 2)
    assert json.loads(file.read_text("utf-8")) == json.loads(NOTEBOOK.read_text("utf-8"))
    assert "is not overwritten" in second.stderr
    assert f"`jupyter lab '{file}'`" in first.stderr
    assert ("`pip install jupyterlab matplotlib`" in first.stderr) == (find_spec("jupyterlab") is None)
