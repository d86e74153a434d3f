"""Parts of a slice: one list per window and value of a filter, each read in one page, in smaller windows, or walked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from seller_platform.client.decoding.pages import Page, PageDecoder, Row
from seller_platform.client.lists.pagination import ListQuery, ReadResult, holds_the_list, walk
from seller_platform.client.lists.prefetch import PageFetcher
from seller_platform.client.lists.row_sink import RowSink
from seller_platform.contract import Account, Dataset, Window

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
        value: Of the filter that splits the dataset; None for the unfiltered list.
        tags: What the rows are tagged with.
    """

    window: Window | None
    value: str | None = None
    tags: tuple[str | None, ...] = ()


class WindowReader:
    """Reads parts of one slice into its sink.

    Attributes:
        pages: Pages read in the attempt under way.
    """

    def __init__(
        self, fetcher: PageFetcher, dataset: Dataset, account: Account, decoder: PageDecoder, sink: RowSink
    ) -> None:
        self.fetcher, self.dataset, self.sink = fetcher, dataset, sink
        self.pages = 0
        self._account, self._decoder = account, decoder
        places = [number for number, column in enumerate(dataset.columns) if column.key]
        self._key: Callable[[Row], object] | None = itemgetter(*places) if places else None

    def attempt(self, windows: Sequence[Window | None]) -> SliceAttempt:
        """Read every part of the slice: the list itself, or one for each value of a filter that must be given."""
        self.pages = 0
        values = self.dataset.split_by.values if self.dataset.split_by else (None,)
        return SliceAttempt(self.read_all([ListPart(window, value) for value in values for window in windows]))

    def read_all(self, parts: Sequence[ListPart]) -> ReadResult:
        """Read the parts one after the other; their first pages are fetched ahead."""
        return self.read_begun(zip(parts, self.first_pages(parts), strict=True))

    def read_begun(self, begun: Iterable[tuple[ListPart, Page]]) -> ReadResult:
        """Read parts whose first pages are there."""
        return sum((self._read(part, first) for part, first in begun), start=ReadResult())

    def first_pages(self, parts: Iterable[ListPart]) -> Iterable[Page]:
        return self.fetcher.each(self.request(part).page(1) for part in parts)

    def request(self, part: ListPart, *, smallest_page: bool = False) -> ListQuery:
        """Return the list that a part is."""
        params = dict(self.dataset.parameters) | self._account.selection
        if part.window is not None:
            params |= {"start_date": part.window.start.isoformat(), "end_date": part.window.last_day.isoformat()}
        if self.dataset.page_sizes:
            params["per_page"] = str((min if smallest_page else max)(self.dataset.page_sizes))
        if self.dataset.split_by and part.value is not None:
            params[self.dataset.split_by.parameter] = part.value
        return ListQuery(self.dataset, params, self._decoder.within(part.window) if part.window else self._decoder)

    def _read(self, part: ListPart, first: Page) -> ReadResult:
        if holds_the_list(first):
            self._write(part, first)
            return ReadResult(len(first.rows), first.total, duplicate_keys=self._duplicate_keys(first))
        if smaller := self._smaller(part, first):
            return self._read_smaller(smaller, first)
        return walk(self.fetcher, self.request(part), first, lambda page: self._write(part, page))

    def _smaller(self, part: ListPart, first: Page) -> list[ListPart]:
        """Return parts of fewer days that fit one page each, where that takes no more requests than two walks do."""
        size, window = len(first.rows), part.window
        if window is None or not self.dataset.is_divisible or not first.total or not size or first.total <= size:
            return []
        days = int(_FILL * size / (first.total / window.days))
        if not days or -(-window.days // days) > 2 * -(-first.total // size):
            return []
        return [ListPart(smaller, part.value, part.tags) for smaller in window.split(days)]

    def _read_smaller(self, parts: Sequence[ListPart], whole: Page) -> ReadResult:
        outcome = self.read_all(parts)
        found = outcome.rows if outcome.announced is None else outcome.announced
        outcome = ReadResult(outcome.rows, whole.total, outcome.doubts, outcome.duplicate_keys)
        if found != whole.total:
            return outcome.doubted(f"{whole.total} rows were announced for the whole window, {found} for its parts")
        return outcome

    def _duplicate_keys(self, page: Page) -> int:
        return len(page.rows) - len(set(map(self._key, page.rows))) if self._key else 0

    def _write(self, part: ListPart, page: Page) -> None:
        self.pages += 1
        self.sink.write(page.rows, tags=part.tags, extras=page.extras, page=self.pages)
