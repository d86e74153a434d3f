"""The types of answers that several endpoints have: rows, pages, and what was done."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from seller_platform.contract import Column, Kind
from seller_platform.contract.wire import CURRENT_PAGE, LAST_PAGE, PER_PAGE, ROWS, TOTAL
from seller_platform.service.http.parameters import Parameter, about

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
