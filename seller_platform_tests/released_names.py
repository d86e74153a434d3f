"""The names that the page *Promises* promises, one a line.

`released_names.txt` keeps those of the last release, below its version. `python -m seller_platform_tests.regenerate`
writes the file when the version has changed, unless names are gone that the major version has promised.
"""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.version import Version

import seller_platform
import seller_platform.dagster
from seller_platform import __version__
from seller_platform_tests.documentation import sections
from seller_platform_tests.stored_names import openapi

RELEASED = Path(__file__).with_name("released_names.txt")
TABLES = (
    *("seller.", "history.", "marts.", "platform.loads", "platform.published_loads", "platform.readings"),
    *("platform.slices", "platform.problems", "platform.derived_partitions", "platform.settledness"),
)
"""How the names of the tables and views begin whose columns are promised."""

_KEY_OR_INDEX = re.compile(r"(PRIMARY KEY|FOREIGN KEY|UNIQUE|CHECK|EXCLUDE|ON) ")


def released_names() -> tuple[str, list[str]]:
    """Return the version of the last release, and its names."""
    version, *lines = RELEASED.read_text().splitlines()
    return version, lines


def renew(file: Path, names: Mapping[str, Any], version: str = __version__) -> None:
    """Write the names of a version, unless the file has those of this version already.

    Args:
        names: What `stored_names.read_names` returns.

    Raises:
        ValueError: Names are gone that the file has for the same major version. Nothing was written.
    """
    promised = promised_names(names)
    if file.exists():
        last, *released = file.read_text().splitlines()
        if last == version:
            return
        gone = sorted({*released} - {*promised})
        if gone and Version(last).major == Version(version).major:
            raise ValueError(f"{version} must not take away what {last} promises:\n" + "\n".join(gone))
    file.write_text("\n".join([version, *promised]) + "\n")


def promised_names(names: Mapping[str, Any]) -> list[str]:
    """Return what is promised now, as sorted lines.

    Args:
        names: What `stored_names.read_names` returns.
    """
    return sorted({*_stored(names), *_json(), *_http(), *_python()})


def _stored(names: Mapping[str, Any]) -> Iterator[str]:
    """Yield tables, commands, exit codes, settings and Dagster's names."""
    for table, columns in names["tables"].items():
        if table.startswith(TABLES):
            # The definition of a column is its type, then what it has of constraint and default.
            kinds = {name: kind for name, kind in columns.items() if not _KEY_OR_INDEX.match(kind)}
            yield from (f"table {table}: {name} {re.split(' not null| = ', kind)[0]}" for name, kind in kinds.items())
    for command, parameters in names["commands"].items():
        yield f"command {command}"
        yield from (f"command {command}: {each.partition(',')[0]}" for each in parameters if ", hidden" not in each)
    yield from (f"exit code {code} of {error}" for error, code in names["exit codes"].items())
    yield from (f"setting {name}" for name in names["settings"])
    yield from (f"asset {key}: {asset['partitions']}" for key, asset in names["assets"].items())
    for kind in ("checks", "jobs", "schedules", "sensors", "resources"):
        yield from (f"{kind.removesuffix('s')} {name}" for name in names[kind] if not name.startswith("__"))


def _json() -> Iterator[str]:
    """Yield the keys of the documents of `--json`, from the page that lists them."""
    command = ""
    for heading, key in re.findall(r"^(?:## (.+)|\| `([^`]+)` \|.*)$", sections()["documents"](), re.MULTILINE):
        command = heading or command
        yield f"json {command}: {key}".removesuffix(": ")


def _http() -> Iterator[str]:
    """Yield methods and paths with their parameters, and the fields of each schema."""
    document = json.loads(openapi())
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"http {method.upper()} {path}"
            for parameter in operation.get("parameters", ()):
                if "name" in parameter:
                    yield f"http {method.upper()} {path}: {parameter['name']}"
    for schema, definition in document["components"]["schemas"].items():
        yield from (f"http schema {schema}: {field}" for field in definition.get("properties", ()))


def _python() -> Iterator[str]:
    """Yield the public names with their parameters or attributes."""
    for module in (seller_platform, seller_platform.dagster):
        for name in module.__all__:
            value = getattr(module, name)
            yield f"python {module.__name__}.{name}"
            if callable(value):
                fields = getattr(value, "model_fields", None) or inspect.signature(value).parameters
                yield from (f"python {module.__name__}.{name}: {field}" for field in fields)
