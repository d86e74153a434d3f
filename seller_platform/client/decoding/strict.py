"""Strict decoders: decode pages that spell every row in the same way."""

from collections.abc import Mapping
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


class StrictDecoder:
    """Decodes the rows of pages of one shape; those of another raise `msgspec.ValidationError`."""

    def __init__(self, columns: tuple[Column, ...], day: str | None, shape: Shape) -> None:
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for column in columns:
            kind = _TYPES[column.kind]
            # A row without its day has no slice.
            type_ = kind if column.name == day else kind | None
            may_lack = not shape.is_complete and column.name != day
            fields.append((column.name, type_, None) if may_lack else (column.name, type_))
        sent_as = dict(zip(map(attrgetter("name"), columns), shape.fields, strict=True))
        row = msgspec.defstruct("Row", fields, rename=sent_as, forbid_unknown_fields=True, gc=False, kw_only=True)
        self._is_keyed = shape.container == KEYED
        rows: Any = dict[str, row] if self._is_keyed else list[row]  # type: ignore[valid-type]
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(rows)

    def decode(self, rows: memoryview) -> list[tuple[Any, ...]]:
        """Return the values of the rows, in the order of the columns.

        Raises:
            msgspec.ValidationError: They are of another shape.
        """
        sent = self._decoder.decode(rows)
        return list(map(msgspec.structs.astuple, sent.values() if self._is_keyed else sent))


@lru_cache(256)
def strict_decoder(columns: tuple[Column, ...], day: str | None, shape: Shape) -> StrictDecoder | None:
    """Return the decoder of a shape; None where some column has no strict type."""
    if not _TYPES.keys() >= set(map(attrgetter("kind"), columns)):
        return None
    return StrictDecoder(columns, day, shape)
