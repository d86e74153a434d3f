"""Lists split by a filter: read value by value and tagged, with the sum checked against the whole list."""

from collections.abc import Sequence
from dataclasses import replace

from seller_platform.client.decoding.pages import Page
from seller_platform.client.lists.pagination import ReadResult
from seller_platform.client.lists.windows import ListPart, SliceAttempt, WindowReader
from seller_platform.contract import Window


class SplitListReader:
    """Reads a slice once for each value of a filter, unless the upstream ignores the filter."""

    def __init__(self, reader: WindowReader) -> None:
        split_by = reader.query.dataset.split_by
        if split_by is None:
            raise ValueError(f"{reader.query.dataset.name} is not split by a filter")
        self._reader, self._split_by = reader, split_by
        self._unexplained: dict[str, int] | None = None
        self._is_ignored = self._is_proven = False

    def attempt(self, windows: Sequence[Window | None]) -> SliceAttempt:
        """Read the unfiltered list's total, then every value's list, and compare."""
        self._reader.pages = 0
        whole = self._whole(windows)
        if whole.total == 0 and not whole.rows:
            return SliceAttempt(ReadResult())
        if self._is_ignored:
            return self._unfiltered(windows)
        by_value = [[self._part(window, value) for window in windows] for value in self._split_by.values]
        firsts = [list(self._reader.first_pages(parts[:1])) for parts in by_value] if len(windows) == 1 else []
        if self._all_are_the_whole(whole, firsts):
            return self._ignored(whole.total, [first.total for (first,) in firsts], windows)
        outcomes = [
            self._reader.read_begun(zip(parts, firsts[number], strict=True)) if firsts else self._reader.read_all(parts)
            for number, parts in enumerate(by_value)
        ]
        if whole.total is None:
            return self._without_totals(outcomes, windows)
        return self._compared(whole.total, outcomes, windows)

    def _part(self, window: Window | None, value: str) -> ListPart:
        query = replace(self._reader.query, window=window, value=value)
        return ListPart(query, (value,) if self._split_by.tag else ())

    def _whole(self, windows: Sequence[Window | None]) -> Page:
        """Return page 1 of the unfiltered list, as small as it comes: only its total is wanted."""
        first, last = windows[0], windows[-1]
        query = self._reader.query
        smallest = min(query.dataset.page_sizes, default=None)
        window = Window(first.start, last.end) if first and last else None
        return self._reader.fetcher.one(replace(query, window=window, per_page=smallest))

    def _compared(self, total: int, outcomes: Sequence[ReadResult], windows: Sequence[Window | None]) -> SliceAttempt:
        """Judge whether the parts add up to the unfiltered total, or to one it had while they were read."""
        counts = [outcome.rows if outcome.announced is None else outcome.announced for outcome in outcomes]
        outcome, found = sum(outcomes, start=ReadResult()), sum(counts)
        if found == total:
            return SliceAttempt(_announcing(outcome, total))
        after = self._whole(windows).total
        if after is not None and after != total and min(total, after) <= found <= max(total, after):
            return SliceAttempt(_announcing(outcome, found), {"moved": {"before": total, "after": after}})
        told = {"unfiltered": total, **dict(zip(self._split_by.values, counts, strict=True))}
        if told == self._unexplained:
            return self._ignored(total, counts, windows)
        self._unexplained = told
        doubt = f"{total} rows were announced in all, {found} by {self._split_by.parameter}"
        return SliceAttempt(_announcing(outcome, total).doubted(doubt))

    def _without_totals(self, outcomes: Sequence[ReadResult], windows: Sequence[Window | None]) -> SliceAttempt:
        """Judge by rows counted: parts that are all of one size are each compared with the unfiltered list."""
        attempt = SliceAttempt(_announcing(sum(outcomes, start=ReadResult()), None))
        counts = [outcome.rows for outcome in outcomes]
        if self._is_proven or len(set(counts)) > 1 or not counts[0]:
            return attempt
        ignored = self._ignored(None, counts, windows)
        if ignored.outcome.rows == counts[0]:
            return ignored
        self._is_ignored, self._is_proven = False, True
        self._reader.sink.restart()
        return self.attempt(windows)

    def _all_are_the_whole(self, whole: Page, firsts: Sequence[Sequence[Page]]) -> bool:
        return bool(whole.total and firsts) and all(first.total == whole.total for (first,) in firsts)

    def _ignored(
        self, total: int | None, counts: Sequence[int | None], windows: Sequence[Window | None]
    ) -> SliceAttempt:
        """Read the unfiltered list, because the filter does not split it; its rows carry no tag."""
        self._is_ignored = True
        self._note = {"unfiltered": total, **dict(zip(self._split_by.values, counts, strict=True))}
        return self._unfiltered(windows)

    def _unfiltered(self, windows: Sequence[Window | None]) -> SliceAttempt:
        self._reader.sink.restart()
        self._reader.pages = 0
        tags = (None,) if self._split_by.tag else ()
        query = self._reader.query
        outcome = self._reader.read_all([ListPart(replace(query, window=window), tags) for window in windows])
        return SliceAttempt(outcome, {"facet_ignored": self._note})


def _announcing(outcome: ReadResult, announced: int | None) -> ReadResult:
    return ReadResult(outcome.rows, announced, outcome.doubts, outcome.duplicate_keys)
