"""The generated parts of documents: pages of reference, the tree of ARCHITECTURE.md, the figures of `numbers`."""

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import click
import dagster as dg

from seller_platform.capabilities import capabilities
from seller_platform.cli import commands
from seller_platform.cli.docs import schema_of
from seller_platform.cli.output import CommandFailure, JsonOption
from seller_platform.contract.dataset import Slicing, Source
from seller_platform.contract.datasets import DATASETS
from seller_platform.settings import read_settings, settings_class
from seller_platform.warehouse.loads.holds import RULES
from seller_platform.warehouse.migrations.upgrade import problem_sources
from seller_platform_tests.structure.errors import error_classes
from seller_platform_tests.support.command_line import COMMAND_LINE, all_commands
from seller_platform_tests.tools.api_reference import http_api, python_api, table

_TOP = Path(__file__).parents[2]
README, ARCHITECTURE = _TOP / "README.md", _TOP / ".github" / "ARCHITECTURE.md"
PAGES = _TOP / "seller_platform" / "docs"
_FLOORS = ("cli", "orchestration", "ingest", "client", "warehouse", "contract")

_PARTITIONS = {
    Slicing.MONTH: "account × month",
    Slicing.SNAPSHOT: "account; one snapshot a day",
    Slicing.CONNECTION: "none",
}


def sections() -> Mapping[str, Callable[[], str]]:
    """Return the function of each generated part of the documents, by its name."""
    return {
        "tree": _tree,
        "commands": _commands,
        "options": _options,
        "documents": _documents,
        "settings": _settings,
        "datasets": _datasets,
        "assets": _assets,
        "checks": _checks,
        "kinds": _kinds,
        "rules": _rules,
        "automation": _automation,
        "errors": _errors,
        "http": http_api,
        "python": python_api,
        "peers": _peers,
    }


def documents() -> list[Path]:
    """Return the files that have generated parts."""
    return [ARCHITECTURE, PAGES / "checks.md", PAGES / "numbers.md", *sorted(PAGES.glob("reference/*.md"))]


def found_in(text: str, name: str) -> str | None:
    """Return the part of a text between the markers of a name."""
    match = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", text, re.DOTALL)
    return match[1] if match else None


def written(text: str) -> str:
    """Return the text with every generated part written again."""
    for name, make in sections().items():
        part = f"<!-- {name} -->\n{make()}\n<!-- /{name} -->"
        text = re.sub(rf"<!-- {name} -->\n.*?<!-- /{name} -->", lambda _, part=part: part, text, flags=re.DOTALL)  # type: ignore[misc]  # re's callback
    return text


def _table(*headings: str) -> Callable[[Callable[[], Iterator[tuple[str, ...]]]], Callable[[], str]]:
    """Let a function that yields rows return them as a table."""
    return lambda rows: lambda: table(headings, rows())


@_table("kind", "severity", "what is wrong", "what ends it")
def _kinds() -> Iterator[tuple[str, ...]]:
    """Yield a row for each kind of problem."""
    for source in problem_sources():
        yield from ((f"`{each.name}`", each.severity, each.doc, each.ends) for each in source.kinds)


def _tree() -> str:
    """Return the folders of the package with the first sentence of their docstrings, and what capabilities need."""

    def line(name: str, more: str = "") -> str:
        docstring = ast.get_docstring(ast.parse((_TOP / "seller_platform" / name / "__init__.py").read_text())) or ""
        return f"  {name:<14} {docstring.partition(chr(10) * 2)[0]}{more}"

    needs = (line(each.name, f" Needs {', '.join(each.needs)}." if each.needs else "") for each in capabilities())
    return "\n".join(["```", "the core", *map(line, _FLOORS), "capabilities", *needs, "```"])


@cache
def _definitions() -> dg.Definitions:
    """Return the definitions with the assets of exports."""
    from seller_platform.orchestration.definitions import definitions_for

    return definitions_for(read_settings().model_copy(update={"export_dir": "/exports"}))


def _peers() -> str:
    """Return a row for each tool of the figure `peers`, from the document that its last run has left."""
    document = json.loads((_TOP / "seller_platform_tests" / "figures" / "peers.json").read_text())
    loads = {(each["tool"], each["load"]): each for each in document["loads"]}
    columns = list(dict.fromkeys(load for _, load in loads))

    def rows() -> Iterator[tuple[str, ...]]:
        for tool in dict.fromkeys(tool for tool, _ in loads):
            packages = document["packages"].get(tool, ())
            own = [loads[tool, column] for column in columns]
            name = " ".join([f"`{tool}`", *(package.rpartition("==")[2] for package in packages[:1])])
            cpu = (f"{each['cpu_microseconds_a_row']:.0f}" for each in own)
            yield name, *cpu, f"{max(each['peak_mib'] for each in own)}"

    return table((f"µs of CPU a row, {document['rows']:,} rows", *columns, "MiB"), rows())


