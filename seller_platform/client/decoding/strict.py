"""Strict decoders: decode pages that spell every row in the same way."""

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import msgspec

from seller_platform.client.decoding.values import LARGEST_BIGINT, LEAST_BIGINT
from seller_platform.client.http.responses import ERROR_FIELDS, check_no_error
from seller_platform.contract import Dataset, Kind
from seller_platform.contract.wire import CURRENT_PAGE, LAST_PAGE, PER_PAGE, ROWS, TOTAL

# JSON columns have no strict type: their text is kept as it was sent.
_TYPES: dict[Kind, Any] = {
    Kind.TEXT: str,
    Kind.INTEGER: Annotated[int, msgspec.Meta(ge=LEAST_BIGINT, le=LARGEST_BIGINT)],
    Kind.MONEY: Decimal,
    Kind.NUMBER: Decimal,
    Kind.BOOLEAN: bool,
    Kind.DATE: str,
    Kind.TIMESTAMP: str,
}
COUNTS = [(name, int | float | str | None, None) for name in (TOTAL, LAST_PAGE, CURRENT_PAGE, PER_PAGE)]
_ERRORS: list[tuple[str, Any, None]] = [(name, Any, None) for name in ERROR_FIELDS]
_counts_of, _errors_of = attrgetter(TOTAL, LAST_PAGE, CURRENT_PAGE, PER_PAGE), attrgetter(*ERROR_FIELDS)


class Envelope(NamedTuple):
    """The counts that a page carries beside its rows; None where one is missing."""

    total: int | None = None
    last_page: int | None = None
    current_page: int | None = None
    per_page: int | None = None


@dataclass(frozen=True)
class Shape:
    """How an upstream spells a page.

    Attributes:
        fields: The name of each column on the wire.
        rows: Where the rows are: in the array `data`, in the object `data` keyed by id, or in a bare array.
    """

    fields: tuple[str, ...]
    rows: str = "array"


class StrictDecoder:
    """Decodes pages of one shape; pages of another raise `msgspec.ValidationError`."""

    def __init__(self, dataset: Dataset, shape: Shape) -> None:
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        sent_as: dict[str, str] = {}
        for column, name in zip(dataset.columns, shape.fields, strict=True):
            kind = _TYPES[column.kind]
            # A row without its day has no slice; any other field may be absent.
            fields.append((column.name, kind) if column.name == dataset.day else (column.name, kind | None, None))
            sent_as[column.name] = name
        row = msgspec.defstruct("Row", fields, rename=sent_as, forbid_unknown_fields=True, gc=False, kw_only=True)
        self._is_bare, self._is_keyed = shape.rows == "bare", shape.rows == "keyed"
        rows: Any = dict[str, row] if self._is_keyed else list[row]  # type: ignore[valid-type]
        page: Any = rows if self._is_bare else msgspec.defstruct("Envelope", [(ROWS, rows), *COUNTS, *_ERRORS])
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(page)
        self._rows: msgspec.json.Decoder[Any] = msgspec.json.Decoder(rows)

    def decode(self, body: bytes) -> tuple[list[tuple[Any, ...]], Envelope]:
        """Return the rows of a page and its envelope.

        Raises:
            msgspec.ValidationError: The page is of another shape.
            ErrorAnswerError: The page carries an error.
        """
        page = self._decoder.decode(body)
        if self._is_bare:
            return list(map(msgspec.structs.astuple, page)), Envelope()
        envelope, rows = envelope_of(page), page.data.values() if self._is_keyed else page.data
        return list(map(msgspec.structs.astuple, rows)), envelope

    def decode_rows(self, rows: memoryview) -> list[tuple[Any, ...]]:
        """Return the rows of a page, given the bytes of their array.

        Raises:
            msgspec.ValidationError: The page is of another shape.
        """
        return list(map(msgspec.structs.astuple, self._rows.decode(rows)))


@lru_cache(256)
def strict_decoder(dataset: Dataset, shape: Shape) -> StrictDecoder | None:
    """Return the decoder of a shape; None where some column has no strict type."""
    if not _TYPES.keys() >= set(map(attrgetter("kind"), dataset.columns)):
        return None
    return StrictDecoder(dataset, shape)


def envelope_of(page: Any) -> Envelope:
    """Return the counts that a decoded page carries beside its rows, in any accepted spelling.

    Raises:
        ErrorAnswerError: An error stands beside them.
    """
    check_no_error(dict(zip(ERROR_FIELDS, _errors_of(page), strict=True)))
    counts: list[int | None] = []
    for sent in _counts_of(page):
        if isinstance(sent, str):
            text = sent.replace(",", "").strip()
            counts.append(int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None)
        else:
            is_count = sent is not None and sent >= 0 and sent == sent // 1 and sent <= LARGEST_BIGINT
            counts.append(int(sent) if is_count else None)
    return Envelope(*counts)
