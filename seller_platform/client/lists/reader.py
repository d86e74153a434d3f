"""Reads the lists of one slice into its sink: each in one page, in smaller windows, or page by page.

A list ends with a page that brings no rows. Where a count, or a full last page, says that there are more rows than were
read, the next page is requested; without a total, a short page says so, too. So counts that contradict each other cost
no rows: the largest one wins, and the contradiction is noted.

Rows that add up to the announced total do not prove that the whole list was read. A row that is deleted from page 1
after it was read moves a row of page 2 there, which is missed; where another row is added at the end at the same time,
the total stays the same. So one reading of several pages is never certain: two must agree. An upstream may link each
page to the next with a moment that the list is pinned to. Then all pages are of that moment, and one reading is enough.
A single page that contradicts its total is requested again: with the same rows its total is wrong.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter

from seller_platform.client.decoding.pages import LateRows, Page, PageDecoder
from seller_platform.client.http.api import Answer, SellerApi
from seller_platform.client.http.concurrency import in_threads
from seller_platform.client.lists.row_defects import RowDefects
from seller_platform.client.lists.row_sink import RowSink
from seller_platform.contract import Source, Window
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import CONTRADICTION
from seller_platform.contract.wire import AS_OF
from seller_platform.counts import count_of
from seller_platform.errors import (
    ContractViolationError,
    RequestRefusedError,
    RowsMissingError,
    UnreadableBodyError,
    UpstreamError,
)

_FILL = 0.9
"""How full a page may be by plan: some days have more rows than others."""

_MOST_PAGES = 2_000
"""A list that goes on after so many pages, and after those that it announced, has no end."""

_NO_SUCH_PAGE = (400, 404, 410, 416, 422, None)
"""The statuses of an answer for a page that does not exist; None for a good one that has no rows."""


class WalkEndedError(Exception):
    """The upstream cannot read the list any more as it was at the moment that it is pinned to.

    It never leaves this floor: the list is read again.
    """


@dataclass(frozen=True)
class ReadResult:
    """The result of reading one list, or several.

    Attributes:
        announced: Rows that the list announced; None where it sends no total.
        doubt: Why the rows may not be the list as it was at one moment; None where they certainly are.
        duplicate_keys: Rows whose key another row has too.
    """

    rows: int = 0
    announced: int | None = 0
    doubt: str | None = None
    duplicate_keys: int = 0
    notes: Mapping[str, object] = field(default_factory=dict)

    def __add__(self, other: "ReadResult") -> "ReadResult":
        counts = (self.announced, other.announced)
        return ReadResult(
            self.rows + other.rows,
            None if counts[0] is None or counts[1] is None else counts[0] + counts[1],
            self.doubt or other.doubt,
            self.duplicate_keys + other.duplicate_keys,
            {**other.notes, **self.notes},
        )


@contextmanager
def naming(sku: str) -> Iterator[None]:
    """Add the product to the messages of errors that leave the block."""
    try:
        yield
    except UpstreamError as error:
        error.args = (str(error).replace(": ", f" of SKU {sku!r}: ", 1),)
        raise


class ListReader:
    """Reads lists of one slice into its sink. Pages are requested ahead in a few threads, and decoded in order.

    Args:
        query: Requests the first page of the whole slice, unfiltered.
        look_ahead: The most pages that are under way, or waiting to be decoded, at once.

    Attributes:
        requests: HTTP requests so far, retries included.
        body_bytes: Bytes of the bodies so far.
        unknown_fields: Fields of rows so far that the contract does not know.
        pages: Pages written in the attempt under way.
        unknown: Values of a required filter that the upstream does not know.
        defects: What is wrong with its rows.
        follows_links: Whether pages are requested of the moment that the upstream links to.
    """

    def __init__(
        self, api: SellerApi, decoder: PageDecoder, query: ListQuery, sink: RowSink, *, look_ahead: int
    ) -> None:
        self._api, self._decoder, self._look_ahead = api, decoder, look_ahead
        self.query, self.sink, self.follows_links = query, sink, True
        self.requests = self.body_bytes = 0
        self.unknown_fields: set[str] = set()
        # A ledger has no key, so the whole row is compared; equal rows cost a second reading.
        key = [number for number, column in enumerate(query.dataset.columns) if column.key]
        self._has_key, self._identity = bool(key), itemgetter(*key) if key else tuple
        self._keys_of_known: dict[bytes, list[int]] = {}
        self.restart()

    def restart(self) -> None:
        """Forget what was read so far."""
        self.pages = self.unknown = 0
        self.defects = RowDefects(self.query.dataset)
        self.sink.restart()

    def read(
        self, windows: Sequence[Window | None], value: str | None = None, firsts: Sequence[Page] = ()
    ) -> ReadResult:
        """Read every part of the slice one after the other: the list, or one per value of a required filter.

        Args:
            value: The value of a filter that is not required.
            firsts: The first page of each part; without them they are fetched ahead.

        Raises:
            ContractViolationError: A list has no end.
            WalkEndedError: The upstream had pinned a list to a moment, and answers no more pages of it.
        """
        split_by = self.query.dataset.split_by
        values = split_by.values if split_by and split_by.required else (value,)
        queries = [replace(self.query, window=window, value=each) for each in values for window in windows]
        return sum(map(self._read, queries, firsts or self._each(queries)), ReadResult())

    def _read(self, query: ListQuery, first: Page) -> ReadResult:
        if first.refusal is not None:
            self.unknown += 1
            self._write(query, first)
            return ReadResult(announced=None)
        if first.total and not first.rows:  # a fault, perhaps
            first = self.one(query)
        if not self.follows_links:
            first = replace(first, as_of=None)
        # The pages of one moment are read once, so that smaller windows would take more requests.
        smaller = [] if first.as_of else _smaller(query, first)
        if not smaller:
            if isinstance(first.rows, LateRows) and first.rows.facts is None:  # they were only counted
                first = replace(first.rows.page, as_of=first.as_of)
            return self._read_pages(query, first)
        result = sum(map(self._read, smaller, self._each(smaller)), ReadResult())
        total = result.rows if result.announced is None else result.announced
        if total != first.total and result.rows == total:
            announced = count_of(first.total or 0, "row", "was")
            doubt = f"{announced} announced for the whole window, {total} for its parts"
            result = replace(result, doubt=result.doubt or doubt)
        return with_contradiction(replace(result, announced=first.total), first, query)

    def _read_pages(self, query: ListQuery, first: Page) -> ReadResult:
        """Read a list page by page; those that its counts announce are fetched ahead."""
        pages, duplicates, query = _Pages(query, first, self._keys), 0, replace(query, as_of=first.as_of)
        ahead: Iterator[Page] = iter(())
        if pages.last_announced > 1:
            ahead = self._each(replace(query, page=number) for number in range(2, pages.last_announced + 1))
        page: Page | None = first
        while page is not None:
            if pages.add(page) or page is first:
                duplicates = self._write(query, page)
            elif pages.have_ended:
                break
            number = pages.count + 1
            page = next(ahead, None)
            if page is None and pages.expect_more:
                page = self.one(replace(query, page=number))
            if page is not None and page.refusal is not None:
                _check_end(page.refusal, query, is_announced=number <= (first.last_page or 1))
            if page is not None and page.rows and number > max(_MOST_PAGES, pages.last_announced):
                raise ContractViolationError(query.dataset.name, f"the list has no end: page {number - 1} has rows")
        if len(pages.rows) == 1 and pages.totals and pages.rows[0] != max(pages.totals):
            again = self.one(replace(query, as_of=None))
            pages.are_confirmed = (again.total, [*again.rows]) == (first.total, [*first.rows])
        return pages.result(duplicates)

    def _keys(self, page: Page) -> list[int]:
        """Return the hashes of the rows' keys. Those of known pages are computed once."""
        keys = self._keys_of_known.get(page.key or b"")
        if keys is None:
            keys = list(map(hash, map(self._identity, page.rows)))
            if isinstance(page.rows, LateRows):
                self._keys_of_known[page.key or b""] = keys
        return keys

    def _write(self, query: ListQuery, page: Page) -> int:
        """Write a page to the sink, and return how many of its rows have the key of another one."""
        self.pages += 1
        rows, tags = page.rows, (query.value,) if query.dataset.tags else ()
        if page.key and isinstance(rows, LateRows) and rows.facts:
            self.sink.write_late(page.key, rows.body, rows.decode, tags=tags, page=self.pages)
            return rows.facts.duplicate_keys
        is_plain = self.defects.add(rows, page.defects, page=self.pages)
        self.sink.write(rows, tags=tags, extras=page.extras, page=self.pages)
        duplicates = len(rows) - len(set(map(self._identity, rows))) if self._has_key else 0
        if page.key and is_plain:
            self.sink.remember(page.key, duplicate_keys=duplicates, unknown_fields=page.unknown_fields)
        return duplicates

    def one(self, query: ListQuery) -> Page:
        return self._page(*self._answered(query))

    def _each(self, queries: Iterable[ListQuery]) -> Iterator[Page]:
        for answered in in_threads(self._answered, queries, self._look_ahead):
            yield self._page(*answered)

    def _answered(self, query: ListQuery) -> tuple[ListQuery, Answer | UpstreamError]:
        try:
            return query, self._api.get(query.dataset.path, query.params)
        except UpstreamError as error:
            return query, error

    def _page(self, query: ListQuery, answer: Answer | UpstreamError, *, is_late: bool = True) -> Page:
        """Return the page of an answer; if its body cannot be read, request it again."""
        decode = partial(self._decoder.decode, query=query, is_late=is_late)
        is_product = query.dataset.source is Source.PRODUCT_LOOKUP
        with naming(query.value or "") if is_product else nullcontext():
            try:
                if isinstance(answer, UpstreamError):
                    self.requests += 1
                    raise answer
                self.requests += answer.requests
                try:
                    page = decode(answer.body)
                except UnreadableBodyError:
                    path, former = query.dataset.path, answer.body
                    answer, page = self._api.request("GET", path, query.params, decode=decode, former=former)
                    self.requests += answer.requests
            except (RequestRefusedError, RowsMissingError) as error:
                is_unknown = is_product and isinstance(error, RequestRefusedError) and error.status == 404
                if query.page == 1 and not is_unknown:
                    raise
                return Page((), refusal=error)
        self.body_bytes += len(answer.body)
        self.unknown_fields |= page.unknown_fields
        if isinstance(page.rows, LateRows) and page.rows.facts is None:
            page.rows.page_of = partial(self._late, query, answer)
        as_of = query.pin_of(answer.next_query)
        return replace(page, as_of=as_of) if as_of else page

    def _late(self, query: ListQuery, answer: Answer, body: bytes) -> Page:
        """Return a page that was only counted, decoded."""
        self.body_bytes -= len(body)
        return self._page(query, replace(answer, requests=0), is_late=False)


