"""Describes one operation of the API: its parameters, its body, its answers, and the types that several have."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request

from seller_platform.contract import Column, Kind
from seller_platform.contract.tokens import Scope
from seller_platform.contract.wire import CURRENT_PAGE, LAST_PAGE, PER_PAGE, ROWS, TOTAL
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
