"""Pagination: reads the pages of one list in order and detects changes of the list.

Rows that add up to the announced total do not prove that the whole list was read. A row that is deleted from page 1
after it was read moves a row of page 2 there, which is missed; where another row is added at the end at the same time,
the total stays the same. So one reading of several pages is never certain: two must agree. An upstream may link each
page to the next with a moment that the list is pinned to. Then all pages are of that moment, and one reading is enough.

A list on a single page may contradict its total. Where a second answer repeats the total, and has no other rows, the
total is wrong, and another reading would not change that.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from seller_platform.client.decoding.known_pages import LateRows
from seller_platform.client.decoding.pages import Page
from seller_platform.client.lists.prefetch import PageFetcher
from seller_platform.contract import Dataset
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.wire import AS_OF
from seller_platform.counts import count_of
from seller_platform.errors import RequestRefusedError

_KEYS_COMPARED_AT_ONCE = 100_000
_GONE = 410

KeysOfPages = dict[bytes, "array[int]"]
"""The hashes of the rows' keys, by key of the page."""


class WalkEndedError(Exception):
    """The upstream cannot read the list any more as it was at the moment that it is pinned to.

    It never leaves this floor: the list is read again.
    """


@dataclass(frozen=True)
class ReadResult:
    """The result of reading one list, or several.

    Attributes:
        rows: Rows read.
        announced: Rows that the list announced; None where it sends no total.
        doubts: Reasons why the rows may not be the list as it was at one moment; empty where they certainly are.
        duplicate_keys: Rows whose key another row has too.
    """

    rows: int = 0
    announced: int | None = 0
    doubts: tuple[str, ...] = ()
    duplicate_keys: int = 0

    def __add__(self, other: "ReadResult") -> "ReadResult":
        counts = (self.announced, other.announced)
        return ReadResult(
            self.rows + other.rows,
            None if counts[0] is None or counts[1] is None else counts[0] + counts[1],
            (*self.doubts, *other.doubts),
            self.duplicate_keys + other.duplicate_keys,
        )

    def doubted(self, doubt: str) -> "ReadResult":
        return replace(self, doubts=(*self.doubts, doubt))


def holds_the_list(first: Page) -> bool:
    """Whether page 1 certainly is the whole list, so that no row can be missed."""
    if first.total is not None:
        return first.total == len(first.rows)
    if first.last_page is not None and first.last_page > 1:
        return False
    return not first.rows or (first.per_page is not None and len(first.rows) < first.per_page)


def is_short(first: Page, query: ListQuery) -> bool:
    """Whether page 1 has fewer rows than any full page, so that smaller windows would not show more of the list."""
    full = first.per_page or min(query.dataset.page_sizes, default=query.page_size or 0)
    return len(first.rows) < full


def read_pages(
    fetcher: PageFetcher,
    query: ListQuery,
    first: Page,
    write: Callable[[Page], None],
    *,
    keys: KeysOfPages | None = None,
) -> ReadResult:
    """Read a list whose first page is there, and write every page in order.

    Args:
        keys: Keys of rows of known pages that were read before; those of others are added.

    Raises:
        WalkEndedError: The upstream had pinned the list to a moment, and answers no more pages of it.
    """
    record = _Record(query.dataset, {} if keys is None else keys)
    try:
        for page in _pages(fetcher, query, first, record):
            if not record.is_new(page):
                break
            write(page)
    except RequestRefusedError as error:
        if first.as_of and (error.status == _GONE or AS_OF in error.parameters):
            raise WalkEndedError(error.message) from None
        raise
    if record.has_one_answer and first.total not in (None, len(first.rows)):
        again = fetcher.one(query)
        record.confirm(is_same=(again.total, again.rows) == (first.total, first.rows))
    return record.result(query, first)


