"""Reads lists split by a filter, value by value, and compares their sum with the unfiltered list.

Where the unfiltered list merges rows of equal keys, its total lies between the largest part's and the sum of all. An
upstream may ignore the filter. Then each part is the whole list, and the unfiltered list is stored in place of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from seller_platform.client.decoding.pages import Page
from seller_platform.client.lists.reader import ListReader, ReadResult, contradiction_of, is_full
from seller_platform.contract import SplitFilter, Window
from seller_platform.counts import count_of

_FEW_ROWS = 5
"""By how many rows, beside one in a hundred, a list may change between two requests for it."""

_Counts = tuple[int | None, ...]
"""The totals of the unfiltered list and of each part."""


class SplitListReader:
    """Reads a slice once for each value of a filter, if the upstream obeys it."""

    def __init__(self, reader: ListReader, split_by: SplitFilter) -> None:
        self._reader, self._query, self._split_by = reader, reader.query, split_by
        # Only the total is needed, so the page is as small as possible.
        self._whole = replace(reader.query, per_page=min(reader.query.dataset.page_sizes, default=None))
        self._ignored: _Counts | None = None
        self._wrong: _Counts | None = None

    def read(self, windows: Sequence[Window | None]) -> ReadResult:
        """Read the unfiltered list's total, then every value's list, and compare."""
        whole = self._reader.fetcher.one(self._whole)
        if whole.total and not whole.rows:
            whole = self._reader.fetcher.one(self._whole)
        if whole.total is not None and not whole.rows and (whole.last_page or 0) <= 1:
            return ReadResult(announced=whole.total)
        firsts: list[Page] = []
        if len(windows) == 1:
            for value in self._split_by.values:
                query = replace(self._query, window=windows[0], value=value)
                firsts += self._reader.fetcher.each([query])
            counts = (whole.total, *map(attrgetter("total"), firsts))
            self._ignored = counts if self._ignores(whole, firsts) else None
        if self._ignored is not None:
            return self._unfiltered(windows, self._ignored)
        results = []
        for number, value in enumerate(self._split_by.values):
            queries = [replace(self._query, window=window, value=value) for window in windows]
            results.append(self._reader.read_all(queries, firsts[number : number + 1]))
        return self._compared(whole, results, windows).contradicted(contradiction_of(whole, self._whole))

    def _ignores(self, whole: Page, firsts: Sequence[Page]) -> bool:
        """Whether the lists of all values are about as long as the unfiltered one, and share most of its rows.

        A merged row of the unfiltered list is the sum of those of all values, so it is equal to each of them only where
        the filter is ignored, or where they are zero.
        """
        sizes = [len(each.rows) if each.total is None else each.total for each in (whole, *firsts)]
        if not whole.rows or max(sizes) - min(sizes) > _FEW_ROWS + sizes[0] // 100:
            return False
        return 2 * len(set(whole.rows).intersection(*map(attrgetter("rows"), firsts))) >= len(whole.rows)

    def _compared(self, whole: Page, results: Sequence[ReadResult], windows: Sequence[Window | None]) -> ReadResult:
        """Judge whether the parts add up to the unfiltered list, which may have changed meanwhile."""
        result = sum(results, start=ReadResult())
        total = self._size(whole)
        counts = [part.rows for part in results]
        if total is None or self._fits(total, total, counts):
            is_wrong = whole.total not in (None, total)
            return replace(result, announced=whole.total) if is_wrong else result
        surplus = sum(abs(part.rows - (part.announced or part.rows)) for part in results)
        if surplus and self._fits(total - surplus, total + surplus, counts):
            # The parts contradict their own totals, which explains why these do not add up.
            return replace(result, announced=whole.total)
        after = self._size(self._reader.fetcher.one(self._whole))
        if after is not None and after != total:
            if self._fits(min(total, after), max(total, after), counts):
                return replace(result, notes={**result.notes, "moved": {"before": total, "after": after}})
        # A filter that loses rows does so again; several faults of one load leave other numbers each time.
        elif self._wrong == (whole.total, *counts):
            return self._unfiltered(windows, self._wrong)
        self._wrong = (whole.total, *counts)
        doubt = f"{count_of(total, 'row', 'was')} announced in all, {sum(counts)} by {self._split_by.parameter}"
        return replace(result, announced=whole.total, doubt=result.doubt or doubt)

    def _size(self, whole: Page) -> int | None:
        """Return how many rows the unfiltered list has.

        The rows of a page that is not full are right where its total is wrong; without a total, more may follow.
        """
        return whole.total if whole.total is None or is_full(whole, self._whole) else len(whole.rows)

    def _fits(self, least: int, most: int, counts: Sequence[int]) -> bool:
        """Whether parts of so many rows may be a list whose total lay between two numbers meanwhile."""
        return (max(counts) if self._split_by.is_merged else sum(counts)) <= most and least <= sum(counts)

    def _unfiltered(self, windows: Sequence[Window | None], counts: _Counts) -> ReadResult:
        """Read the unfiltered list; its rows have no tag."""
        self._reader.restart()
        result = self._reader.read_all([replace(self._query, window=window) for window in windows])
        ignored = dict(zip(("unfiltered", *self._split_by.values), counts, strict=True))
        return replace(result, notes={**result.notes, "facet_ignored": ignored})