def _check_end(refusal: RequestRefusedError | RowsMissingError, query: ListQuery, *, is_announced: bool) -> None:
    """Return if a list may end where a page is refused: many upstreams refuse one that does not exist.

    Where pages are smaller than the first, a total announces more of them than there are.

    Raises:
        WalkEndedError: The list was pinned to a moment.
        RequestRefusedError: The page exists.
        RowsMissingError: The page exists.
    """
    status = refusal.status if isinstance(refusal, RequestRefusedError) else None
    if query.as_of and isinstance(refusal, RequestRefusedError) and (status == 410 or AS_OF in refusal.parameters):
        raise WalkEndedError(refusal.message)
    if query.as_of or is_announced or status not in _NO_SUCH_PAGE:
        raise refusal


def is_full(page: Page, query: ListQuery) -> bool:
    """Whether page 1 may be full. The upstream may use smaller pages than were asked for."""
    size = page.per_page or min(query.dataset.page_sizes, default=query.page_size or 0)
    return 0 < size <= len(page.rows)


def with_contradiction(result: ReadResult, first: Page, query: ListQuery) -> ReadResult:
    """Return the result with a note where the total and the last page contradict each other by page 1."""
    size, rows = first.per_page or query.page_size, len(first.rows)
    if first.total is None or not first.last_page or (first.total > rows and rows != size):
        return result
    contradiction = _contradiction([first.last_page], -(-first.total // rows) if rows else 0)
    return replace(result, notes={CONTRADICTION: contradiction, **result.notes}) if contradiction else result


def _contradiction(last_pages: Iterable[int], pages: int) -> str:
    for last_page in last_pages:
        if last_page != max(1, pages):
            by_rows = count_of(pages, "page")
            return f"the list has {count_of(last_page, 'page')} by its last_page, and {by_rows} by its rows"
    return ""


def _smaller(query: ListQuery, first: Page) -> list[ListQuery]:
    """Return lists of fewer days that fit one page each.

    There are none where they would take more requests than reading all pages twice.
    """
    size, window = len(first.rows), query.window
    if window is None or not query.dataset.is_divisible or not is_full(first, query):
        return []
    if not first.total or first.total <= size:
        return []
    days = int(_FILL * size / (first.total / window.days))
    if not days or -(-window.days // days) > 2 * -(-first.total // size):
        return []
    return [replace(query, window=smaller) for smaller in window.split(days)]


class _Pages:
    """The pages of one list so far, and what their counts say of further ones.

    Args:
        keys: Returns the hashes of the keys of a page's rows.

    Attributes:
        count: How many pages were added.
        rows: The number of rows of each page that brought any.
        totals: The rows that these pages announced for the whole list.
        last_announced: The last page that the counts of the first announce.
        have_ended: Whether two pages in a row brought no rows; after one of them, the counts may announce more.
        are_confirmed: Whether a second answer for the only page was the same.
    """

    def __init__(self, query: ListQuery, first: Page, keys: Callable[[Page], list[int]]) -> None:
        self._query, self._first, self._keys_of = query, first, keys
        of_total = -(-first.total // len(first.rows)) if first.total and first.rows else 1
        self.last_announced = max(1, of_total, first.last_page or 1)
        self.have_ended = self.are_confirmed = False
        self._last, self._added_last, self.count = first, False, 0
        self.rows: list[int] = []
        self._seen: set[int] = set()
        self._keys: set[int] = set()
        self.totals: list[int] = []
        self._last_pages: list[int] = []
        self._pins: list[str | None] = []
        self._wrong_number = ""

    def add(self, page: Page) -> bool:
        """Record a page; False where it brings no rows: it has none, or repeats an earlier page."""
        self.count += 1
        # Most lists have one page, of which no keys are needed.
        added = bool(page.rows) and (self.count == 1 or not self._repeats(page))
        self.have_ended = not added and not self._added_last and self.count > 1
        self._last, self._added_last = page, added
        self._pins.append(page.as_of)
        # Beyond the end of a list, upstreams announce no rows and no pages.
        if page.total is not None and (added or page.total or self.count == 1):
            self.totals.append(page.total)
        if page.last_page and (added or self.count == 1):
            self._last_pages.append(page.last_page)
        if added:
            self.rows.append(len(page.rows))
            if page.current_page not in (None, self.count) and not self._wrong_number:
                self._wrong_number = f"page {self.count} says that it is page {page.current_page}"
        return added

    def _repeats(self, page: Page) -> bool:
        """Whether an earlier page has the same rows, in any order."""
        for each in (self._first, page) if self.count == 2 else (page,):
            keys = self._keys_of(each)
            fingerprint = hash(tuple(sorted(keys)))
            if fingerprint in self._seen:
                return True
            self._seen.add(fingerprint)
            self._keys.update(keys)
        return False

    @property
    def expect_more(self) -> bool:
        """Whether another page is requested after those that are announced."""
        rows = sum(self.rows)
        if not self._added_last:
            return False
        if self.totals and rows != max(self.totals):
            return True
        if self._first.as_of is not None:
            return self._last.as_of is not None
        if max(self._last_pages, default=0) > len(self.rows) or (
            not self.totals and self._query.dataset.source is Source.LIST
        ):
            return True
        return is_full(self._first, self._query) and self.rows[-1] >= self.rows[0]

    def result(self, duplicates: int) -> ReadResult:
        """Return the result of all pages.

        Args:
            duplicates: Rows of the last page with the key of another one.
        """
        rows, announced = sum(self.rows), max(self.totals, default=None)
        *pins, last = self._pins
        is_pinned = len(set(pins)) == 1 and pins[0] is not None and last is None and announced in (None, rows)
        # A single page is the whole list with as many rows as were announced, and without a total if it is not full.
        # One without rows that announces some was requested twice.
        is_whole = announced == rows or (announced is None and not is_full(self._first, self._query))
        is_certain = not rows or (len(self.rows) == 1 and (is_whole or self.are_confirmed))
        doubt = None
        if len(set(self.totals)) > 1:
            moved = next(total for total in self.totals if total != self.totals[0])
            doubt = f"the total went from {self.totals[0]} to {moved}"
        contradiction = doubt or _contradiction(self._last_pages, len(self.rows))
        # A last page that was announced and has no rows may have lost them to a page that was read before.
        if not (doubt or is_pinned or (is_certain and not contradiction)):
            what = "several pages" if len(self.rows) > 1 else "one page with other counts"
            doubt = f"a list of {what} is read until two readings agree"
        contradiction = contradiction or ("" if announced == rows else self._wrong_number)
        notes = {CONTRADICTION: contradiction} if contradiction else {}
        return ReadResult(rows, announced, doubt, rows - len(self._keys) if self._keys else duplicates, notes)
