"""Parts of a slice: one list per window and value of a filter, each read in one page, in smaller windows, or walked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from seller_platform.client.decoding.pages import Page, Row
from seller_platform.client.lists.pagination import ReadResult, holds_the_list, walk
from seller_platform.client.lists.prefetch import PageFetcher
from seller_platform.client.lists.row_sink import RowSink
from seller_platform.contract import Window
from seller_platform.contract.list_query import ListQuery

_FILL = 0.9  # of a page: days are not alike, so windows are planned with room


@dataclass(frozen=True)
class SliceAttempt:
    """One attempt to read a slice, and what else was found in it."""

    outcome: ReadResult
    notes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ListPart:
    """One list of a slice.

    Attributes:
        query: Asks for its first page.
        tags: What the rows are tagged with.
    """

    query: ListQuery
    tags: tuple[str | None, ...] = ()


class WindowReader:
    """Reads parts of one slice into its sink.

    Args:
        query: Asks for the first page of the whole slice, unfiltered.

    Attributes:
        pages: Pages read in the attempt under way.
    """

    def __init__(self, fetcher: PageFetcher, query: ListQuery, sink: RowSink) -> None:
        self.fetcher, self.query, self.sink = fetcher, query, sink
        self.pages = 0
        places = [number for number, column in enumerate(query.dataset.columns) if column.key]
        self._key: Callable[[Row], object] | None = itemgetter(*places) if places else None

    def attempt(self, windows: Sequence[Window | None]) -> SliceAttempt:
        """Read every part of the slice: the list itself, or one for each value of a filter that must be given."""
        self.pages = 0
        split_by = self.query.dataset.split_by
        queries = (
            replace(self.query, window=window, value=value)
            for value in (split_by.values if split_by else (None,))
            for window in windows
        )
        return SliceAttempt(self.read_all([ListPart(query) for query in queries]))

    def read_all(self, parts: Sequence[ListPart], firsts: Iterable[Page] | None = None) -> ReadResult:
        """Read the parts one after the other.

        Args:
            firsts: The first page of each part; without them they are fetched ahead.
        """
        result = ReadResult()
        if firsts is None:
            firsts = self.fetcher.each(part.query for part in parts)
        for part, first in zip(parts, firsts, strict=True):
            result += self._read(part, first)
        return result

    def _read(self, part: ListPart, first: Page) -> ReadResult:
        if holds_the_list(first):
            self._write(part, first)
            duplicates = len(first.rows) - len(set(map(self._key, first.rows))) if self._key else 0
            return ReadResult(len(first.rows), first.total, duplicate_keys=duplicates)
        smaller = self._smaller(part, first)
        if not smaller:
            return walk(self.fetcher, part.query, first, lambda page: self._write(part, page))
        outcome = self.read_all(smaller)
        found = outcome.rows if outcome.announced is None else outcome.announced
        outcome = replace(outcome, announced=first.total)
        if found != first.total:
            return outcome.doubted(f"{first.total} rows were announced for the whole window, {found} for its parts")
        return outcome

    def _smaller(self, part: ListPart, first: Page) -> list[ListPart]:
        """Return parts of fewer days that fit one page each, where that takes no more requests than two walks do."""
        size, window = len(first.rows), part.query.window
        if window is None or not part.query.dataset.is_divisible or not first.total or not size or first.total <= size:
            return []
        days = int(_FILL * size / (first.total / window.days))
        if not days or -(-window.days // days) > 2 * -(-first.total // size):
            return []
        return [replace(part, query=replace(part.query, window=smaller)) for smaller in window.split(days)]

    def _write(self, part: ListPart, page: Page) -> None:
        self.pages += 1
        self.sink.write(page.rows, tags=part.tags, extras=page.extras, page=self.pages)
