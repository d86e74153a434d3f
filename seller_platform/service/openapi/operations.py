"""Describes the endpoints for the OpenAPI document, from the contract.

A schema with a title is in the document once, under that name, and referred to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seller_platform.contract import Column, Dataset, Kind
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

_SCHEMAS: Mapping[Kind, dict[str, object]] = {
    Kind.TEXT: {"type": "string"},
    Kind.INTEGER: {"type": "integer"},
    Kind.MONEY: {"type": "number"},
    Kind.NUMBER: {"type": "number"},
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.DATE: {"type": "string", "format": "date"},
    Kind.TIMESTAMP: {"type": "string", "format": "date-time"},
    Kind.JSON: {},
}

ERROR_SCHEMA = {
    "title": "Error",
    "type": "object",
    "required": [STATUS, CODE, MESSAGE],
    "properties": {
        STATUS: {"const": "error", "description": ERROR[STATUS]},
        CODE: {"type": "integer", "description": ERROR[CODE]},
        MESSAGE: {"type": "string", "description": ERROR[MESSAGE]},
        PARAMETERS: {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
            "description": ERROR[PARAMETERS],
        },
        REASON: {"const": REPLICA, "description": ERROR[REASON]},
    },
    "examples": [error_body(404, "there is no such account")],
}

_REFUSALS = {
    401: "The bearer token is missing, malformed, expired or revoked.",
    403: "The rows come from another service; change them there.",
    404: "What was asked for does not exist or is not the caller's.",
    409: "The report is not ready; where `Retry-After` is sent, it will be.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "A parameter is missing, unknown in value, out of range or contradictory. With the reason `replica` it asks "
    "for what was never read from the service that the rows come from.",
    503: "The store is away; try again later.",
}


@dataclass(frozen=True)
class Description:
    """One operation of the OpenAPI document.

    Attributes:
        rules: What a caller must know beside parameters and fields; an empty line separates paragraphs.
        refusals: The statuses of its error answers.
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
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def operation(self) -> dict[str, Any]:
        """The operation object."""
        responses: dict[str, Any] = {"200": _response("Success.", self.schema)}
        for status in self.refusals:
            responses[str(status)] = _response(_REFUSALS[status], ERROR_SCHEMA)
        operation: dict[str, Any] = {
            "operationId": self.name,
            "tags": [self.area],
            "summary": self.summary,
            "description": self.rules,
            "parameters": [parameter.described for parameter in self.parameters],
            "responses": responses,
            "security": [{"oauth2": []}, {"bearer": []}] if self.needs_token else [],
        }
        return {**operation, **self.extra}


def list_description(dataset: Dataset, parameters: Sequence[Parameter[Any]], rules: str) -> Description:
    """Return the operation that lists a dataset."""
    return Description(
        name=f"list_{dataset.name}",
        area=dataset.area,
        summary=f"List rows: {dataset.doc[0].lower()}{dataset.doc[1:]}",
        rules=rules,
        schema=envelope_schema(row_schema(dataset.name, dataset.columns), announces_total=dataset.announces_total),
        parameters=parameters,
        refusals=(401, 404, 422, 503),
    )


def row_schema(name: str, columns: Sequence[Column]) -> dict[str, object]:
    """Return the schema of a row of the list of that name."""
    properties: dict[str, object] = {}
    for column in columns:
        schema = _SCHEMAS[column.kind]
        if column.nullable and "type" in schema:
            schema = {**schema, "type": [schema["type"], "null"]}
        properties[column.name] = {**schema, "description": column.doc}
    return {"title": row_title(name), "type": "object", "required": list(properties), "properties": properties}


def row_title(name: str) -> str:
    """Return the title of the schema of a row of the list of that name."""
    return "".join(part.capitalize() for part in (*name.split("_"), "row"))


def envelope_schema(row: Mapping[str, object], *, announces_total: bool) -> dict[str, object]:
    """Return the schema of a page of rows."""
    properties: dict[str, object] = {ROWS: {"type": "array", "items": dict(row), "description": ENVELOPE[ROWS]}}
    if announces_total:
        properties |= {
            name: {"type": "integer", "description": ENVELOPE[name]}
            for name in (CURRENT_PAGE, TOTAL, PER_PAGE, LAST_PAGE)
        }
    return {"type": "object", "required": list(properties), "properties": properties}


def _response(description: str, schema: Mapping[str, object]) -> dict[str, object]:
    return {"description": description, "content": {"application/json": {"schema": dict(schema)}}}
