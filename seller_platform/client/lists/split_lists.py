"""Reads lists split by a filter, value by value, and compares their sum with the whole.

Where the unfiltered list merges rows of equal keys, its total lies between the largest part's and the sum of all.

An upstream may ignore the filter. Then each part is the whole list, and to store all parts would store each row several
times. Totals alone do not show it, for a list may change between two requests, and one answer may be wrong. So parts
that are about as long as the whole, and share rows, are not stored before a second reading has brought the same.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter

from seller_platform.client.decoding.pages import Page
from seller_platform.client.lists.pagination import ReadResult, is_short
from seller_platform.client.lists.windows import ListPart, SliceAttempt, WindowReader
from seller_platform.contract import Window
from seller_platform.counts import count_of

_FEW_ROWS = 5
"""By how many rows, beside one in a hundred, a list may change between two requests for it."""

_Counts = dict[str, int | None]
"""Rows of the unfiltered list, and of the list of each value."""


class SplitListReader:
    """Reads a slice once for each value of a filter, if the upstream obeys it."""

    def __init__(self, reader: WindowReader) -> None:
        split_by = reader.query.dataset.split_by
        if split_by is None:
            raise ValueError(f"{reader.query.dataset.name} is not split by a filter")
        self._reader, self._query, self._split_by = reader, reader.query, split_by
        # Only the total is needed, so the page is as small as possible.
        self._whole = replace(reader.query, per_page=min(reader.query.dataset.page_sizes, default=None))
        self._count_names = ("unfiltered", *split_by.values)
        self._key = itemgetter(*reader.query.dataset.key_positions)
        self._firsts: list[Page] = []
        self._unexplained: _Counts | None = None
        self._ignored: _Counts | None = None
        self._is_proven = False

    def attempt(self, windows: Sequence[Window | None]) -> SliceAttempt:
        """Read the unfiltered list's total, then every value's list, and compare."""
        whole = self._reader.fetcher.one(self._whole)
        if whole.total and not whole.rows:
            whole = self._reader.fetcher.one(self._whole)
        if whole.total is not None and not whole.rows:
            return SliceAttempt(ReadResult(announced=whole.total))
        if self._ignored is not None:
            return self._unfiltered(windows, self._ignored)
        by_value = [
            [
                ListPart(replace(self._query, window=window, value=value), (value,) if self._split_by.tag else ())
                for window in windows
            ]
            for value in self._split_by.values
        ]
        firsts: list[Page] = []
        if len(windows) == 1:
            for parts in by_value:
                firsts += self._reader.fetcher.each([parts[0].query], as_firsts=True)
            # Smaller windows follow on the whole one: its first pages show best what the parts share.
            self._firsts = firsts
            if self._ignores(whole, firsts):
                return self._unfiltered(windows, self._counts(whole.total, list(map(attrgetter("total"), firsts))))
        results = [
            self._reader.read_all(parts, [firsts[number]] if firsts else None) for number, parts in enumerate(by_value)
        ]
        if whole.total is None:
            return self._without_totals(whole, results, windows)
        result = sum(results, start=ReadResult())
        counts = [part.rows if part.announced is None else part.announced for part in results]
        share_rows = self._share_rows(whole, counts)
        is_wrong = is_short(whole, self._whole) and whole.total != len(whole.rows) and not share_rows
        if is_wrong and self._distance(len(whole.rows), [part.rows for part in results]) == 0:
            # The unfiltered list contradicts its total, and has no other rows than its parts.
            return SliceAttempt(replace(result, announced=whole.total))
        return self._compared(whole.total, results, counts, windows, share_rows=share_rows)

    def _ignores(self, whole: Page, firsts: Sequence[Page]) -> bool:
        """Whether the upstream ignores the filter: each value has the rows of the unfiltered list.

        Equal totals alone do not say so: a first row may have come for another value meanwhile, and where rows are
        merged, each product may be sold in all channels each day.
        """
        size = len(firsts[0].rows)
        if any(first.total != whole.total or len(first.rows) != size for first in firsts):
            return False
        if whole.total is None and any(first.rows != firsts[0].rows for first in firsts):
            return False
        return bool(whole.rows) and all(first.rows[: len(whole.rows)] == whole.rows for first in firsts)

    def _share_rows(self, whole: Page, counts: Sequence[int]) -> bool:
        """Whether the filter may be ignored: the parts are about as long as the whole list, and share rows.

        A merged row of the unfiltered list is the sum of those of all values, so it is equal to each of them only where
        the filter is ignored, or where they are zero.
        """
        total = counts[0] if whole.total is None else whole.total
        if any(abs(count - total) > _FEW_ROWS + total // 100 for count in counts):
            return False
        if self._split_by.is_merged:
            shared = set(whole.rows).intersection(*(first.rows for first in self._firsts))
            return 2 * len(shared) >= len(whole.rows) > 0
        keys = [set(map(self._key, first.rows)) for first in self._firsts]
        return sum(map(len, keys)) > len(set().union(*keys))

    def _distance(self, total: int, counts: Sequence[int]) -> int:
        """Return how far a total of the unfiltered list is from what the rows of each value allow."""
        most = sum(counts)
        least = max(counts) if self._split_by.is_merged else most
        return max(least - total, total - most, 0)

    def _compared(
        self,
        total: int,
        results: Sequence[ReadResult],
        counts: Sequence[int],
        windows: Sequence[Window | None],
        *,
        share_rows: bool,
    ) -> SliceAttempt:
        """Judge whether the parts add up to the unfiltered total, which may have changed meanwhile."""
        result, filtered = sum(results, start=ReadResult()), sum(counts)
        if self._distance(total, counts) == 0:
            result = replace(result, announced=filtered)
            return SliceAttempt(result.doubted(f"equal rows by {self._split_by.parameter}") if share_rows else result)
        surplus = sum(abs(count - each.rows) for count, each in zip(counts, results, strict=True))
        if surplus and not share_rows and self._distance(total, [part.rows for part in results]) <= surplus:
            # The parts contradict their own totals, which explains why these do not add up.
            return SliceAttempt(replace(result, announced=filtered if result.rows == total else total))
        after = None if share_rows else self._reader.fetcher.one(self._whole).total
        if after is not None and after != total and self._explains(total, after, counts):
            return SliceAttempt(replace(result, announced=filtered), {"moved": {"before": total, "after": after}})
        unexplained = self._counts(total, counts)
        if unexplained == self._unexplained:
            return self._unfiltered(windows, unexplained)
        self._unexplained = unexplained
        doubt = f"{count_of(total, 'row', 'was')} announced in all, {filtered} by {self._split_by.parameter}"
        return SliceAttempt(replace(result, announced=total).doubted(doubt))

    def _explains(self, before: int, after: int, counts: Sequence[int]) -> bool:
        """Whether parts that were counted between two totals of the unfiltered list agree with one in between."""
        least = max(counts) if self._split_by.is_merged else sum(counts)
        return least <= max(before, after) and min(before, after) <= sum(counts)

    def _without_totals(
        self, whole: Page, results: Sequence[ReadResult], windows: Sequence[Window | None]
    ) -> SliceAttempt:
        """Judge by counted rows: parts of equal size that share rows are compared with the unfiltered list."""
        attempt = SliceAttempt(replace(sum(results, start=ReadResult()), announced=None))
        counts = [result.rows for result in results]
        if self._is_proven or self._split_by.is_merged or len(set(counts)) > 1 or not self._share_rows(whole, counts):
            return attempt
        unfiltered = self._unfiltered(windows, self._counts(None, counts))
        if unfiltered.result.rows == counts[0]:
            return unfiltered
        self._ignored, self._is_proven = None, True
        self._reader.restart()
        return self.attempt(windows)

    def _counts(self, total: int | None, counts: Sequence[int | None]) -> _Counts:
        return dict(zip(self._count_names, (total, *counts), strict=True))

    def _unfiltered(self, windows: Sequence[Window | None], counts: _Counts) -> SliceAttempt:
        """Read the unfiltered list, because the upstream ignores the filter; its rows have no tag."""
        self._ignored = counts
        self._reader.restart()
        tags = (None,) if self._split_by.tag else ()
        result = self._reader.read_all([ListPart(replace(self._query, window=window), tags) for window in windows])
        return SliceAttempt(result, {"facet_ignored": counts})