@_table("asset, table", "endpoint", "partitions", "a row is")
def _datasets() -> Iterator[tuple[str, ...]]:
    """Yield a row for each dataset: asset, endpoint, partitions, and meaning of a row."""
    for dataset in DATASETS:
        of_reports = "account; every report that was requested" if dataset.source is Source.REPORT else None
        partitions = of_reports or _PARTITIONS[dataset.slicing]
        yield f"`seller/{dataset.name}`", f"`{dataset.path}`", partitions, dataset.doc


@_table("asset", "partitions", "what it is")
def _assets() -> Iterator[tuple[str, ...]]:
    """Yield the assets except the datasets, which have another table."""
    graph = _definitions().resolve_asset_graph()
    specs = (graph.get(key).to_asset_spec() for key in graph.materializable_asset_keys)
    for spec in sorted(specs, key=lambda spec: spec.key.to_user_string()):
        if spec.key.path[0] != "seller":
            partitions = (
                "account × month"
                if isinstance(spec.partitions_def, dg.MultiPartitionsDefinition)
                else ("account" if spec.partitions_def else "none")
            )
            yield f"`{spec.key.to_user_string()}`", partitions, _sentence(spec.description)


@_table("check", "of", "holds that")
def _checks() -> Iterator[tuple[str, ...]]:
    """Yield the checks with their assets."""
    graph = _definitions().resolve_asset_graph()
    of_check: dict[tuple[str, str], list[str]] = {}
    for key in graph.asset_check_keys:
        check = (key.name, _sentence(graph.get_check_spec(key).description))
        of_check.setdefault(check, []).append(key.asset_key.to_user_string())
    for (name, sentence), assets in sorted(of_check.items()):
        yield f"`{name}`", _listed(sorted(assets)), sentence


@_table("rule", "is about", "stops", "lets pass")
def _rules() -> Iterator[tuple[str, ...]]:
    """Yield the rules by which a reading is in doubt."""
    for rule in RULES:
        limits = (
            f"{scope.value}: more than {percent} %" + f" and {number}" * (number > 0) if percent else scope.value
            for scope, (percent, number) in rule.limits.items()
        )
        yield f"`{rule.name}`", "; ".join(limits), rule.stops, rule.passes


@_table("name", "kind", "by default", "does")
def _automation() -> Iterator[tuple[str, ...]]:
    """Yield schedules, sensors and jobs."""
    repository = _definitions().get_repository_def()
    for schedule in sorted(repository.schedule_defs, key=lambda each: each.name):
        crons = schedule.cron_schedule
        when = crons if isinstance(crons, str) else ", ".join(crons)
        yield (
            f"`{schedule.name}`",
            f"schedule, `{when}` {schedule.execution_timezone or 'UTC'}",
            _on(schedule.default_status.value),
            _sentence(schedule.description),
        )
    for sensor in sorted(repository.sensor_defs, key=lambda each: each.name):
        kind = f"sensor, every {sensor.minimum_interval_seconds or 30} s"
        yield f"`{sensor.name}`", kind, _on(sensor.default_status.value), _sentence(sensor.description)
    for job in sorted(repository.get_all_jobs(), key=lambda each: each.name):
        if not job.name.startswith("__"):
            yield f"`{job.name}`", "job", "–", _sentence(job.description)


def _commands() -> str:
    return table(("command", "does"), ((f"`seller-platform {name}`", text) for name, (_, text) in commands().items()))


def _options() -> str:
    """Return a section for each command without commands of its own: usage, description, arguments and options."""
    return "\n\n".join(_section_of(command, " ".join(("seller-platform", *names))) for command, names in all_commands())


def _documents() -> str:
    """Return a table of the keys of each document that a command prints with `--json`, by command."""

    def sections() -> Iterator[str]:
        for command, names in all_commands():
            if any(isinstance(option, JsonOption) for option in command.params):
                schema = schema_of(names, COMMAND_LINE)
                yield f"## seller-platform {' '.join(names)}"
                for reference in schema["anyOf"]:
                    if not reference.get("$ref", "").endswith(f"/{CommandFailure.__name__}"):
                        yield from _keys_of_document(reference, schema["$defs"])

    return "\n\n".join(sections())


