"""Computes keys by which pages that were decoded before are recognized: a digest of the bytes of their rows.

The counts of a page, which change with the list, stand beside its rows and are read from each answer.
"""

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from xxhash import xxh3_64_intdigest, xxh3_128_digest

from seller_platform.client.decoding.envelopes import ARRAY, CutBody
from seller_platform.contract import Dataset, Window

_VERSION = 1
"""Raise it whenever the same bytes are decoded to other rows."""


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

    def key(self, cut: CutBody, window: Window | None, value: str | None) -> bytes | None:
        """Return the key of a page; None where its rows are no array.

        Args:
            window: The days that were asked for.
            value: The value of the filter that was asked for.
        """
        if cut.container != ARRAY:
            return None
        clocks = []
        if window is not None:
            days = (window.start + timedelta(days=number) for number in range(window.days + 1))
            clocks = [datetime.combine(day, time(), self._zone).utcoffset() for day in days]
        return xxh3_128_digest(cut.rows, xxh3_64_intdigest(repr((self._slice, str(window), clocks, value))))
