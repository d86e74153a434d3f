"""`seller-platform docs`: lists the pages of documentation, or shows one in the terminal."""

import json
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from inspect import cleandoc
from pathlib import Path
from shlex import quote
from typing import Any

import click
import msgspec

from seller_platform.cli.output import CommandFailure, Document, DoneDocument, JsonOption, Outcome, Output, json_option
from seller_platform.cli.pages import NOTEBOOK, PAGES, page_named
from seller_platform.commands import DEMO, uses_demo_start
from seller_platform.errors import RequestError
from seller_platform.files import create_atomically


class PageDocument(Document, frozen=True):
    """A page of the documentation.

    Attributes:
        file: The path of its file, in Markdown.
        text: All of it.
    """

    page: str
    title: str
    file: str
    text: str


class PagesDocument(Document, frozen=True):
    """All pages of the documentation, and what the reader of each can do afterwards."""

    pages: dict[str, str]


@click.command()
@click.argument("page", required=False)
@click.option(
    "--notebook",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Copy the notebook to a new file.",
)
@click.option(
    "--dbt",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write sources and staging views for dbt into a folder of models.",
)
@click.option("--schema", metavar="COMMAND", help="Print the JSON Schema of what a command prints with --json.")
@json_option(PageDocument, PagesDocument, DoneDocument)
def docs(*, page: str | None, notebook: Path | None, dbt: Path | None, schema: str | None, output: Output) -> None:
    """Show a page of the documentation; without PAGE, list all pages.

    A page is Markdown. In a terminal, the pager of the variable PAGER shows one that is longer than the screen.

    \b
    seller-platform docs
    seller-platform docs connect
    seller-platform docs settings
    seller-platform docs --schema "costs plan"
    seller-platform docs --dbt models/seller
    """  # noqa: D301  # click reads the backspace, which keeps the lines of a paragraph apart
    if notebook is not None:
        _copy_notebook(notebook, output)
        return
    if dbt is not None:
        _write_dbt(dbt, output)
        return
    if schema is not None:
        group = click.get_current_context().find_root().command
        click.echo(json.dumps(schema_of(schema.split(), group), indent=2, ensure_ascii=False))
        return
    if page is None:
        output.document(PagesDocument(pages={each.name: each.purpose for each in PAGES}))
        longest = max(len(each.name) for each in PAGES)
        for each in PAGES:
            output.line(f"{each.name:<{longest}}  {each.title}")
        output.say("Show a page with `seller-platform docs PAGE`.")
        return
    chosen = page_named(page)
    output.document(PageDocument(page=chosen.name, title=chosen.title, file=str(chosen.path), text=chosen.text))
    if output.as_json:
        return
    if sys.stdout.isatty() and chosen.text.count("\n") >= shutil.get_terminal_size().lines:
        click.echo_via_pager(chosen.text)
    else:
        click.echo(chosen.text, nl=False)


def _copy_notebook(file: Path, output: Output) -> None:
    """Copy the notebook, with a cell that chooses the demo where only that is stored."""
    from seller_platform.settings import read_settings  # a page needs neither these nor SQLAlchemy
    from seller_platform.warehouse.postgres.location import has_database, has_demo

    notebook, settings = json.loads(NOTEBOOK.read_bytes()), read_settings()
    is_demo = uses_demo_start() or (
        settings.database_url is None and not has_database(settings.home) and has_demo(settings.home)
    )
    if is_demo:
        code = f"import os\n\nos.environ[{DEMO!r}] = '1'  # the data of `seller-platform demo`"
        cell: dict[str, object] = {
            "cell_type": "code",
            "id": "demo",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
        }
        notebook["cells"].insert(1, {**cell, "source": code.splitlines(keepends=True)})
    if not create_atomically(file, json.dumps(notebook, indent=1, ensure_ascii=False).encode(), 0o666):
        raise click.UsageError(f"{file} exists and is not overwritten; choose another name")
    missing = "" if find_spec("jupyterlab") else "`pip install jupyterlab matplotlib` installs what shows it. "
    output.done(f"{file} is the notebook. {missing}Open it with `jupyter lab {quote(str(file))}`.")


def _write_dbt(folder: Path, output: Output) -> None:
    from seller_platform.cli.dbt import write_dbt_files  # a page needs neither Dagster nor the warehouse
    from seller_platform.cli.installation import open_stored_installation

    with open_stored_installation() as installation, installation.database.connect() as connection:
        files = write_dbt_files(connection, folder)
    output.done(f"{folder} has sources.yml and {len(files) - 1} staging views. Write them again after an upgrade.")


def schema_of(words: Sequence[str], group: click.Command) -> dict[str, Any]:
    """Return the JSON Schema of a command: of each document that it may print, or of its failure.

    Args:
        words: The name of the command, such as `costs plan`.

    Raises:
        RequestError: There is no such command, or it has no `--json`.
    """
    command: click.Command | None = group
    for word in words:
        command = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
    options = command.params if command is not None else ()
    documents = next((option.documents for option in options if isinstance(option, JsonOption)), None)
    if documents is None:
        raise RequestError(
            f"no command {' '.join(words)!r} takes --json; `seller-platform docs json` lists those that do"
        )
    references, definitions = msgspec.json.schema_components(
        [*documents, CommandFailure], ref_template="#/$defs/{name}"
    )
    failure = definitions[CommandFailure.__name__]["properties"]
    for document in documents:
        if isinstance(document, type) and issubclass(document, Outcome):
            definition = definitions[document.__name__]
            definition["properties"] |= failure
            first, *others = failure
            definition["dependentRequired"] = {first: others} | {name: [first] for name in others}
    for definition in definitions.values():
        definition["description"] = cleandoc(definition.get("description", ""))
        if "properties" in definition:
            definition["additionalProperties"] = False
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"seller-platform {' '.join(words)}",
        "anyOf": list(references),
        "$defs": definitions,
    }
