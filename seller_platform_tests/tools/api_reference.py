"""The references of both APIs, in Markdown: HTTP from the service's OpenAPI document, Python from its docstrings."""

import asyncio
import inspect
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
from seller_platform.service.pages.docs import described

_SECTION = re.compile(r"^(Args|Attributes|Raises):\n((?:^(?: .*)?\n?)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)
_TITLES = {"Args": "Arguments:", "Attributes": "Attributes:", "Raises": "Errors:"}
_METHODS = {"SellerApiResource": ["api"], "SellerPlatformComponent": ["definitions"]}
"""The methods that programs call; Dagster calls the others."""
_MODULE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])")


def table(columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown; a cell that has a `|` has escaped it."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def http_api() -> str:
    """Return a section for each endpoint of the service, by area: its parameters, its answer and its errors."""
    api = described(asyncio.run(_openapi()))

    def sections() -> Iterator[str]:
        yield from api["about"]
        yield "## Errors"
        yield "The body of each error has these fields; the OAuth endpoints answer as RFC 6749 says."
        yield _fields(api["error"])
        for area in api["areas"]:
            yield f"## {area['name'].capitalize().replace('Oauth', 'OAuth')}"
            yield area["description"]
            for endpoint in area["endpoints"]:
                yield from _endpoint(endpoint)

    return "\n\n".join(sections())


async def _openapi() -> dict[str, Any]:
    """Return the OpenAPI document of a service, which needs no database for it."""
    transport = httpx.ASGITransport(create_app("postgresql://127.0.0.1/none"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        document: dict[str, Any] = (await client.get(OPENAPI)).json()
    return document


def _endpoint(endpoint: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {endpoint['method']} {endpoint['path']}"
    yield f"{endpoint['summary']}."
    yield from endpoint["rules"]
    if not endpoint["needs_token"]:
        yield "It needs no access token."
    for title, kind in (
        ("Parameters", "parameters"),
        ("Fields of the body", "body"),
        ("Fields of the answer", "fields"),
    ):
        if endpoint[kind]:
            yield f"{title}:"
            yield _fields(endpoint[kind], with_required=kind != "fields")
    yield "Statuses:"
    yield "\n".join(f"- {status}: {meaning}" for status, meaning in endpoint["responses"])


def _fields(fields: Iterable[Mapping[str, Any]], *, with_required: bool = False) -> str:
    def rows() -> Iterator[tuple[str, ...]]:
        for each in fields:
            kind = f"{each['type']}, required" if with_required and each["required"] else each["type"]
            yield f"`{each['name']}`", kind, each["doc"] or "–"

    return table(("name", "is", "means"), rows())


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
