"""The references of both APIs, in Markdown: HTTP from the service's OpenAPI document, Python from its docstrings."""

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import httpx

import seller_platform
import seller_platform.dagster as names_for_dagster
from seller_platform.client.http.api import SellerApi
from seller_platform.contract.wire import OPENAPI
from seller_platform.orchestration.component import SellerPlatformComponent
from seller_platform.service.app import create_app
from seller_platform.service.http.responses import JSON
from seller_platform_tests.support.openapi import operations, without_references

_SECTION = re.compile(r"^(Args|Attributes|Raises):\n((?:^(?: .*)?\n?)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)
_TITLES = {"Args": "Arguments:", "Attributes": "Attributes:", "Raises": "Errors:"}
_METHODS = {"SellerApiResource": ["api"], "SellerPlatformComponent": ["definitions"]}
"""The methods that programs call; Dagster calls the others."""
_Field = tuple[str, Mapping[str, Any], str, bool]
"""Name, schema, doc, and whether it is required."""
_MODULE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])")


def table(columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown; a cell that has a `|` has escaped it."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def http_api() -> str:
    """Return a section for each endpoint of the service, by area: its parameters, its answer and its errors."""
    document = without_references(asyncio.run(_openapi()))

    def sections() -> Iterator[str]:
        yield document["info"]["description"]
        yield "## Errors"
        yield "The body of each error has these fields; the OAuth endpoints answer as RFC 6749 says."
        yield _fields(_inner_fields(document["components"]["schemas"]["Error"]))
        for area in document["tags"]:
            yield f"## {area['name'].capitalize().replace('Oauth', 'OAuth')}"
            yield area["description"]
            for method, path, operation in operations(document):
                if operation["tags"] == [area["name"]]:
                    yield f"### {method} {path}"
                    yield from _endpoint(operation)

    return "\n\n".join(sections())


async def _openapi() -> dict[str, Any]:
    """Return the OpenAPI document of a service, which needs no database for it."""
    transport = httpx.ASGITransport(create_app("postgresql://127.0.0.1/none"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        document: dict[str, Any] = (await client.get(OPENAPI)).json()
    return document


def _endpoint(operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"{operation['summary'].rstrip('.')}."
    yield operation["description"]
    if not operation["security"]:
        yield "It needs no access token."
    answer = operation["responses"]["200"].get("content", {})
    bodies = operation.get("requestBody", {}).get("content", {})
    parameters = [
        (each["name"], each["schema"], each["description"], each["required"])
        for each in operation.get("parameters", ())
    ]
    body = [field for each in bodies.values() for field in _inner_fields(each["schema"])]
    for title, sent in (("Parameters", parameters), ("Fields of the body", body)):
        if sent:
            yield f"{title}:"
            yield _fields(sent, with_required=True)
    if fields := [*_inner_fields(answer[JSON]["schema"])] if JSON in answer else []:
        yield "Fields of the answer:"
        yield _fields(fields)
    yield "Statuses:"
    yield "\n".join(f"- {status}: {response['description']}" for status, response in operation["responses"].items())


def _fields(fields: Iterable[_Field], *, with_required: bool = False) -> str:
    def rows() -> Iterator[tuple[str, ...]]:
        for name, schema, doc, is_required in fields:
            kind = _type(schema)
            yield f"`{name}`", f"{kind}, required" if with_required and is_required else kind, doc or "–"

    return table(("name", "is", "means"), rows())


def _inner_fields(schema: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[_Field]:
    """Yield the fields of a schema, those of inner objects under their path."""
    if schema.get("type") == "array":
        yield from _inner_fields(schema["items"], f"{prefix}[]", depth)
    seen = set()
    for variant in schema.get("anyOf", schema.get("oneOf", [schema])):
        for name, inner in variant.get("properties", {}).items():
            path = f"{prefix}.{name}" if prefix else name
            if path in seen and "enum" not in inner:
                continue
            seen.add(path)
            yield path, inner, inner.get("description", ""), name in variant.get("required", ())
            if depth < 5:
                yield from _inner_fields(inner, path, depth + 1)


def _type(schema: Mapping[str, Any]) -> str:
    if len(schema.get("enum", ())) == 1:
        return json.dumps(schema["enum"][0])
    kinds = schema.get("type", "any")
    kind = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    if "format" in schema:
        kind = kind.replace("string", str(schema["format"]))
    if "enum" in schema:
        kind = f"{kind}: {', '.join(map(str, schema['enum']))}"
    if "minimum" in schema:
        kind = f"{kind} from {schema['minimum']}"
    return kind


def python_api() -> str:
    """Return a section for each public name: its signature and docstring, and the methods that programs call."""

    def sections() -> Iterator[str]:
        for module, name in [
            (seller_platform, "read"),
            *((names_for_dagster, name) for name in names_for_dagster.__all__),
        ]:
            yield f"## {module.__name__}.{name}"
            value = getattr(module, name)
            yield from [f"The text `{value}`."] if isinstance(value, str) else _described(name, value)
        yield "## SellerApi"
        yield "What `SellerApiResource.api` returns."
        yield from _described("SellerApi.get", SellerApi.get)

    return "\n\n".join(sections())


def _described(name: str, value: Callable[..., object]) -> Iterator[str]:
    if not inspect.isclass(value):
        yield _signature(name, value)
    text, *sections = _SECTION.split(f"{inspect.getdoc(value)}\n")
    yield text.strip()
    for title, entries in zip(sections[::3], sections[1::3], strict=True):
        yield _TITLES[title]
        yield "\n".join(f"- `{name}`: {' '.join(means.split())}" for name, means in _ENTRY.findall(entries))
    if value is SellerPlatformComponent:
        yield _TITLES["Attributes"]
        yield "\n".join(f"- `{name}`: {field.description}" for name, field in value.model_fields.items())
    for method in _METHODS.get(name, ()):
        yield from _described(f"{name}.{method}", getattr(value, method))


def _signature(name: str, function: Callable[..., object]) -> str:
    """Return the signature of a function in a block, with one argument a line and types without their modules."""
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    lines, are_named = [str(each) for each in parameters], [each.kind is each.KEYWORD_ONLY for each in parameters]
    if True in are_named:
        lines.insert(are_named.index(True), "*")
    returned = inspect.formatannotation(signature.return_annotation).strip("'")
    code = "\n".join([f"{name}(", *(f"    {line}," for line in lines), f") -> {returned}"])
    return f"```text\n{_MODULE.sub('', code)}\n```"
