"""Reads the answer to a query, in one spelling of values; counts the rows of a source."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from seller_platform.client.decoding.local_days import zone_of
from seller_platform.client.decoding.pages import PageDecoder
from seller_platform.client.endpoints.cost_periods import read_cost_periods
from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.prefetch import PageFetcher
from seller_platform.client.lists.slice_reader import read_slice
from seller_platform.contract import Column, Kind, Window
from seller_platform.contract.cost_periods import AMOUNT, COST_ELEMENT, COST_ELEMENTS, CURRENCY, NOTES, PROVIDER
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import LoadFacts
from seller_platform.ingest.verification.queries import AccountQuery
from seller_platform.warehouse.loads.copy_format import RowDigest, row_hashes

_ELEMENT_FIELDS = (COST_ELEMENT, AMOUNT, CURRENCY, PROVIDER, NOTES)

Row = tuple[Any, ...]


class ReadAnswer:
    """Digests the rows of an answer in one spelling, and keeps them on request."""

    def __init__(self, query: AccountQuery, *, keeps_rows: bool = False) -> None:
        dataset = query.dataset
        ignored = set(query.ignored)
        self.columns = (*dataset.columns, *dataset.tags)
        self._spell = [_speller(column, ignored) for column in dataset.columns]
        self._keeps_rows = keeps_rows
        self.restart()

    @property
    def count(self) -> int:
        return self._digest.count

    @property
    def digest(self) -> bytes:
        return self._digest.value

    def restart(self) -> None:
        """Discard all rows."""
        self._digest = RowDigest()
        self.rows: Counter[Row] = Counter()

    def write(
        self,
        rows: Sequence[Row],
        *,
        tags: Sequence[str | None],
        extras: Mapping[int, str],  # noqa: ARG002  # the protocol's signature
        page: int,  # noqa: ARG002  # the protocol's signature
    ) -> None:
        """Add the rows of one page; fields that the contract does not name are ignored."""
        spelled = [(*(spell(value) for spell, value in zip(self._spell, row, strict=False)), *tags) for row in rows]
        self._digest.add(row_hashes(map(repr, spelled)))
        if self._keeps_rows:
            self.rows.update(spelled)

    def total(self, position: int) -> Decimal:
        """Return the sum of the amounts in a column."""
        return sum(
            (Decimal(row[position]) * times for row, times in self.rows.items() if row[position]), start=Decimal()
        )


def read_answer(query: AccountQuery, api: SellerApi, answer: ReadAnswer) -> LoadFacts:
    """Read the rows of an answer, all of its pages.

    Raises:
        SellerPlatformError: As `read_slice` and `read_cost_periods` do.
    """
    account, day = query.account.account, query.snapshot_day
    if query.skus is not None and day is not None:
        return read_cost_periods(api, account, query.skus, day, answer)
    return read_slice(api, query.dataset, account, query.window, day, answer)


def count_at_source(query: AccountQuery, source: SellerApi) -> int:
    """Return how many rows a source lists for a query.

    The totals of the first pages are added; of a list without totals, the rows of its first pages are counted.

    Raises:
        SellerPlatformError: The source did not answer, or refused.
    """
    dataset, account = query.dataset, query.account.account
    if query.skus is not None:
        answer = ReadAnswer(query)
        read_answer(query, source, answer)
        return answer.count
    slice_day = query.window.start if query.window else query.snapshot_day
    decoder = PageDecoder(dataset, zone_of(account), slice_day)
    windows: Sequence[Window | None] = list(query.window.months()) if query.window else [None]
    values = dataset.split_by.values if dataset.split_by and dataset.split_by.required else (None,)
    size = min(dataset.page_sizes, default=None)
    queries = [ListQuery(dataset, account, window, value, per_page=size) for window in windows for value in values]
    with PageFetcher(source, decoder, 1) as fetcher:
        return sum(len(page.rows) if page.total is None else page.total for page in fetcher.each(queries))


def _speller(column: Column, ignored: set[str]) -> Callable[[Any], Any]:
    """Return the function that brings values of a column into one spelling, without ignored fields."""
    if column.name in ignored:
        return lambda _: None
    if column.name == COST_ELEMENTS:
        return _elements
    match column.kind:
        case Kind.MONEY | Kind.NUMBER:
            return _plain_number
        case Kind.TIMESTAMP:
            return lambda text: text and datetime.fromisoformat(text).astimezone(UTC).isoformat()
        case Kind.JSON:
            fields = {name.partition(".")[2] for name in ignored if name.startswith(f"{column.name}.")}
            return lambda text: _document(text, fields)
    return lambda value: value


def _plain_number(value: Decimal | None) -> str | None:
    if value is None:
        return None
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _document(text: str | None, ignored: set[str]) -> str | None:
    if text is None:
        return None
    document = _parsed(text)
    if isinstance(document, dict):
        document = {name: value for name, value in document.items() if name not in ignored}
    return json.dumps(document, sort_keys=True, ensure_ascii=False)


def _elements(text: str | None) -> str | None:
    """Return cost elements in one spelling, without their order and without empty texts."""
    if text is None:
        return None
    elements = [
        {name: value for name in _ELEMENT_FIELDS if (value := element.get(name)) not in (None, "")}
        for element in _parsed(text)
    ]
    return json.dumps(sorted(elements, key=repr), ensure_ascii=False)


def _parsed(text: str) -> Any:
    return json.loads(text, parse_float=lambda number: _plain_number(Decimal(number)), parse_int=str)