def _keys_of_document(reference: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sentence about a document, and the table of its keys."""
    if "$ref" not in reference:
        yield f"{_type_of(reference, definitions)}: a row each."
        return
    definition = definitions[reference["$ref"].rpartition("/")[2]]
    yield definition["description"].partition("\n\n")[0]
    yield table(("key", "is", "means"), _rows_of_keys(definition, definitions, ""))


def _rows_of_keys(
    definition: Mapping[str, Any], definitions: Mapping[str, Any], above: str
) -> Iterator[tuple[str, ...]]:
    meanings = dict(re.findall(r"^    (\w+): (.*(?:\n        .*)*)", definition["description"], re.MULTILINE))
    for name in definition["required"]:
        value, meaning = definition["properties"][name], " ".join(meanings.get(name, "").split())
        yield f"`{above}{name}`", _type_of(value, definitions), meaning or "–"
        for path, inner in _objects_in(value, definitions, f"{above}{name}"):
            yield from _rows_of_keys(inner, definitions, f"{path}.")


def _objects_in(value: Mapping[str, Any], definitions: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """Yield the objects with keys of their own that a value is or contains, each with its path."""
    for alternative in value.get("anyOf", [value]):
        definition = definitions.get(alternative.get("$ref", "").rpartition("/")[2], {})
        if "properties" in definition:
            yield path, definition
        elif "items" in alternative:
            yield from _objects_in(alternative["items"], definitions, f"{path}[]")
        elif isinstance(alternative.get("additionalProperties"), dict):
            yield from _objects_in(alternative["additionalProperties"], definitions, f"{path}.*")


def _type_of(value: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return what a value is, in words."""
    if "anyOf" in value:
        return " or ".join(_type_of(each, definitions) for each in value["anyOf"])
    value = definitions[value["$ref"].rpartition("/")[2]] if "$ref" in value else value
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if value.get("type") == "array":
        return f"array of {_type_of(value['items'], definitions)}"
    if "additionalProperties" in value and value["additionalProperties"] is not False:
        return f"object of {_type_of(value['additionalProperties'], definitions)}"
    return str(value.get("format") or ("month" if "pattern" in value else value.get("type")))


def _section_of(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    options = [param for param in command.params if isinstance(param, click.Option)]
    records = [record for option in options if (record := option.get_help_record(context)) is not None]
    lines = [f"## {name}", _help_of(command), f"```text\n{name} {usage}\n```"]
    if records:
        lines.append("\n".join(f"- `{names}`: {text}" for names, text in records))
    return "\n\n".join(lines)


def _help_of(command: click.Command) -> str:
    """Return the paragraphs of a command's help; those whose lines click keeps apart become blocks of text."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(
        f"```text\n{paragraph.partition(chr(8) + chr(10))[2]}\n```"
        if paragraph.startswith("\b")
        else " ".join(paragraph.split())
        for paragraph in paragraphs
    )


@_table("variable", "default", "is")
def _settings() -> Iterator[tuple[str, ...]]:
    """Yield a row for each setting: the variable, its default and its effect."""
    for field in sorted(settings_class().model_fields.values(), key=lambda each: each.alias or ""):
        has_none = (
            field.default in (None, "", False) or field.default_factory is not None
        )  # the description names it then
        shown = ",".join(field.default) if isinstance(field.default, tuple) else field.default
        default = "–" if has_none else f"`{shown}`"
        yield f"`{field.alias}`", default, field.description or ""


def _errors() -> str:
    def rows() -> Iterator[tuple[str, ...]]:
        for name, error in error_classes().items():
            meaning = (error.__doc__ or "").partition("\n\n    Args:")[0]
            yield f"`{name}`", str(error.exit_code), _sentence(meaning), error.next_step
        for code, exit_code, sentence, step in coded_errors():
            yield f"`{code}`", str(exit_code), f"{sentence[:1].upper()}{sentence[1:]}.", step

    return table(("error", "exit code", "means", "next step"), sorted(rows()))


def coded_errors() -> Iterator[tuple[str, int, str, str]]:
    """Yield code, exit code, sentence and next step of each error that has a code in place of a class of its own."""
    for path in (_TOP / "seller_platform").rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    facts = {each.arg: each.value for each in node.keywords}
                    kind = error_classes().get(node.func.id)
                    if "code" in facts and kind is not None:
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


def _on(status: str) -> str:
    return "on" if status == "RUNNING" else "off"


def _sentence(text: str | None) -> str:
    """Return the first paragraph of a text as a line of a table."""
    return " ".join((text or "").partition("\n\n")[0].split()).replace("|", "\\|")


def _listed(names: Sequence[str]) -> str:
    """Return the names, or their folder where they are many."""
    if len(names) <= 3:
        return ", ".join(f"`{name}`" for name in names)
    folders = sorted({name.partition("/")[0] for name in names})
    return f"{len(names)} of {', '.join(f'`{folder}/`' for folder in folders)}"
