"""Strict decoders: decode pages that spell every row in the same way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any

import msgspec

from seller_platform.client.decoding.envelopes import ARRAY, KEYED
from seller_platform.client.decoding.values import LARGEST_BIGINT, LEAST_BIGINT
from seller_platform.contract import Column, Kind

# JSON columns have no strict type: their text is kept as it was sent.
_TYPES: Mapping[Kind, Any] = {
    Kind.TEXT: str,
    Kind.INTEGER: Annotated[int, msgspec.Meta(ge=LEAST_BIGINT, le=LARGEST_BIGINT)],
    Kind.MONEY: Decimal,
    Kind.NUMBER: Decimal,
    Kind.BOOLEAN: bool,
    Kind.DATE: str,
    Kind.TIMESTAMP: str,
}


Decode = Callable[[memoryview], list[tuple[Any, ...]]]
"""Returns the values of rows, in the order of the columns."""


@dataclass(frozen=True)
class Shape:
    """How an upstream spells a page.

    Attributes:
        fields: The name of each column on the wire.
        container: Where the rows are.
        is_complete: Whether each row has every field, though it may be null.
    """

    fields: tuple[str, ...]
    container: str = ARRAY
    is_complete: bool = True


@lru_cache(256)
def strict_decoder(columns: tuple[Column, ...], day: str | None, shape: Shape) -> Decode | None:
    """Return the decoder of a shape; None where some column has no strict type.

    It raises `msgspec.ValidationError` for rows of another shape.
    """
    if not _TYPES.keys() >= set(map(attrgetter("kind"), columns)):
        return None
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for column in columns:
        # A row without its day has no slice.
        kind = _TYPES[column.kind] if column.name == day else _TYPES[column.kind] | None
        may_lack = not shape.is_complete and column.name != day
        fields.append((column.name, kind, None) if may_lack else (column.name, kind))
    sent_as = dict(zip(map(attrgetter("name"), columns), shape.fields, strict=True))
    row = msgspec.defstruct("Row", fields, rename=sent_as, forbid_unknown_fields=True, gc=False, kw_only=True)
    rows: Any = dict[str, row] if shape.container == KEYED else list[row]  # type: ignore[valid-type]
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(rows)

    def decode(sent: memoryview) -> list[tuple[Any, ...]]:
        decoded = decoder.decode(sent)
        return list(map(msgspec.structs.astuple, decoded.values() if shape.container == KEYED else decoded))

    return decode