def _pages(fetcher: PageFetcher, query: ListQuery, first: Page, record: "_Record") -> Iterator[Page]:
    """Yield the pages of a list, from the first.

    Pages within the announced total are fetched ahead, all others one by one until the list ends.
    """
    yield first
    query, size, number = replace(query, as_of=first.as_of), len(first.rows), 2
    if first.total is not None and size:
        planned = -(-first.total // size)
        yield from fetcher.each(replace(query, page=number) for number in range(2, planned + 1))
        number = planned + 1
    while record.expects_more(first):
        yield fetcher.one(replace(query, page=number))
        number += 1


class _Record:
    """Records the pages of a list and judges whether it changed meanwhile."""

    def __init__(self, dataset: Dataset, keys_of_pages: KeysOfPages) -> None:
        self._keys_of_pages = keys_of_pages
        # A ledger has no key, so the whole row is compared; equal rows cost a second reading.
        self._identity: Callable[[Any], Any] = itemgetter(*dataset.key_positions or (slice(None),))
        self._seen: set[int] = set()
        self._keys = array("q")
        self._rows_by_page: list[int] = []
        self._totals: list[int | None] = []
        self._pins: list[str | None] = []
        self._doubts: list[str] = []
        self._duplicates_within_pages = 0
        self._last_page: int | None = None
        self._is_confirmed = False

    @property
    def has_one_answer(self) -> bool:
        return len(self._totals) == 1

    def confirm(self, *, is_same: bool) -> None:
        """Record whether a second answer for page 1 was the same."""
        self._is_confirmed = is_same

    def is_new(self, page: Page) -> bool:
        """Record a page; False where it ends the list: it is empty or a repetition."""
        self._totals.append(page.total)
        self._pins.append(page.as_of)
        self._last_page = page.last_page
        if not page.rows:
            return False
        keys = self._keys_of(page)
        fingerprint = hash(keys.tobytes())
        if fingerprint in self._seen:
            if page.total is not None:
                self._doubts.append(f"page {len(self._totals)} repeats an earlier one")
            return False
        self._seen.add(fingerprint)
        distinct = set(keys)
        self._duplicates_within_pages += len(keys) - len(distinct)
        self._keys.extend(distinct)
        self._rows_by_page.append(len(page.rows))
        return True

    def _keys_of(self, page: Page) -> "array[int]":
        if isinstance(page.rows, LateRows) and page.rows.key in self._keys_of_pages:
            return self._keys_of_pages[page.rows.key]
        keys = array("q", map(hash, map(self._identity, page.rows)))
        if isinstance(page.rows, LateRows):
            self._keys_of_pages[page.rows.key] = keys
        return keys

    def expects_more(self, first: Page) -> bool:
        """Whether another page is requested after those of the announced total; every page so far was new."""
        if first.total is not None:
            return sum(self._rows_by_page) < first.total
        if self._pins[0] is not None:
            return self._pins[-1] is not None
        last, pages = self._rows_by_page[-1], len(self._rows_by_page)
        if self._last_page is not None and self._last_page > pages:
            return True
        return last >= self._rows_by_page[0]

    @property
    def _is_pinned(self) -> bool:
        """Whether all pages were of one moment: each but the last links to the next one of it."""
        *pins, last = self._pins
        return len(set(pins)) == 1 and pins[0] is not None and last is None

    def result(self, query: ListQuery, first: Page) -> ReadResult:
        """Return the result of all pages."""
        rows, announced = sum(self._rows_by_page), self._totals[-1]
        # Keys on two pages are counted in buckets, so that the memory does not grow with the list.
        buckets = max(1, len(self._keys) // _KEYS_COMPARED_AT_ONCE)
        distinct = sum(len({key for key in self._keys if key % buckets == bucket}) for bucket in range(buckets))
        duplicates = len(self._keys) - distinct
        doubts = [*self._doubts]
        if len(set(self._totals)) > 1:
            doubts.append(f"the total went from {self._totals[0]} to {announced}")
        elif announced is not None and rows != announced and (self.has_one_answer and not self._is_confirmed):
            doubts.append(f"{count_of(announced, 'row', 'was')} announced and {rows} read")
        if duplicates:
            doubts.append(f"{count_of(duplicates, 'row', 'was')} on two pages")
        # A single page that is not full is the whole list. The upstream may use smaller pages than were asked for.
        is_one_page = len(self._rows_by_page) == 1 and (holds_the_list(first) or is_short(first, query))
        is_whole = self._is_confirmed or (self._is_pinned and announced in (None, rows))
        if not is_whole and not is_one_page:
            doubts.append("a list of several pages is read until two readings agree")
        return ReadResult(rows, announced, tuple(doubts), duplicates + self._duplicates_within_pages)
