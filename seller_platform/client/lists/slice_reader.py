"""Reads the rows of one slice, again and again until none can have been missed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import partial

from seller_platform.client.decoding.local_days import zone_of
from seller_platform.client.decoding.pages import Page, PageDecoder
from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.prefetch import PageFetcher
from seller_platform.client.lists.reader import ListReader, ReadResult, WalkEndedError
from seller_platform.client.lists.row_sink import PageMemory, RowSink
from seller_platform.client.lists.split_lists import SplitListReader
from seller_platform.contract import Account, Dataset, Window
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import CONTRADICTION, UNKNOWN_PRODUCTS, CountVerdict, LoadFacts
from seller_platform.contract.wire import REPLICA
from seller_platform.counts import count_of
from seller_platform.errors import (
    ContractViolationError,
    DayMissingError,
    ListChangedError,
    UpstreamUnavailableError,
)

ATTEMPTS = 3


def read_slice(  # noqa: PLR0917  # six facts, each of another type
    api: SellerApi,
    dataset: Dataset,
    account: Account,
    window: Window | None,
    snapshot_day: date | None,
    sink: RowSink,
    *,
    memory: PageMemory | None = None,
    look_ahead: int = 4,
) -> LoadFacts:
    """Read the rows of a slice into the sink.

    A list may change while it is read. An attempt is repeated until one leaves no doubt, or two in a row bring the same
    rows. Pages that the upstream links to each other at one moment leave none. Where the list can be divided, later
    attempts read smaller windows. A computed list whose rows lack their day is asked for day by day.

    Args:
        window: The days of a dated dataset; None for others.
        snapshot_day: The day that an undated list is stored for; None for dated datasets.
        memory: Pages that it knows are not decoded; it appends their rows to the sink. Without it, all are decoded.
        look_ahead: How many pages are under way at once.

    Raises:
        ListChangedError: The list changed in every attempt.
        ContractViolationError: The upstream sent what the API does not allow, or too many values cannot be read.
        UpstreamUnavailableError: It did not answer, or announced rows and sent none.
    """
    name = f"{dataset.name} of {account.key}" + (f", {window}" if window else "")
    zone, slice_value = zone_of(account), window.start if window else snapshot_day
    known, currency = memory.known if memory else None, account.currency_code
    decoder = PageDecoder(dataset, zone, slice_value, known=known, currency=currency)
    query = ListQuery(dataset, account, window)
    try:
        return read_list(api, query, decoder, sink, name, _plans(dataset, window), memory, look_ahead)
    except DayMissingError as error:
        if window is None or not dataset.is_computed:
            raise DayMissingError(name, error.problem) from None
    by_day = dataset.asked_by_day()
    decoder = PageDecoder(by_day, zone, None, currency=currency, complete=partial(_with_day, dataset))
    plans = [list(window.split(1))] * ATTEMPTS
    facts = read_list(api, ListQuery(by_day, account), decoder, sink, name, plans, None, look_ahead)
    return replace(facts, requests=facts.requests + 1, notes={**facts.notes, "asked_by_day": window.days})


def read_list(  # noqa: PLR0917  # facts of different types
    api: SellerApi,
    query: ListQuery,
    decoder: PageDecoder,
    sink: RowSink,
    name: str,
    plans: Iterable[Sequence[Window | None]] = ((None,),) * ATTEMPTS,
    memory: PageMemory | None = None,
    look_ahead: int = 4,
) -> LoadFacts:
    """Read a list into the sink, as `read_slice` does.

    Args:
        query: Requests its first page.
        name: Names the list in errors.
        plans: The windows of each attempt.
    """
    fetcher = PageFetcher(api, decoder, look_ahead)
    reader = ListReader(fetcher, query, sink, memory)
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
            return _facts(result, number, fetcher, reader)
        previous, doubt = fingerprint, result.doubt
    raise ListChangedError(name, attempts=number, last=doubt)


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


def _facts(result: ReadResult, attempts: int, fetcher: PageFetcher, reader: ListReader) -> LoadFacts:
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
    if fetcher.unknown_fields:
        notes["unknown_fields"] = sorted(fetcher.unknown_fields)
    if fetcher.is_computed:
        notes["computed_by"] = REPLICA
    return LoadFacts(fetcher.requests, reader.pages, fetcher.body_bytes, result.announced, verdict, notes)
