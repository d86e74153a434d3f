"""Describes the endpoints for the OpenAPI document, from the contract.

A schema with a title is in the document once, under that name, and referred to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seller_platform.contract import Column, Kind
from seller_platform.contract.tokens import Scope
from seller_platform.contract.wire import (
    CODE,
    CURRENT_PAGE,
    ENVELOPE,
    ERROR,
    LAST_PAGE,
    MESSAGE,
    PARAMETERS,
    PER_PAGE,
    REASON,
    REPLICA,
    ROWS,
    STATUS,
    TOTAL,
    error_body,
)
from seller_platform.service.http.parameters import Parameter

TEXT: Mapping[str, object] = {"type": "string"}
INTEGER: Mapping[str, object] = {"type": "integer"}

_SCHEMAS: Mapping[Kind, Mapping[str, object]] = {
    Kind.TEXT: TEXT,
    Kind.INTEGER: INTEGER,
    Kind.MONEY: {"type": "number"},
    Kind.NUMBER: {"type": "number"},
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.DATE: {"type": "string", "format": "date"},
    Kind.TIMESTAMP: {"type": "string", "format": "date-time"},
    Kind.JSON: {},
}

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


Fields = Mapping[str, tuple[Mapping[str, object], str] | Mapping[str, object]]
"""The schema and the description of each field, or a schema that has its description already."""


def object_schema(
    title: str,
    fields: Fields,
    *,
    required: Sequence[str] | None = None,
    **keywords: object,
) -> dict[str, Any]:
    """Return the schema of an object.

    Args:
        title: The name of the schema in the document; an empty one leaves the schema where it is used.
        required: By default all fields.
        keywords: Further keywords of the schema.
    """
    return {
        **({"title": title} if title else {}),
        "type": "object",
        **({} if required == () else {"required": list(fields if required is None else required)}),
        **keywords,
        "properties": {
            name: {**field[0], "description": field[1]} if isinstance(field, tuple) else field
            for name, field in fields.items()
        },
    }


def success_schema(message: str, fields: Fields) -> dict[str, Any]:
    """Return the schema of a `success_answer`, whose message and fields are described."""
    common = {
        STATUS: ({"const": "success"}, "Always `success`."),
        CODE: (INTEGER, "The HTTP status of the answer."),
        MESSAGE: (TEXT, message),
    }
    return object_schema("", {**common, **fields})


ERROR_SCHEMA = {
    **object_schema(
        "Error",
        {
            STATUS: ({"const": "error"}, ERROR[STATUS]),
            CODE: (INTEGER, ERROR[CODE]),
            MESSAGE: (TEXT, ERROR[MESSAGE]),
            PARAMETERS: (
                {"type": "object", "additionalProperties": {"type": "array", "items": TEXT}},
                ERROR[PARAMETERS],
            ),
            REASON: ({"const": REPLICA}, ERROR[REASON]),
        },
        required=(STATUS, CODE, MESSAGE),
    ),
    "examples": [error_body(404, "there is no such account")],
}


@dataclass(frozen=True)
class Description:
    """One operation of the OpenAPI document.

    Attributes:
        rules: What a caller must know beside parameters and fields; an empty line separates paragraphs.
        refusals: The statuses of its error answers; with a token also 429.
        scope: The scope that the token needs.
        headers: The headers that only some answers of this operation carry; the document describes them.
        extra: Keys of the operation object that replace the generated ones or follow them.
    """

    name: str
    area: str
    summary: str
    rules: str
    schema: Mapping[str, object]
    parameters: Sequence[Parameter[Any]] = ()
    refusals: Sequence[int] = ()
    needs_token: bool = True
    scope: Scope = Scope.READ
    headers: Sequence[str] = ()
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def operation(self) -> dict[str, Any]:
        """The operation object."""
        responses: dict[str, Any] = {"200": {**_response("Success.", self.schema), "headers": self.headers}}
        for status in sorted({*self.refusals, *((429,) if self.needs_token else ())}):
            responses[str(status)] = _response(_REFUSALS[status], ERROR_SCHEMA)
        operation: dict[str, Any] = {
            "operationId": self.name,
            "tags": [self.area],
            "summary": self.summary,
            "description": self.rules,
            "parameters": [parameter.described for parameter in self.parameters],
            "responses": responses,
            "security": [{"oauth2": [self.scope.value]}, {"bearer": []}] if self.needs_token else [],
        }
        return {**operation, **self.extra}


def row_schema(name: str, columns: Sequence[Column]) -> dict[str, object]:
    """Return the schema of a row of the list of that name."""
    fields = {}
    for column in columns:
        schema = _SCHEMAS[column.kind]
        if column.nullable and "type" in schema:
            schema = {**schema, "type": [schema["type"], "null"]}
        fields[column.name] = (schema, column.doc)
    return object_schema(row_title(name), fields)


def row_title(name: str) -> str:
    """Return the title of the schema of a row of the list of that name."""
    return "".join(part.capitalize() for part in (*name.split("_"), "row"))


def envelope_schema(row: Mapping[str, object], *, announces_total: bool) -> dict[str, object]:
    """Return the schema of a page of rows."""
    numbers = (CURRENT_PAGE, TOTAL, PER_PAGE, LAST_PAGE) if announces_total else ()
    rows = ({"type": "array", "items": dict(row)}, ENVELOPE[ROWS])
    return object_schema("", {ROWS: rows, **{name: (INTEGER, ENVELOPE[name]) for name in numbers}})


def _response(description: str, schema: Mapping[str, object]) -> dict[str, object]:
    return {"description": description, "content": {"application/json": {"schema": dict(schema)}}}
