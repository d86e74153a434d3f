"""Recognizes pages that were decoded before, by a digest of the bytes of their rows.

The counts of a page, which change with the list, stand beside its rows and are read from each answer.
"""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from seller_platform.client.decoding.strict import COUNTS, Envelope, envelope_of
from seller_platform.client.http.responses import ERROR_FIELDS
from seller_platform.contract import Dataset, Window
from seller_platform.contract.wire import ROWS

_VERSION = 1
"""Raise it whenever the same bytes are decoded to other rows."""

_ERRORS: list[tuple[str, Any, None]] = [(name, Any, None) for name in ERROR_FIELDS]
_BESIDE_ROWS: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
    msgspec.defstruct("BesideRows", [(ROWS, list[None]), *COUNTS, *_ERRORS])
)
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True)
class CutBody:
    """The body of a page, cut at the array of its rows.

    Attributes:
        rows: The bytes from the first bracket of the body to the last. Whether they are one array is not known.
    """

    rows: memoryview
    _beside: Any

    @classmethod
    def of(cls, body: bytes) -> "CutBody | None":
        """Cut a body; return None if something else than the rows has brackets, or the rest is no envelope."""
        first, last = body.find(b"["), body.rfind(b"]")
        if first < 0 or last < first:
            return None
        try:
            # Whatever array takes the place of this one, the body stays valid JSON.
            beside = _BESIDE_ROWS.decode(body[:first] + b"[]" + body[last + 1 :])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return cls(memoryview(body)[first : last + 1], beside)

    def count(self) -> int | None:
        """Return how many rows there are; None if the bytes of the rows are not one array."""
        try:
            return len(_ARRAY.decode(self.rows))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def envelope(self) -> Envelope:
        """Return the counts beside the rows.

        Raises:
            ErrorAnswerError: An error stands beside them.
        """
        return envelope_of(self._beside)


class PageKeys:
    """Computes the keys of pages: equal for pages whose rows are the same in the warehouse.

    A key depends on everything that the decoded rows depend on: the bytes, the columns, the days that were asked for,
    the clocks of the zone on these days, the filter, and the version of the decoder.

    Args:
        slice_value: The value of the slice column in rows that carry no day of their own.
    """

    def __init__(self, dataset: Dataset, zone: ZoneInfo, slice_value: object) -> None:
        columns = [(column.name, column.kind, column.aliases, column.key) for column in dataset.columns]
        self._slice = repr((_VERSION, dataset.name, dataset.day, columns, zone.key, str(slice_value)))
        self._zone = zone

    def key(self, rows: memoryview, window: Window | None, value: str | None) -> bytes:
        """Return the key of a page.

        Args:
            window: The days that were asked for.
            value: The value of the filter that was asked for.
        """
        clocks = []
        if window is not None:
            days = (window.start + timedelta(days=number) for number in range(window.days + 1))
            clocks = [datetime.combine(day, time(), self._zone).utcoffset() for day in days]
        return xxh3_128_digest(rows, xxh3_64_intdigest(repr((self._slice, str(window), clocks, value))))
