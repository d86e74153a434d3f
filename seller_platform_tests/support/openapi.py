"""Reads OpenAPI documents."""

from collections.abc import Iterator, Mapping
from typing import Any


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield method, path and operation of every endpoint of a document."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def without_references(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with every reference to a schema replaced by the schema."""
    schemas, start = document["components"]["schemas"], "#/components/schemas/"

    def inline(described: Any) -> Any:
        if isinstance(described, list):
            return [inline(item) for item in described]
        if not isinstance(described, Mapping):
            return described
        inner = {name: inline(item) for name, item in described.items()}
        reference = described.get("$ref")
        if isinstance(reference, str) and reference.startswith(start):
            return inline(schemas[reference.removeprefix(start)]) | {k: v for k, v in inner.items() if k != "$ref"}
        return inner

    inlined: dict[str, Any] = inline(document)
    return inlined
