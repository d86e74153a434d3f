"""The names that users type and installations store, read from the code.

`stored_names.json` keeps them; `python -m seller_platform_tests.regenerate` writes it. A change of that file changes
what installations have stored: it needs a migration or a line in the changelog.
"""

import ast
import asyncio
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import click
import dagster as dg
import httpx
import psycopg
from starlette.routing import Route

import seller_platform
from seller_platform import errors
from seller_platform.cli import _COMMANDS
from seller_platform.cli.terminal.root import command_group
from seller_platform.errors import SellerPlatformError
from seller_platform.service.app import ServiceOptions, create_app
from seller_platform.service.http.public_url import Location
from seller_platform.settings import Settings

GOLDEN = Path(__file__).with_name("stored_names.json")
PRODUCT = Path(seller_platform.__file__).parent
_NO_DATABASE = "postgresql://nowhere/"  # nothing connects before a request needs rows

# What other sections do not list: keys inside stored JSON, names of files, locks and queues, by where they are stored.
STORED_WORDS: Mapping[str, tuple[str, ...]] = {
    "platform.loads.notes": (
        "asked_by_day",
        "attempts",
        "computed_by",
        "duplicate_keys",
        "facet_ignored",
        "format",
        "moved",
        "moved_accounts",
        "null_keys",
        "other_columns",
        "products",
        "replaced_text",
        "report_id",
        "selector",
        "unknown_fields",
        "unknown_products",
        "unusable_accounts",
        "value",
        "was_settled",
    ),
    "platform.loads.verdict": ("match", "mismatch", "unverifiable"),
    "platform.loads.restatement": ("before", "after", "rows"),
    "platform.grants.token_pair": ("access_token", "refresh_token", "issued_at", "expires_in_seconds", "generation"),
    "grants/*.intent": ("generation", "at"),
    "cost plan files": ("format", "uid", "id", "made_at", "made_by", "source", "undo_of", "writes", "before", "wanted"),
    "cost periods in JSON": ("cost_element", "amount", "currency", "provider", "notes"),
    "service.report_jobs.selection": ("account_title", "seller_id", "marketplace_id", "group_title"),
    "cursor of discover_accounts": ("due",),
    "cursors of the alert sensors": (
        "read_to",
        "causes",
        "messages",
        "title",
        "sentence",
        "failed_at",
        "open_until",
        "text",
        "written_at",
        "attempts",
        "not_before",
    ),
    "cursor of security_events": ("read_to", "locks", "messages", "text", "written_at", "attempts", "not_before"),
    "metadata of events": (
        "account_title",
        "announced_total",
        "bytes",
        "changed",
        "country",
        "currency",
        "digest",
        "duplicate_keys",
        "endpoint",
        "exit_code",
        "load_id",
        "not_offered",
        "notes",
        "pages",
        "percent",
        "receipt",
        "requests",
        "restatement",
        "rows",
        "rows_by_month",
        "seconds",
        "unknown_fields",
        "upstream",
        "verdict",
        "waits",
        "window",
    ),
    "advisory locks": (
        "cost writes of ",
        "service.summaries ",
        "service.report_jobs ",
        "seller.cost_periods ",
        "export|",
        "run|",
    ),
    "files in the home folder": (
        "dagster",
        "dagster.yaml",
        "data",
        "grants",
        "postgres",
        "sandbox",
        "secret.key",
        "secret.key.lock",
        "workspace.yaml",
        ".intent",
        ".pair",
        ".room",
    ),
}


def read_names(database_url: str) -> dict[str, Any]:
    """Return every name, by the section of the file that lists it.

    Args:
        database_url: A database at the newest migration.
    """
    return {
        "assets": _assets(),
        "checks": _checks(),
        "jobs": _jobs(),
        "schedules": _schedules(),
        "sensors": _sensors(),
        "resources": sorted(_definitions().resources or ()),
        "settings": _settings(),
        "environment variables": sorted({*_constants_like(r"SELLER_[A-Z]+_[A-Z_]+|DAGSTER_HOME"), *_settings()}),
        "tags": _constants_like(r"seller_platform/[a-z_]+"),
        "metrics and cookies": _constants_like(r"seller_platform_(?!logs)[a-z_]+"),
        "commands": dict(_commands(command_group(_COMMANDS), "seller-platform")),
        "exit codes": _exit_codes(),
        "tables": _tables(database_url),
        "routes": _routes(),
        "openapi.json": _openapi(),
    }


def written(names: Mapping[str, Any]) -> str:
    """Return the names as the text of their file."""
    return json.dumps(names, indent=1, ensure_ascii=False) + "\n"


