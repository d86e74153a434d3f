"""The documentation page: the OpenAPI document in HTML, with forms to try the endpoints.

The page is complete without scripts. The one script that it loads, from the service, opens the forms; it sends the
access token in the header only, and stores it nowhere.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.wire import DOCS, OPENAPI
from seller_platform.service.http.bodies import FORM
from seller_platform.service.http.responses import JSON, MOST_BASE_URLS, PublicDocument, base_url_of
from seller_platform.service.openapi import Operation, example_of, openapi_document, operations, without_references
from seller_platform.service.pages.rendering import Page, document_with_script, render_text

# The documentation is made once, for this base URL. Without a public URL, it is replaced by that of the request.
_ANY_BASE_URL = "http://base-url.invalid"


def documentation(described_operations: Sequence[Operation]) -> dict[str, Page]:
    """Return what answers with the OpenAPI document and with the page, by path."""

    @cache
    def made() -> tuple[bytes, str]:
        document = openapi_document(described_operations, _ANY_BASE_URL)
        return msgspec.json.encode(document), render_text("docs.html", described(document))

    @lru_cache(MOST_BASE_URLS)
    def documents_of(base_url: str) -> dict[str, PublicDocument]:
        document, page = made()
        return {
            OPENAPI: PublicDocument(document.replace(_ANY_BASE_URL.encode(), base_url.encode()), JSON),
            DOCS: document_with_script(page.replace(_ANY_BASE_URL, base_url)),
        }

    async def answer(path: str, request: Request) -> Response:
        return documents_of(base_url_of(request))[path].answer(request)

    return {path: partial(answer, path) for path in (OPENAPI, DOCS)}


def described(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page shows of a document, with the endpoints by area."""
    document = without_references(document)
    endpoints = [_endpoint(document, *operation) for operation in operations(document)]
    areas = [
        {**tag, "endpoints": [endpoint for endpoint in endpoints if endpoint["area"] == tag["name"]]}
        for tag in document["tags"]
    ]
    return {
        "about": document["info"]["description"].split("\n\n"),
        "version": document["info"]["version"],
        "base_url": document["servers"][0]["url"],
        "flow": document["components"]["securitySchemes"]["oauth2"]["flows"]["authorizationCode"],
        "error": list(_fields(document["components"]["schemas"]["Error"])),
        "areas": areas,
    }


def _endpoint(document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> dict[str, Any]:
    answer = operation["responses"]["200"].get("content", {})
    bodies = operation.get("requestBody", {}).get("content", {})
    sample = example_of(answer[JSON]["schema"]) if JSON in answer else None
    return {
        "id": operation["operationId"],
        "area": operation["tags"][0],
        "method": method,
        "path": path,
        "summary": operation["summary"].rstrip("."),
        "rules": operation["description"].split("\n\n"),
        "needs_token": bool(operation["security"]),
        "parameters": [
            _field(each["name"], each["schema"], each["description"], is_required=each["required"])
            for each in operation.get("parameters", ())
        ],
        "body": [field for body in bodies.values() for field in _fields(body["schema"])],
        "fields": list(_fields(answer[JSON]["schema"])) if JSON in answer else [],
        "responses": [(status, response["description"]) for status, response in operation["responses"].items()],
        "curl": _curl(document, method, path, operation),
        "sample": json.dumps(sample, indent=2, ensure_ascii=False) if sample else None,
        "can_be_tried": method == "GET" and JSON in answer,
    }


def _field(name: str, schema: Mapping[str, Any], doc: str, *, is_required: bool) -> dict[str, Any]:
    return {
        "name": name,
        "required": is_required,
        "type": _type(schema),
        "doc": doc,
        "choices": schema.get("enum"),
        "input": {"date": "date"}.get(schema.get("format", ""), "text"),
    }


def _fields(schema: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the fields of a schema, those of inner objects under their path."""
    if schema.get("type") == "array":
        yield from _fields(schema["items"], f"{prefix}[]", depth)
    variants = schema.get("anyOf", schema.get("oneOf", [schema]))
    seen = set()
    for variant in variants:
        required = variant.get("required", ())
        for name, inner in variant.get("properties", {}).items():
            path = f"{prefix}.{name}" if prefix else name
            if path in seen and "enum" not in inner:
                continue
            seen.add(path)
            yield _field(path, inner, inner.get("description", ""), is_required=name in required)
            if depth < 5:
                yield from _fields(inner, path, depth + 1)


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


def _curl(document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> str:
    """Return a curl command that calls an endpoint, with the parameters that it needs."""
    query = {
        parameter["name"]: parameter["example"]
        for parameter in operation.get("parameters", ())
        if parameter["required"] or parameter["name"] in ("account_title", "start_date", "end_date", "sku")
    }
    content = operation.get("requestBody", {}).get("content", {})
    url = f"{document['servers'][0]['url']}{path}"
    parts = [f"curl {shlex.quote(f'{url}?{urlencode(query)}' if query else url)}"]
    if method != "GET" and not content:
        parts.append(f"-X {method}")
    if operation["security"]:
        parts.append('-H "Authorization: Bearer $ACCESS_TOKEN"')
    if FORM in content:
        body = example_of(content[FORM]["schema"])
        fixed = content[FORM]["schema"].get("anyOf", [content[FORM]["schema"]])[0]["properties"]
        parts += [
            f"-d {name}={value}" if "enum" in fixed[name] else f'--data-urlencode "{name}=${name.upper()}"'
            for name, value in body.items()
        ]
    elif JSON in content:
        body = {name: value for name, value in example_of(content[JSON]["schema"]).items() if name not in query}
        parts += [f"-H 'Content-Type: {JSON}'", f"-d {shlex.quote(json.dumps(body))}"]
    return " \\\n  ".join(parts)
