"""`seller-platform init`: writes the project file, with every line explained."""

import json
from datetime import date
from pathlib import Path
from textwrap import wrap

import click

from seller_platform.cli.output import Outcome, Output, json_option
from seller_platform.errors import RequestError
from seller_platform.files import create_atomically
from seller_platform.project import PROJECT_FILE
from seller_platform.settings import named_in

_HEAD = """\
The settings of this project, for version control. What stands in the environment wins over this file; secrets and
servers are set there alone. `seller-platform doctor` says where each value comes from. A line without # counts."""


class InitDocument(Outcome, frozen=True):
    """The file that was written."""

    path: str


@click.command()
@json_option(InitDocument)
def init(*, output: Output) -> None:
    """Write seller_platform.toml into this folder: the settings of a project, each explained, none of them set.

    The commands below this folder and Dagster read it.
    """
    path = Path.cwd() / PROJECT_FILE
    lines = [f"# {line}" for line in _HEAD.splitlines()]
    for name, field in named_in("project").items():
        description = field.description or ""
        value = field.examples[0] if field.examples else field.default
        is_toml = isinstance(value, date) or str(value).startswith("{")
        lines += ["", *(f"# {line}" for line in wrap(f"{description[0].upper()}{description[1:]}.", 118))]
        lines.append(f"# {name} = {value if is_toml else json.dumps(value)}")
    if not create_atomically(path, "\n".join([*lines, ""]).encode(), 0o666):
        raise RequestError(f"{path} exists, and stays as it is; edit it, or remove it first")
    output.result(f"{path} is written. Remove the # of each line that should count.", InitDocument(path=str(path)))