@cache
def constants() -> frozenset[object]:
    """Return the texts, numbers and names of fields in product code, without docstrings."""
    return frozenset(value for path in PRODUCT.rglob("*.py") for value in _constants_of(path))


@cache
def _definitions() -> dg.Definitions:
    """Return the definitions with default settings, and with the assets of exported files."""
    from seller_platform.orchestration.definitions import definitions_for  # reads the environment

    settings = Settings.model_construct(home=Path("home"), export_dir="/exports")
    return definitions_for(settings)


def _assets() -> dict[str, Any]:
    graph = _definitions().resolve_asset_graph()
    return {
        key.to_user_string(): {
            "partitions": _partitions(graph.get(key).partitions_def),
            "group": graph.get(key).group_name,
            "tags": ", ".join(f"{name}={value}" for name, value in sorted(graph.get(key).tags.items())),
            "metadata": ", ".join(sorted(graph.get(key).metadata)),
            "after": ", ".join(sorted(parent.to_user_string() for parent in graph.get(key).parent_keys)),
        }
        for key in sorted(graph.materializable_asset_keys, key=lambda key: key.to_user_string())
    }


def _partitions(partitions: dg.PartitionsDefinition[Any] | None) -> str | None:
    match partitions:
        case None:
            return None
        case dg.MultiPartitionsDefinition():
            dimensions = (f"{each.name} ({_partitions(each.partitions_def)})" for each in partitions.partitions_defs)
            return " × ".join(dimensions)
        case dg.DynamicPartitionsDefinition():
            return f"dynamic: {partitions.name}"
        case dg.TimeWindowPartitionsDefinition():
            return f"{partitions.cron_schedule} as {partitions.fmt}"
        case _:
            return type(partitions).__name__


def _checks() -> list[str]:
    keys = _definitions().resolve_asset_graph().asset_check_keys
    return sorted(f"{key.asset_key.to_user_string()}: {key.name}" for key in keys)


def _jobs() -> list[str]:
    return sorted(job.name for job in _definitions().get_repository_def().get_all_jobs())


def _schedules() -> dict[str, str]:
    schedules = _definitions().get_repository_def().schedule_defs
    return {
        schedule.name: f"{schedule.cron_schedule} {schedule.execution_timezone}, {schedule.default_status.value}"
        for schedule in sorted(schedules, key=lambda schedule: schedule.name)
    }


def _sensors() -> dict[str, str]:
    sensors = _definitions().get_repository_def().sensor_defs
    return {
        sensor.name: f"every {sensor.minimum_interval_seconds} s, {sensor.default_status.value}"
        for sensor in sorted(sensors, key=lambda sensor: sensor.name)
    }


def _settings() -> dict[str, str]:
    fields = Settings.model_fields.values()
    return {str(field.alias): str(field.default) for field in sorted(fields, key=lambda field: str(field.alias))}


def _constants_like(pattern: str) -> list[str]:
    return sorted(value for value in constants() if isinstance(value, str) and re.fullmatch(pattern, value))


def _constants_of(path: Path) -> Iterator[object]:
    tree = ast.parse(path.read_text())
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int) and id(node) not in documents:
            yield node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command's full name with its options and arguments."""
    yield name, [_parameter(parameter) for parameter in command.params]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in sorted(command.list_commands(context)):
            inner_command = command.get_command(context, inner)
            assert inner_command is not None
            yield from _commands(inner_command, f"{name} {inner}")


def _parameter(parameter: click.Parameter) -> str:
    """Return the spellings of a parameter with what it takes: `--full`, `--connection TEXT = default`."""
    spelled = " / ".join((*parameter.opts, *parameter.secondary_opts))
    is_flag = isinstance(parameter, click.Option) and parameter.is_flag
    takes = "" if is_flag else f" {parameter.type.to_info_dict()['name']}"
    default = parameter.to_info_dict().get("default")
    facts = {
        "required": parameter.required,
        "multiple": parameter.multiple or parameter.nargs != 1,
        f"= {default}": isinstance(default, str | int | float) and not isinstance(default, bool),
        f"from {parameter.envvar}": parameter.envvar is not None,
        "hidden": isinstance(parameter, click.Option) and parameter.hidden,
    }
    return ", ".join([f"{spelled}{takes}", *(fact for fact, holds in facts.items() if holds)])


