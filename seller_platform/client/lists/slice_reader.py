"""Reads the rows of one slice, again and again until none can have been missed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import partial

from seller_platform.client.decoding.local_days import zone_of
from seller_platform.client.decoding.pages import PageDecoder, Row
from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.placed_rows import placed_rows
from seller_platform.client.lists.prefetch import PageFetcher
from seller_platform.client.lists.reader import ListReader, ReadResult, WalkEndedError
from seller_platform.client.lists.row_sink import PageMemory, RowSink
from seller_platform.client.lists.split_lists import SplitListReader
from seller_platform.contract import Account, Dataset, Window
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import CONTRADICTION, CountVerdict, LoadFacts
from seller_platform.contract.wire import REPLICA
from seller_platform.counts import count_of
from seller_platform.errors import DayMissingError, ListChangedError, UpstreamUnavailableError

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
    plans = _plans(dataset, window)
    try:
        return _read(api, dataset, account, window, snapshot_day, sink, memory, plans, look_ahead)
    except DayMissingError as error:
        if window is None or not dataset.is_computed:
            raise DayMissingError(_name(dataset, account, window), error.problem) from None
    days, place = [list(window.split(1))] * ATTEMPTS, partial(placed_rows, dataset)
    facts = _read(api, dataset.asked_by_day(), account, window, snapshot_day, sink, None, days, look_ahead, place)
    return replace(facts, requests=facts.requests + 1, notes={**facts.notes, "asked_by_day": window.days})


def _read(  # noqa: PLR0917  # the facts of `read_slice`
    api: SellerApi,
    dataset: Dataset,
    account: Account,
    window: Window | None,
    snapshot_day: date | None,
    sink: RowSink,
    memory: PageMemory | None,
    plans: Iterable[Sequence[Window | None]],
    look_ahead: int,
    place: Callable[[Sequence[Row]], Sequence[Row]] | None = None,
) -> LoadFacts:
    zone, slice_value = zone_of(account), window.start if window else snapshot_day
    known = memory.known if memory else None
    decoder = PageDecoder(dataset, zone, slice_value, known=known, currency=account.currency_code)
    with PageFetcher(api, decoder, look_ahead) as fetcher:
        reader = ListReader(fetcher, ListQuery(dataset, account, window), sink, memory, place)
        source = SplitListReader(reader) if dataset.split_by and not dataset.split_by.required else reader
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
                if not sink.count and (result.announced or CONTRADICTION in result.notes):
                    rows = count_of(result.announced or 1, "row", "was")
                    problem = f"{rows} announced of {account.key} and none was sent"
                    raise UpstreamUnavailableError(f"GET {dataset.path}", problem, attempts=number)
                reader.defects.check(_name(dataset, account, window), sink.count)
                return _facts(result, number, fetcher, reader)
            previous, doubt = fingerprint, result.doubt
    raise ListChangedError(_name(dataset, account, window), attempts=number, last=doubt)


def _name(dataset: Dataset, account: Account, window: Window | None) -> str:
    return f"{dataset.name} of {account.key}" + (f", {window}" if window else "")


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
    if attempts > 1:
        notes["attempts"] = attempts
    if result.duplicate_keys:
        notes["duplicate_keys"] = result.duplicate_keys
    if fetcher.unknown_fields:
        notes["unknown_fields"] = sorted(fetcher.unknown_fields)
    if fetcher.is_computed:
        notes["computed_by"] = REPLICA
    return LoadFacts(fetcher.requests, reader.pages, fetcher.body_bytes, result.announced, verdict, notes)
