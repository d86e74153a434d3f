"""The names that users type and installations store, read from the code: one a line.

`names.txt` keeps them, each behind the version that has them first. `python -m seller_platform_tests.tools.regenerate`
writes the file. It refuses to remove a name that an earlier version of the same major version has promised.
"""

import ast
import asyncio
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click
import dagster as dg
import httpx
import psycopg
from packaging.version import Version
from starlette.routing import Route

import seller_platform
import seller_platform.dagster
from seller_platform import __version__
from seller_platform.cli import commands
from seller_platform.cli.terminal.root import command_group
from seller_platform.contract.wire import OPENAPI
from seller_platform.service.app import ServiceOptions, create_app
from seller_platform.service.http.public_url import Location
from seller_platform.settings import settings_class
from seller_platform_tests.structure.errors import error_classes
from seller_platform_tests.tools.documentation import coded_errors, sections

NAMES = Path(__file__).with_name("names.txt")
PRODUCT = Path(seller_platform.__file__).parent
TABLES = (
    *("seller.", "history.", "marts.", "platform.loads", "platform.published_loads", "platform.readings"),
    *("platform.slices", "platform.problems", "platform.derived_partitions", "platform.settledness"),
)
"""How the names of the tables and views begin whose columns are promised."""

_COLUMNS = """
SELECT namespace.nspname || '.' || class.relname || ': ' || attribute.attname || ' '
       || format_type(attribute.atttypid, attribute.atttypmod)
FROM pg_class AS class
JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid AND attnum > 0 AND NOT attisdropped
WHERE class.relkind IN ('r', 'v', 'm', 'p') AND NOT class.relispartition
"""


def stored_names() -> dict[str, str]:
    """Return the names of the file, each with the version that has it first."""
    return {name: version for version, _, name in (line.partition(" ") for line in NAMES.read_text().splitlines())}


def renewed(kept: Mapping[str, str], names: Iterable[str], version: str = __version__) -> str:
    """Return the text of the file."""
    names = sorted({*names})
    first, now = Version(f"{Version(version).major}"), Version(version)
    gone = sorted(name for name in {*kept} - {*names} if first <= Version(kept[name]) < now)
    if gone:
        raise ValueError(f"{version} must not take away what earlier versions promise:\n" + "\n".join(gone))
    return "".join(f"{kept.get(name, version)} {name}\n" for name in names)


def current_names(database_url: str) -> Iterator[str]:
    """Yield the names of tables, commands, exit codes, settings, Dagster, documents, HTTP and Python."""
    with psycopg.connect(database_url) as connection:
        for (column,) in connection.execute(_COLUMNS):
            if column.startswith(TABLES):
                yield f"table {column}"
    for command, parameters in _commands(command_group(commands()), "seller-platform"):
        yield f"command {command}"
        yield from (f"command {command}: {_parameter(parameter)}" for parameter in parameters)
    yield from (f"exit code {kind.exit_code} of {name}" for name, kind in error_classes().items())
    yield from (f"exit code {exit_code} of {code}" for code, exit_code, *_ in coded_errors())
    yield from (f"setting {field.alias}" for field in settings_class().model_fields.values())
    yield from (f"tag {name}" for name in _texts_like(r"seller_platform/[a-z_]+"))
    yield from (f"metric or cookie {name}" for name in _texts_like(r"seller_platform_(?!logs)[a-z_]+"))
    yield from _of_dagster()
    command = ""
    for heading, key in re.findall(r"^(?:## (.+)|\| `([^`]+)` \|.*)$", sections()["documents"](), re.MULTILINE):
        command = heading or command
        yield f"json {command}: {key}".removesuffix(": ")
    yield from asyncio.run(_of_the_service())
    for module in (seller_platform, seller_platform.dagster):
        for name in module.__all__:
            value = getattr(module, name)
            yield f"python {module.__name__}.{name}"
            if callable(value):
                fields = getattr(value, "model_fields", None) or inspect.signature(value).parameters
                yield from (f"python {module.__name__}.{name}: {field}" for field in fields)


def _of_dagster() -> Iterator[str]:
    """Yield assets with their partitions, checks, jobs, schedules, sensors and resources."""
    from seller_platform.orchestration.definitions import definitions_for  # reads the environment

    definitions = definitions_for(settings_class().model_construct(home=Path("home"), export_dir="/exports"))
    graph, repository = definitions.resolve_asset_graph(), definitions.get_repository_def()
    for asset in graph.materializable_asset_keys:
        yield f"asset {asset.to_user_string()}: {_partitions(graph.get(asset).partitions_def)}"
    yield from (f"check {check.asset_key.to_user_string()}: {check.name}" for check in graph.asset_check_keys)
    yield from (f"job {job.name}" for job in repository.get_all_jobs() if not job.name.startswith("__"))
    yield from (f"schedule {schedule.name}" for schedule in repository.schedule_defs)
    yield from (f"sensor {sensor.name}" for sensor in repository.sensor_defs)
    yield from (f"resource {name}" for name in definitions.resources or ())


def _partitions(partitions: dg.PartitionsDefinition[str] | None) -> str | None:
    match partitions:
        case dg.MultiPartitionsDefinition():
            return " × ".join(f"{it.name} ({_partitions(it.partitions_def)})" for it in partitions.partitions_defs)
        case dg.DynamicPartitionsDefinition():
            return f"dynamic: {partitions.name}"
        case dg.TimeWindowPartitionsDefinition():
            return f"{partitions.cron_schedule} as {partitions.fmt}"
    return None if partitions is None else type(partitions).__name__


async def _of_the_service() -> Iterator[str]:
    """Return routes with their methods, and the parameters and fields of the OpenAPI document."""
    app = create_app("postgresql://nowhere/", ServiceOptions(Location("https://api.shop.example")))
    names: list[str] = []
    transport = httpx.ASGITransport(app)  # nothing connects to the database before a request needs rows
    async with httpx.AsyncClient(transport=transport, base_url="https://api.shop.example") as client:
        for path in {route.path for route in app.routes if isinstance(route, Route)}:
            answer = await client.options(path)
            names.append(f"http {answer.raise_for_status().headers['Allow']} {path}")
        document = (await client.get(OPENAPI)).json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parameters = (each["name"] for each in operation.get("parameters", ()) if "name" in each)
            names += (f"http {method.upper()} {path}: {parameter}" for parameter in parameters)
    for schema, definition in document["components"]["schemas"].items():
        names += (f"http schema {schema}: {field}" for field in definition.get("properties", ()))
    return iter(names)


def _texts_like(pattern: str) -> Iterator[str]:
    for path in PRODUCT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(pattern, node.value):
                yield node.value


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, list[click.Parameter]]]:
    """Yield each command's full name with its options and arguments."""
    yield name, [each for each in command.params if not (isinstance(each, click.Option) and each.hidden)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in sorted(command.list_commands(context)):
            inner_command = command.get_command(context, inner)
            assert inner_command is not None
            yield from _commands(inner_command, f"{name} {inner}")


def _parameter(parameter: click.Parameter) -> str:
    """Return the spellings of a parameter with what it takes: `--full`, `--connection TEXT`."""
    spelled = " / ".join((*parameter.opts, *parameter.secondary_opts))
    is_flag = isinstance(parameter, click.Option) and parameter.is_flag
    return spelled if is_flag else f"{spelled} {parameter.type.to_info_dict()['name']}"
