"""Builds the OpenAPI document from the operations."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from seller_platform.contract.tokens import SCOPES
from seller_platform.contract.wire import API_VERSION, AUTHORIZE, COMPUTED_BY, TOKEN
from seller_platform.service.openapi.operations import Operation

_ABOUT = (
    "The data of marketplace sellers: orders, sales, transactions, inventory, warehouse stock, shipments, "
    "notifications, product costs and reports.\n\n"
    "Access is by OAuth 2.0, authorization code flow. Parameters are read strictly: numbers are ASCII digits, days are "
    "YYYY-MM-DD, a parameter that is sent twice is refused, an unknown one is ignored, and refused by DELETE. Every "
    "answer carries an X-Request-Id; every error is JSON and says what to mend."
)
_AREAS = {
    "service": "Whether the service works.",
    "oauth": "How an application gets its tokens.",
    "user": "Whose token it is, and their accounts.",
    "sales": "Orders, daily sales, transactions, and statistics computed from them.",
    "inventory": "Stock in the marketplace's fulfilment network.",
    "warehouse": "Stock in the seller's own warehouses, and shipments.",
    "notifications": "What the seller should know about stock and prices.",
    "costs": "What the goods cost, to read and to write.",
    "reports": "Requested, written in the background, then downloaded.",
}
_HEADERS = {
    "X-Request-Id": "Names the request, in our log too; the caller's own, where it sent a usable one.",
    "WWW-Authenticate": "How to authenticate (RFC 6750).",
    "Retry-After": "Seconds after which trying again makes sense.",
    "RateLimit-Policy": "The limits of this token and its user: the requests (`q`) in a window of seconds (`w`). "
    "Absent where the service has none.",
    "RateLimit": "What is left of each limit: the requests (`r`), and the seconds (`t`) until all are available again.",
    "ETag": "Names the page as it is; sent back as `If-None-Match`, it gets status 304 while the page stays so.",
    "Link": 'The next page, with `rel="next"`, if there is one.',
    COMPUTED_BY: "`replica` where an account is a copy of another service's and the rows were computed here, not read "
    "from there; else absent.",
}
_HEADERS_OF = {**dict.fromkeys((401, 403), ("WWW-Authenticate",)), **dict.fromkeys((409, 429, 503), ("Retry-After",))}
_RATE_HEADERS = ("RateLimit-Policy", "RateLimit")
_TEXTS = {"date": "2026-03-01", "date-time": "2026-03-01T09:30:00+01:00"}
_SCHEMAS = "#/components/schemas/"


def openapi_document(described: Iterable[Operation], base_url: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of a service.

    Args:
        base_url: The URL under which the service was reached.
    """
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = {}
    for operation in described:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Seller Analytics API", "version": API_VERSION, "description": _ABOUT},
        "servers": [{"url": base_url}],
        "tags": [{"name": area, "description": doc} for area, doc in _AREAS.items()],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "headers": {name: {"description": doc, "schema": {"type": "string"}} for name, doc in _HEADERS.items()},
            "securitySchemes": {
                "oauth2": {
                    "type": "oauth2",
                    "description": "Authorization code flow (RFC 6749), with PKCE if you like (RFC 7636).",
                    "flows": {
                        "authorizationCode": {
                            "authorizationUrl": f"{base_url}{AUTHORIZE}",
                            "tokenUrl": f"{base_url}{TOKEN}",
                            "refreshUrl": f"{base_url}{TOKEN}",
                            "scopes": {scope.value: doc for scope, doc in SCOPES.items()},
                        }
                    },
                },
                "bearer": {"type": "http", "scheme": "bearer", "description": "An access token that you have."},
            },
        },
    }


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield method, path and operation of every endpoint of a document."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def without_references(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with every reference to a schema replaced by the schema."""
    schemas = document["components"]["schemas"]

    def inline(described: Any) -> Any:
        if isinstance(described, list):
            return [inline(item) for item in described]
        if not isinstance(described, Mapping):
            return described
        inner = {name: inline(item) for name, item in described.items()}
        reference = described.get("$ref")
        if isinstance(reference, str) and reference.startswith(_SCHEMAS):
            return inline(schemas[reference.removeprefix(_SCHEMAS)]) | {k: v for k, v in inner.items() if k != "$ref"}
        return inner

    inlined: dict[str, Any] = inline(document)
    return inlined


def example_of(schema: Mapping[str, Any], name: str = "text") -> Any:
    """Return a value that a schema allows, for documentation; a text without an example is its name in capitals."""
    for keyword in ("examples", "enum"):
        if keyword in schema:
            return schema[keyword][0]
    if variants := schema.get("anyOf", schema.get("oneOf")):
        return example_of(variants[0])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {each: example_of(inner, each) for each, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return [example_of(schema["items"])]
    text = _TEXTS.get(schema.get("format", ""), name.upper())
    return {"integer": 1, "number": 12.5, "boolean": True, "string": text}.get(str(kind))


def _operation(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the object of an operation; the schemas that it refers to are added to `schemas`."""
    # Requests are counted by the token that they carry.
    always = ("X-Request-Id", *(_RATE_HEADERS if operation.scope else ()))
    responses = {}
    for status, (meaning, content) in operation.answers.items():
        names = (*always, *(operation.headers if status == 200 else ()), *_HEADERS_OF.get(status, ()))
        responses[str(status)] = {
            "description": meaning,
            **_content(content, schemas),
            "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
        }
    parameters = [
        {
            "name": each.name,
            "in": each.place,
            "required": each.required,
            "description": each.doc,
            "schema": each.schema,
            "example": each.example or example_of(each.schema, each.name),
        }
        for each in operation.parameters
    ]
    return {
        "operationId": operation.name,
        "tags": [operation.area],
        "summary": operation.summary,
        "description": operation.rules,
        **({"parameters": parameters} if parameters else {}),
        **(
            {"requestBody": {"required": operation.needs_body, **_content(operation.body, schemas)}}
            if operation.body
            else {}
        ),
        "responses": responses,
        "security": [{"oauth2": [operation.scope.value]}, {"bearer": []}] if operation.scope else [],
    }


def _content(types: Mapping[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a body by its media type; types with fields are referred to.

    A tuple stands for a list whose rows are all of one of its types.
    """
    content = {}
    for media_type, kind in types.items():
        kinds = kind if isinstance(kind, tuple) else (kind,)
        described, components = msgspec.json.schema_components(kinds, ref_template=f"{_SCHEMAS}{{name}}")
        is_list = kind is kinds
        schema = {"type": "array", "items": {"oneOf": list(described)}} if is_list else described[0]
        content[media_type] = {"schema": _plain(schema)}
        for name, component in _plain(components).items():
            if schemas.setdefault(name, component) != component:
                raise ValueError(f"two types are called {name}: {schemas[name]} and {component}")
    return {"content": content} if content else {}


def _plain(schema: Any) -> Any:
    """Return a schema of msgspec as generators of clients read it best.

    An enumeration has a type, a decimal is a number, what may be null has a list of types, and a constant is described.
    """
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    plain = {name: _plain(item) for name, item in schema.items()}
    match plain.get("anyOf"):
        case [{"type": str(kind), **keywords}, {"type": "null"}]:
            plain = {**keywords, **plain, "type": [kind, "null"]}
            del plain["anyOf"]
    match plain:
        case {"enum": [str(first), *others]}:
            plain = {**({} if others else {"description": f"Always `{first}`."}), **plain, "type": "string"}
        case {"type": [*_], "format": "decimal"}:
            plain["type"] = ["number", "null"]
        case {"format": "decimal"}:
            plain["type"] = "number"
    return plain
