"""Reads the parts of a slice in one page, in smaller windows, or page by page.

A part is a list of one window and one value of a filter.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter

from seller_platform.client.decoding.known_pages import LateRows
from seller_platform.client.decoding.pages import Page, Row, decoded
from seller_platform.client.lists.pagination import KeysOfPages, ReadResult, holds_the_list, is_short, read_pages
from seller_platform.client.lists.prefetch import PageFetcher
from seller_platform.client.lists.row_defects import RowDefects
from seller_platform.client.lists.row_sink import PageMemory, RowSink
from seller_platform.contract import Window
from seller_platform.contract.list_query import ListQuery
from seller_platform.counts import count_of

_FILL = 0.9
"""How full a page may be by plan: some days have more rows than others."""


@dataclass(frozen=True)
class SliceAttempt:
    """One attempt to read a slice, and the notes for its receipt."""

    result: ReadResult
    notes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ListPart:
    """One list of a slice.

    Attributes:
        query: Requests the first page.
        tags: The values of the dataset's tag columns in its rows.
    """

    query: ListQuery
    tags: tuple[str | None, ...] = ()


class WindowReader:
    """Reads parts of one slice into its sink.

    Args:
        query: Requests the first page of the whole slice, unfiltered.
        memory: Pages of an earlier reading; None where every page is decoded.

    Attributes:
        pages: Pages read in the attempt under way.
        defects: Its rows without their whole key, or with replaced text.
        follows_links: Whether pages are requested of the moment that the upstream links to.
    """

    def __init__(self, fetcher: PageFetcher, query: ListQuery, sink: RowSink, memory: PageMemory | None) -> None:
        self.fetcher, self.query, self.sink, self._memory = fetcher, query, sink, memory
        self.pages, self.defects, self.follows_links = 0, RowDefects(query.dataset), True
        key = query.dataset.key_positions
        self._keys: KeysOfPages = {}
        self._key: Callable[[Row], object] | None = itemgetter(*key) if key else None

    def restart(self) -> None:
        """Forget what was read so far."""
        self.pages = 0
        self.defects = RowDefects(self.query.dataset)
        self.sink.restart()

    def attempt(self, windows: Sequence[Window | None]) -> SliceAttempt:
        """Read every part of the slice: the list, or one per value of a required filter."""
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
            firsts = self.fetcher.each(map(attrgetter("query"), parts), as_firsts=True)
        for part, first in zip(parts, firsts, strict=True):
            result += self._read(part, first)
        return result

    def _read(self, part: ListPart, first: Page) -> ReadResult:
        if not self.follows_links:
            first = replace(first, as_of=None)
        # The pages of one moment are read once, so that smaller windows would take more requests.
        smaller = [] if first.as_of or holds_the_list(first) else self._smaller(part, first)
        if not smaller:
            first = decoded(first)
            if holds_the_list(first):
                duplicates = self._duplicates(first.rows)
                self._write(part, first, duplicates)
                return ReadResult(len(first.rows), first.total, duplicate_keys=duplicates)
            return read_pages(
                self.fetcher,
                part.query,
                first,
                lambda page: self._write(part, page),
                keys=self._keys,
            )
        result = self.read_all(smaller)
        total = result.rows if result.announced is None else result.announced
        result = replace(result, announced=first.total)
        if total != first.total and result.rows == total:
            return result.doubted(
                f"{count_of(first.total or 0, 'row', 'was')} announced for the whole window, {total} for its parts"
            )
        return result

    def _smaller(self, part: ListPart, first: Page) -> list[ListPart]:
        """Return parts of fewer days that fit one page each.

        There are none where they would take more requests than reading all pages twice.
        """
        size, window = len(first.rows), part.query.window
        if is_short(first, part.query):
            return []
        if window is None or not part.query.dataset.is_divisible or not first.total or not size or first.total <= size:
            return []
        days = int(_FILL * size / (first.total / window.days))
        if not days or -(-window.days // days) > 2 * -(-first.total // size):
            return []
        return [replace(part, query=replace(part.query, window=smaller)) for smaller in window.split(days)]

    def _duplicates(self, rows: Sequence[Row]) -> int:
        """Return how many rows of a page have the key of another row."""
        if isinstance(rows, LateRows):
            return rows.facts.duplicate_keys
        return len(rows) - len(set(map(self._key, rows))) if self._key else 0

    def _write(self, part: ListPart, page: Page, duplicates: int | None = None) -> None:
        self.pages += 1
        rows = page.rows
        if self._memory is not None and isinstance(rows, LateRows):
            self._memory.write_late(rows.key, rows.body, rows.decode, tags=part.tags, page=self.pages)
            return
        defects = self.defects.count
        self.defects.add(rows, page.defects, page=self.pages)
        self.sink.write(rows, tags=part.tags, extras=page.extras, page=self.pages)
        if self._memory is not None and page.key and self.defects.count == defects:
            duplicates = self._duplicates(rows) if duplicates is None else duplicates
            self._memory.remember(page.key, duplicate_keys=duplicates, unknown_fields=page.unknown_fields)