def coded_errors() -> Iterator[tuple[str, int, str, str]]:
    """Yield code, exit code, sentence and next step of each error that has a code in place of a class of its own."""
    for path in PRODUCT.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    facts = {each.arg: each.value for each in node.keywords}
                    kind = getattr(errors, node.func.id, None)
                    if "code" in facts and isinstance(kind, type) and issubclass(kind, SellerPlatformError):
                        # A function that makes nothing but the error says what it is in its docstring.
                        code = ast.literal_eval(facts["code"])
                        docstring = (ast.get_docstring(function) or "").partition("\n")[0]
                        sentence = docstring.removeprefix("Return the error of ").removesuffix(".")
                        if not docstring.startswith("Return the error of "):
                            sentence = _template(node.args[0]).removesuffix(": …")
                        if not re.search("[a-z]", sentence):
                            sentence = re.sub("([A-Z])", r" \1", code.removesuffix("Error")).strip().lower()
                        step = ast.literal_eval(facts["step"]) if "step" in facts else kind.next_step
                        yield code, kind.exit_code, sentence, step


def _template(node: ast.expr) -> str:
    """Return a text with an ellipsis for each value that the code inserts."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
    return re.sub("…[.…]+", "…", text)


def _exit_codes() -> dict[str, int]:
    classes = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    exit_codes = {name: kind.exit_code for name, kind in classes.items() if issubclass(kind, SellerPlatformError)}
    for code, exit_code, *_ in coded_errors():
        assert exit_codes.setdefault(code, exit_code) == exit_code, f"{code} is raised with several exit codes"
    return dict(sorted(exit_codes.items()))


_COLUMNS = """
SELECT namespace.nspname || '.' || class.relname, attribute.attname,
       format_type(attribute.atttypid, attribute.atttypmod)
       || CASE WHEN attribute.attnotnull THEN ' not null' ELSE '' END
       || coalesce(' = ' || pg_get_expr(standard.adbin, standard.adrelid), '')
FROM pg_class AS class
JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid AND attnum > 0 AND NOT attisdropped
LEFT JOIN pg_attrdef AS standard ON standard.adrelid = class.oid AND standard.adnum = attnum
WHERE class.relkind IN ('r', 'v', 'm', 'p') AND NOT class.relispartition
  AND namespace.nspname NOT IN ('pg_catalog', 'information_schema') AND namespace.nspname NOT LIKE 'pg_toast%%'
ORDER BY 1, attribute.attnum
"""
_KEYS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid <> 0 AND contype <> 'n' AND conparentid = 0
  AND connamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')
UNION ALL
SELECT schemaname || '.' || tablename, indexname, regexp_replace(indexdef, '^CREATE (UNIQUE )?INDEX \\S+ ON', '\\1ON')
FROM pg_indexes WHERE schemaname NOT IN ('pg_catalog', 'partitions')
  AND indexname NOT LIKE 'pk_%'
ORDER BY 1, 2, 3 DESC
"""


def _tables(database_url: str) -> dict[str, dict[str, str]]:
    """Return the columns, keys and indexes of every table."""
    tables: dict[str, dict[str, str]] = {}
    with psycopg.connect(database_url) as connection:
        for statement in (_COLUMNS, _KEYS):
            for table, name, definition in connection.execute(statement.replace("%%", "%").encode()):
                tables.setdefault(table, {})[name] = definition
    return tables


def _routes() -> dict[str, str]:
    """Return the methods that the service allows at every path, from its own answers."""
    paths = sorted({route.path for route in create_app(_NO_DATABASE).routes if isinstance(route, Route)})
    return {path: asyncio.run(_answer("OPTIONS", path)).headers["Allow"] for path in paths}


def openapi() -> bytes:
    """Return the served description of the API."""
    return asyncio.run(_answer("GET", "/openapi.json")).content


def _openapi() -> dict[str, str]:
    """Return the digests of the served document and of its parts."""
    body = openapi()
    document = json.loads(body)
    parts = {
        **{
            f"{method.upper()} {path}": operation
            for path, item in document["paths"].items()
            for method, operation in item.items()
        },
        **document["components"]["schemas"],
        "info": document["info"],
        "tags": document["tags"],
    }
    return {
        "whole": hashlib.sha256(body).hexdigest(),
        **{name: hashlib.sha256(json.dumps(part).encode()).hexdigest()[:12] for name, part in parts.items()},
    }


async def _answer(method: str, path: str) -> httpx.Response:
    options = ServiceOptions(Location("https://api.shop.example"))
    transport = httpx.ASGITransport(create_app(_NO_DATABASE, options))
    async with httpx.AsyncClient(transport=transport, base_url="https://api.shop.example") as client:
        return (await client.request(method, path)).raise_for_status()
