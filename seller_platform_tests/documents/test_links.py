"""Tests that links, pictures, commands and generated parts of the documents are right."""

import ast
import json
import re
from collections.abc import Sequence

import click
import pytest

from seller_platform.cli.pages import PAGES as LISTED
from seller_platform.cli.pages import DocumentPage
from seller_platform.settings import settings_class
from seller_platform_tests.documents.markdown import Document, commands_of, documents, others
from seller_platform_tests.structure.errors import error_classes
from seller_platform_tests.support.command_line import COMMAND_LINE
from seller_platform_tests.tools.documentation import ARCHITECTURE, PAGES, README, found_in, sections
from seller_platform_tests.tools.documentation import documents as generated_documents

_WEB = ("http://", "https://")
_LINES = 140


@pytest.mark.parametrize("document", [*documents(), *others()], ids=lambda document: document.name)
def test_every_link_leads_to_a_file_and_a_heading(document: Document) -> None:
    broken = []
    for link in document.links:
        path, _, fragment = link.partition("#")
        target = (document.path.parent / path) if path else document.path
        if not link.startswith(_WEB) and (
            not target.exists() or (fragment and fragment not in Document(target).anchors)
        ):
            broken.append(link)

    assert broken == []


def test_every_module_that_the_architecture_names_exists() -> None:
    pages = (ARCHITECTURE, ARCHITECTURE.with_name("MECHANISMS.md"))
    named = {name for page in pages for name in re.findall(r"`((?:\w+/)+\w+)`", Document(page).prose)}
    package = README.parent / "seller_platform"

    named = {name for name in named if (package / name.partition("/")[0]).is_dir()}
    assert len(named) > 40
    assert {name for name in named if not ((package / name).is_dir() or (package / f"{name}.py").exists())} == set()


def test_every_page_is_listed_and_linked_by_the_readme_or_the_reference() -> None:
    names = {document.name for document in documents()} - {"README.md"}
    linked = {
        (source.parent / link.partition("#")[0]).resolve()
        for source in (README, PAGES / "reference.md")
        for link in Document(source).links
    }

    assert names == {page.name for page in LISTED}
    assert {page.path for page in LISTED} <= linked


@pytest.mark.parametrize("page", LISTED, ids=lambda page: page.name)
def test_every_page_begins_with_what_its_reader_can_do_afterwards(page: DocumentPage) -> None:
    assert page.text.startswith("# ")
    assert re.match(r"After reading this page, you (can|know) ", page.text.split("\n\n")[1])


def test_the_readme_is_short_and_shows_a_diagram_and_two_pictures() -> None:
    readme = Document(README)

    assert len(readme.text.splitlines()) <= _LINES
    assert len(readme.blocks("mermaid")) == 1
    assert len(readme.images) == 2
    assert readme.lines[:2] == ["pip install -e . && seller-platform demo", "pip install -e '.[test]' && pytest"]


def test_every_picture_is_shown_and_described() -> None:
    shown = {
        (document.path.parent / path).resolve(): description
        for document in documents()
        for description, path in document.images
    }

    assert set(shown) == set((PAGES / "images").iterdir())
    assert all(shown.values())


@pytest.mark.parametrize("name", sections())
def test_every_generated_part_is_what_the_code_says_now(name: str) -> None:
    texts = [part for path in generated_documents() if (part := found_in(path.read_text(), name)) is not None]

    assert texts == [sections()[name]()], "run `python -m seller_platform_tests.tools.regenerate`"


def test_every_setting_has_a_description() -> None:
    assert [field.alias for field in settings_class().model_fields.values() if not field.description] == []


_TYPED = [(document.name, line) for document in documents() for line in document.lines]
_HELP = ("--help", "--version")


def _problem(words: Sequence[str], *, is_whole: bool) -> str | None:
    """Return why click does not accept a command, if it does not.

    Args:
        is_whole: Whether its required arguments must be there.
    """
    command: click.Command = COMMAND_LINE
    context = click.Context(command, info_name="seller-platform")
    rest = [word for word in words[1:] if word != "--demo"]  # every command takes it, before and after its name
    while isinstance(command, click.Group) and rest and rest[0] not in _HELP:
        below = command.get_command(context, rest[0])
        if below is None:
            return f"there is no command {rest[0]!r} in {context.command_path!r}"
        context = click.Context(below, info_name=rest.pop(0), parent=context)
        command = below
    if isinstance(command, click.Group):
        return "a command of the group is missing" if is_whole and not set(rest) & set(_HELP) else None
    try:
        values, _, _ = command.make_parser(context).parse_args([word.strip("[]") for word in rest])
    except click.UsageError as error:
        return error.format_message()
    if set(rest) & set(_HELP) or not is_whole:
        return None
    given = {name for name, value in values.items() if value and isinstance(value, str | list | tuple)}
    missing = [param.name for param in command.params if param.required and param.name not in given]
    return f"these are missing: {missing}" if missing else None


@pytest.mark.parametrize(("page", "line"), _TYPED, ids=[f"{page}: {line}" for page, line in _TYPED])
def test_every_command_that_a_reader_types_is_accepted(page: str, line: str) -> None:
    ours = [words for words in commands_of(line) if words[0] == "seller-platform"]

    assert [problem for words in ours if (problem := _problem(words, is_whole=True))] == []


@pytest.mark.parametrize("document", [*documents(), *others()], ids=lambda document: document.name)
def test_every_command_that_the_prose_names_exists(document: Document) -> None:
    named = [words for words in document.mentioned_commands if words[1] != "COMMAND"]

    problems = {" ".join(words): _problem(words, is_whole=False) for words in named}

    assert {command: problem for command, problem in problems.items() if problem} == {}


def test_every_command_in_a_message_can_be_run() -> None:
    package = README.parent / "seller_platform"
    trees = {path.relative_to(package): ast.parse(path.read_text("utf-8")) for path in package.rglob("*.py")}
    texts = [
        (
            path,
            "".join(
                str(part.value) if isinstance(part, ast.Constant) else "X" for part in getattr(node, "values", [node])
            ),
        )
        for path, tree in trees.items()
        for statement in ast.walk(tree)
        for node in ast.iter_child_nodes(statement)
        if isinstance(node, ast.Constant | ast.JoinedStr) and not isinstance(statement, ast.Expr)
    ]
    whole = [(path, text) for path, text in texts if text.count("`") % 2 == 0]
    named = {(path, words) for path, text in whole for words in re.findall("`(seller-platform [^`%]+)`", text)}
    of_agents = {words for path, words in named if path.parts[0] == "agents"}

    assert len(of_agents) >= 8
    problems = {words: problem for _, words in named if (problem := _problem(words.split(), is_whole=True))}
    assert problems == {"seller-platform X": "there is no command 'X' in 'seller-platform'"}
    # Without it, a command of the service is about the sandbox, which agents are not.
    assert [words for words in of_agents if "service" in words and "--replica" not in words] == []


def test_every_error_says_what_it_means_and_what_to_do_next() -> None:
    for name, error in error_classes().items():
        assert error.__doc__, name
        assert error.__doc__.strip().endswith("."), name
        assert error.next_step.endswith("."), name
        assert error.exit_code in range(1, 6), name
        # An error without subclasses needs a next step of its own, or that of an error within its category.
        is_category = bool(error.__subclasses__())
        assert is_category or "next_step" in vars(error) or len(error.__mro__) > 6, name


def test_the_notebook_is_stored_without_results() -> None:
    notebook = json.loads((PAGES / "first_look.ipynb").read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]

    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
