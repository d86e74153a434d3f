"""Describes the operations of the API, and builds the OpenAPI document from them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request

from seller_platform.contract import Column, Kind
from seller_platform.contract.wire import (
    API_VERSION,
    AUTHORIZE,
    COMPUTED_BY,
    CURRENT_PAGE,
    LAST_PAGE,
    PER_PAGE,
    ROWS,
    TOKEN,
    TOTAL,
)
from seller_platform.service.access import SCOPES, Scope
from seller_platform.service.http.parameters import Parameter, about
from seller_platform.service.http.responses import JSON, Error

Answers = Mapping[int, tuple[str, Mapping[str, Any]]]
"""The meaning of each status, and the type of its body by media type."""

_REFUSALS = {
    401: "The bearer token is missing, malformed, expired or revoked.",
    403: "The token lacks the scope. With the reason `replica`: the rows come from another service; change them there.",
    404: "What was asked for does not exist or is not the caller's.",
    409: "The report is not ready, or a request with the same `Idempotency-Key` is under way; where `Retry-After` is "
    "sent, try again then.",
    410: "The list cannot be read any more as it was when the walk over its pages began; begin again.",
    413: "The body is too large.",
    415: "The body is not JSON, or is compressed, or in another charset than UTF-8.",
    422: "A parameter is missing, unknown in value, out of range or contradictory. With the reason `replica` it asks "
    "for what was never read from the service that the rows come from.",
    429: "The token or the user has made too many requests, or has too many under way or stored; `Retry-After` says "
    "when to try again.",
    503: "The service is busy, or its store is away; try again later.",
}
_TYPES: Mapping[Kind, Any] = {
    Kind.TEXT: str,
    Kind.INTEGER: int,
    Kind.MONEY: float,
    Kind.NUMBER: float,
    Kind.BOOLEAN: bool,
    Kind.DATE: date,
    Kind.TIMESTAMP: Annotated[datetime, Meta(tz=True)],
    Kind.JSON: Any,
}
_NUMBERS = {
    CURRENT_PAGE: Annotated[int, about("The page returned.", 1)],
    TOTAL: Annotated[int, about("Rows on all pages.", 1)],
    PER_PAGE: Annotated[int, about("Rows on a full page.", 500)],
    LAST_PAGE: Annotated[int, about("Number of the last page.", 1)],
}
_ABOUT = (
    "The data of marketplace sellers: orders, sales, transactions, inventory, warehouse stock, shipments, "
    "notifications, product costs and reports.\n\n"
    "Access is by OAuth 2.0, authorization code flow. Parameters are read strictly: numbers are ASCII digits, days are "
    "YYYY-MM-DD, a parameter that is sent twice is refused, an unknown one is ignored, and refused by DELETE. Every "
    "answer carries an X-Request-Id; every error is JSON and says what to correct."
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
    "Link": 'The next page, with `rel="next"`, if there is one.',
    COMPUTED_BY: "`replica` where an account is a copy of another service's and the rows were computed here, not read "
    "from there; else absent.",
}
_HEADERS_OF = {**dict.fromkeys((401, 403), ("WWW-Authenticate",)), **dict.fromkeys((409, 429, 503), ("Retry-After",))}
_TEXTS = {"date": "2026-03-01", "date-time": "2026-03-01T09:30:00+01:00"}
_SCHEMAS = "#/components/schemas/"


@dataclass(frozen=True)
class Operation:
    """One operation of the OpenAPI document.

    Attributes:
        rules: What a caller must know beside parameters and fields; an empty line separates paragraphs.
        answer: The type of the answer, in JSON.
        refusals: The statuses of its error answers; with a token also 429.
        scope: The scope that the token needs; None where no token is needed.
        body: The type of the body of a request by its media type.
        needs_body: Whether a request without a body is refused.
        headers: The headers that only some answers of this operation carry; the document describes them.
        others: The answers that are not as those of other operations.
    """

    path: str
    name: str
    area: str
    summary: str
    rules: str
    answer: Any = None
    parameters: Sequence[Parameter[Any]] = ()
    refusals: Sequence[int] = ()
    method: str = "GET"
    scope: Scope | None = Scope.READ
    body: Mapping[str, Any] = field(default_factory=dict)
    needs_body: bool = True
    headers: Sequence[str] = ()
    others: Answers = field(default_factory=dict)

    @property
    def answers(self) -> Answers:
        """The answers by their statuses."""
        refusals = sorted({*self.refusals, *((429,) if self.scope else ())})
        answers = {200: ("Success.", {JSON: self.answer})}
        return answers | {status: (_REFUSALS[status], {JSON: Error}) for status in refusals} | dict(self.others)


class Cost(StrEnum):
    """What work a request is; requests of one cost share their turns."""

    QUICK = "quick"
    PAGE = "page"
    PASSWORD = "password"  # noqa: S105  # a kind of work
    WORK = "work"


@dataclass(frozen=True)
class Route:
    """An endpoint: its operation, the function that answers, and its cost.

    Attributes:
        resource: The path of the resource that a token must be for; None stands for the REST API.
    """

    operation: Operation
    answer: Callable[[Request], Any]
    cost: Cost = Cost.WORK
    resource: str | None = None


class Done(Struct, tag_field="status", tag="success"):
    """What every answer has that says what was done."""

    code: Annotated[int, about("The HTTP status of the answer.", 200)]
    message: Annotated[str, about("What was done, or what is answered.", "What was done, in a sentence.")]


def row_type(name: str, columns: Sequence[Column], optional: Collection[str] = (), **more: Any) -> Any:
    """Return the type of a row of the list of that name; some rows lack the optional columns."""
    fields: list[Any] = [*more.items()]
    for column in columns:
        examples = () if column.example is None else (column.example,)
        kind = _TYPES[column.kind]
        of_value: Any = kind | None if column.nullable and kind is not Any else kind
        described: Any = Annotated[of_value, about(column.doc, *examples)]
        fields.append(
            (column.name, described | UnsetType, UNSET) if column.name in optional else (column.name, described)
        )
    return msgspec.defstruct("".join(part.capitalize() for part in (*name.split("_"), "row")), fields, kw_only=True)


def list_of(row: Any, doc: str, **limits: Any) -> Any:
    """Return the type of a list of rows."""
    return Annotated[list.__class_getitem__(row), about(doc, **limits)]


def body_type(title: str, parameters: Sequence[Parameter[Any]], **fields: Any) -> Any:
    """Return the type of a body that may carry parameters, beside fields that it must have."""
    sent = [(each.name, Annotated[each.type, about(each.doc)] | UnsetType, UNSET) for each in parameters]
    return msgspec.defstruct(title, [*sent, *fields.items()], kw_only=True)


def page_type(row: Any, *, announces_total: bool) -> Any:
    """Return the type of a page of rows."""
    fields = {ROWS: list_of(row, "The rows of the page."), **(_NUMBERS if announces_total else {})}
    return msgspec.defstruct(f"{row.__name__.removesuffix('Row')}Page", fields.items())


def openapi_document(described: Iterable[Operation], base_url: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of a service."""
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
    responses = {}
    for status, (meaning, content) in operation.answers.items():
        names = ("X-Request-Id", *(operation.headers if status == 200 else ()), *_HEADERS_OF.get(status, ()))
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

    A tuple of types stands for a list: its rows have one type, which is one of these.
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
