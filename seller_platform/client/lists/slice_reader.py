"""Reads the rows of one slice, again and again until none can have been missed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from operator import attrgetter

from seller_platform.client.decoding.pages import Page, PageDecoder
from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.reader import ListReader, ReadResult, WalkEndedError, is_full, with_contradiction
from seller_platform.client.lists.row_sink import RowSink
from seller_platform.contract import Account, Dataset, SplitFilter, Window
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import CONTRADICTION, UNKNOWN_PRODUCTS, CountVerdict, LoadFacts
from seller_platform.counts import count_of
from seller_platform.errors import ContractViolationError, DayMissingError, ListChangedError, UpstreamUnavailableError

ATTEMPTS = 3
_FEW_ROWS = 5
"""By how many rows, beside one in a hundred, a list may change between two requests for it."""

_Counts = tuple[int | None, ...]
"""The totals of the unfiltered list and of each part."""


def read_slice(  # noqa: PLR0917  # six facts, each of another type
    api: SellerApi,
    dataset: Dataset,
    account: Account,
    window: Window | None,
    snapshot_day: date | None,
    sink: RowSink,
    *,
    look_ahead: int = 4,
) -> LoadFacts:
    """Read the rows of a slice into the sink.

    A list may change while it is read. An attempt is repeated until one leaves no doubt, or two in a row bring the same
    rows. Pages that the upstream links to each other at one moment leave none. Where the list can be divided, later
    attempts read smaller windows. A computed list whose rows lack their day is asked for day by day.

    Args:
        window: The days of a dated dataset; None for others.
        snapshot_day: The day that an undated list is stored for; None for dated datasets.
        sink: Pages that it knows are not decoded, unless it needs their rows.

    Raises:
        ListChangedError: The list changed in every attempt.
        ContractViolationError: The upstream sent what the API does not allow, or too many values cannot be read.
        UpstreamUnavailableError: It did not answer, or announced rows and sent none.
    """
    name = f"{dataset.name} of {account.key}" + (f", {window}" if window else "")
    zone, currency = account.zone, account.currency_code
    slice_value = window.start if window else snapshot_day
    decoder = PageDecoder(dataset, zone, slice_value, known=sink.known, currency=currency)
    query = ListQuery(dataset, account, window)
    try:
        return read_list(api, query, decoder, sink, name, _plans(dataset, window), look_ahead)
    except DayMissingError as error:
        if window is None or not dataset.is_computed:
            raise DayMissingError(name, error.problem) from None
    by_day = dataset.asked_by_day()
    decoder = PageDecoder(by_day, zone, None, currency=currency, complete=partial(_with_day, dataset))
    plans = [list(window.split(1))] * ATTEMPTS
    facts = read_list(api, ListQuery(by_day, account), decoder, sink, name, plans, look_ahead)
    return replace(facts, requests=facts.requests + 1, notes={**facts.notes, "asked_by_day": window.days})


def read_list(  # noqa: PLR0917  # facts of different types
    api: SellerApi,
    query: ListQuery,
    decoder: PageDecoder,
    sink: RowSink,
    name: str,
    plans: Iterable[Sequence[Window | None]] = ((None,),) * ATTEMPTS,
    look_ahead: int = 4,
) -> LoadFacts:
    """Read a list into the sink, as `read_slice` does."""
    reader = ListReader(api, decoder, query, sink, look_ahead=look_ahead)
    split_by = query.dataset.split_by
    source = SplitListReader(reader, split_by) if split_by and not split_by.required else reader
    previous: tuple[bytes, int | None] | None = None
    for number, windows in enumerate(plans, start=1):
        reader.restart()
        try:
            result = source.read(windows)
        except WalkEndedError as error:
            reader.follows_links, previous, doubt = False, None, str(error)
            continue
        fingerprint = (sink.digest, result.announced)
        if result.doubt is None or fingerprint == previous:
            contradiction = result.notes.get(CONTRADICTION)
            if not sink.count and (result.announced or contradiction):
                owner = query.account.key if query.account else name
                problem = f"no row of {owner} was sent: {contradiction}"
                if result.announced:
                    problem = f"{count_of(result.announced, 'row', 'was')} announced of {owner} and none was sent"
                raise UpstreamUnavailableError(f"GET {query.dataset.path}", problem, attempts=number)
            reader.defects.check(name, sink.count)
            return _facts(result, number, reader)
        previous, doubt = fingerprint, result.doubt
    raise ListChangedError(name, f"the list changed in each of {count_of(number, 'attempt')} (last: {doubt})")


def _with_day(dataset: Dataset, page: Page, _: str | None) -> Page:
    """Return the page of one day, whose row comes with the day that was asked for as its last value.

    Args:
        dataset: The list as it is declared, with the column of its day.

    Raises:
        ContractViolationError: There are several rows, or one of another day.
    """
    position = next(number for number, column in enumerate(dataset.columns) if column.name == dataset.day)
    if len(page.rows) > 1:
        problem = f"{page.rows[0][-1]} has {count_of(len(page.rows), 'row')}, but a day has one"
        raise ContractViolationError(dataset.name, problem)
    for row in page.rows:
        if row[position] not in (None, row[-1]):
            problem = f"{dataset.day} is {row[position]} in the row of {row[-1]} that was asked for"
            raise ContractViolationError(dataset.name, problem)
    return replace(page, rows=[(*row[:position], row[-1], *row[position + 1 :]) for row in page.rows])


def _plans(dataset: Dataset, window: Window | None) -> Iterator[Sequence[Window | None]]:
    """Yield the windows of each attempt.

    The whole window is read a few times, then its halves, and so on down to single days.
    """
    for _ in range(ATTEMPTS):
        yield [window]
    if window is None or not dataset.is_divisible:
        return
    days = window.days
    while days > 1:
        days = -(-days // 2)
        for _ in range(1 if days > 1 else ATTEMPTS):
            yield list(window.split(days))


def _facts(result: ReadResult, attempts: int, reader: ListReader) -> LoadFacts:
    verdict = CountVerdict.UNVERIFIABLE if result.announced is None else CountVerdict.MATCH
    if result.announced not in (None, reader.sink.count) or CONTRADICTION in result.notes:
        verdict = CountVerdict.MISMATCH
    notes = {**result.notes, **reader.defects.notes}
    if reader.unknown:
        notes[UNKNOWN_PRODUCTS] = reader.unknown
    if attempts > 1:
        notes["attempts"] = attempts
    if result.duplicate_keys:
        notes["duplicate_keys"] = result.duplicate_keys
    if reader.unknown_fields:
        notes["unknown_fields"] = sorted(reader.unknown_fields)
    return LoadFacts(reader.requests, reader.pages, reader.body_bytes, result.announced, verdict, notes)


class SplitListReader:
    """Reads a list split by a filter, value by value, and compares the sum with the unfiltered list.

    Where the unfiltered list merges rows of equal keys, its total lies between the largest part's and the sum of all.
    An upstream may ignore the filter: then each part is the whole list, and the unfiltered one is stored instead.
    """

    def __init__(self, reader: ListReader, split_by: SplitFilter) -> None:
        self._reader, self._query, self._split_by = reader, reader.query, split_by
        # Only the total is needed, so the page is as small as possible.
        self._whole = replace(reader.query, per_page=min(reader.query.dataset.page_sizes, default=None))
        self._ignored: _Counts | None = None
        self._wrong: _Counts | None = None

    def read(self, windows: Sequence[Window | None]) -> ReadResult:
        """Read the unfiltered list's total, then every value's list, and compare."""
        whole = self._reader.one(self._whole)
        if whole.total and not whole.rows:
            whole = self._reader.one(self._whole)
        if whole.total is not None and not whole.rows and (whole.last_page or 0) <= 1:
            return ReadResult(announced=whole.total)
        firsts: list[Page] = []
        if len(windows) == 1:
            for value in self._split_by.values:
                page = self._reader.one(replace(self._query, window=windows[0], value=value))
                firsts.append(page)
            counts = (whole.total, *map(attrgetter("total"), firsts))
            self._ignored = counts if self._ignores(whole, firsts) else None
        if self._ignored is not None:
            return self._unfiltered(windows, self._ignored)
        results = [
            self._reader.read(windows, value, firsts[number : number + 1])
            for number, value in enumerate(self._split_by.values)
        ]
        return with_contradiction(self._compared(whole, results, windows), whole, self._whole)

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
        after = self._size(self._reader.one(self._whole))
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
        result = self._reader.read(windows)
        ignored = dict(zip(("unfiltered", *self._split_by.values), counts, strict=True))
        return replace(result, notes={**result.notes, "facet_ignored": ignored})
