"""The JSON Schema of what a command prints with `--json`, from the declarations of its documents."""

from collections.abc import Sequence
from inspect import cleandoc
from typing import Any

import click
import msgspec

from seller_platform.cli.output import CommandFailure, JsonOption, Outcome
from seller_platform.errors import RequestError

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


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
        "$schema": _DIALECT,
        "title": f"seller-platform {' '.join(words)}",
        "anyOf": list(references),
        "$defs": definitions,
    }
