"""Decoding: turns the body of a page into rows. The strict decoder is tried first, for it is faster."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from decimal import Context, Decimal, InvalidOperation, Overflow, localcontext
from functools import cached_property, lru_cache, partial
from itertools import repeat
from operator import add, attrgetter, itemgetter
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from seller_platform.client.decoding.envelopes import ARRAY, KEYED, NO_JSON, CutBody
from seller_platform.client.decoding.lenient import LenientReader
from seller_platform.client.decoding.local_days import canonical_timestamp, checked_date, local_days
from seller_platform.client.decoding.values import LARGEST_BIGINT, LARGEST_EXPONENT, LEAST_BIGINT, LEAST_EXPONENT
from seller_platform.client.http.characters import variants
from seller_platform.contract import Column, Dataset, Kind, Window
from seller_platform.contract.cost_periods import decimals_of
from seller_platform.contract.currencies import MINOR_DIGITS, OTHER_MINOR_DIGITS, minor_digits
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import EXCESS_DIGITS, REPLACED_TEXT, UNREADABLE_VALUES, PageFacts
from seller_platform.contract.wire import ROWS
from seller_platform.errors import (
    ContractViolationError,
    DayMissingError,
    RequestRefusedError,
    RowsMissingError,
    UnreadableBodyError,
)

Row = tuple[Any, ...]
Defects = Mapping[str, Mapping[int, Mapping[str, str]]]

# JSON columns have no strict type: their text is kept as it was sent.
_TYPES: Mapping[Kind, Any] = {
    Kind.TEXT: str,
    Kind.INTEGER: Annotated[int, msgspec.Meta(ge=LEAST_BIGINT, le=LARGEST_BIGINT)],
    Kind.MONEY: Decimal,
    Kind.NUMBER: Decimal,
    Kind.BOOLEAN: bool,
    Kind.DATE: str,
    Kind.TIMESTAMP: str,
}

_VERSION = 1
"""Raise it whenever the same bytes are decoded to other rows."""

_EXACT = Context(prec=150_000, Emax=LARGEST_EXPONENT, traps=[InvalidOperation, Overflow])
"""In which no sum of numbers that PostgreSQL can store is rounded."""


@dataclass(frozen=True)
class Page:
    """One page of a list.

    Attributes:
        rows: The values of the dataset's columns in order, and last the row's local day. Rows without a day of their
            own have the day, or for accounts the connection, that they were requested for.
        extras: JSON text of the fields unknown to the contract, by the row's position.
        unknown_fields: The names of those fields.
        defects: What is wrong with rows that are stored, as receipts note it: by name of the note and position of the
            row, the columns with the value that was sent, which is empty where the stored value shows it.
        as_of: The moment that the upstream's link to the next page pins the list to; None without such a link.
        key: Recognizes the page when it is sent again; None where it cannot be recognized.
        refusal: Why there is no such page; it has no rows then.
    """

    rows: Sequence[Row]
    extras: Mapping[int, str] = field(default_factory=dict)
    total: int | None = None
    last_page: int | None = None
    current_page: int | None = None
    per_page: int | None = None
    unknown_fields: frozenset[str] = frozenset()
    defects: Defects = field(default_factory=dict)
    as_of: str | None = None
    key: bytes | None = None
    refusal: RequestRefusedError | RowsMissingError | None = None


@dataclass(eq=False)
class LateRows(Sequence[Row]):
    """The rows of a page that are decoded when one of them is needed.

    Attributes:
        size: How many they are.
        body: The body of the page.
        page_of: Returns the page that such a body holds.
        facts: What is known of the rows of a known page; None of a page that was only counted.
    """

    size: int
    body: bytes
    page_of: Callable[[bytes], Page]
    facts: PageFacts | None = None

    @cached_property
    def page(self) -> Page:
        return self.page_of(self.body)

    def decode(self, body: bytes) -> tuple[Sequence[Row], Mapping[int, str]]:
        """Return the rows of such a body, and their unknown fields."""
        page = self.page_of(body)
        return page.rows, page.extras

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        return self.page.rows[index]


@dataclass(frozen=True)
class Shape:
    """How an upstream spells a page.

    Attributes:
        fields: The name of each column on the wire.
        container: Where the rows are.
        is_complete: Whether each row has every field, though it may be null.
    """

    fields: tuple[str, ...]
    container: str = ARRAY
    is_complete: bool = True


class PageDecoder:
    """Decodes the pages of one dataset.

    Args:
        slice_value: The value of the slice column (`Dataset.slice_column`) in rows that carry no day of their own;
            in those that were requested for a window, it is the first day of the window.
        rows_field: The field of the envelope that holds the rows.
        known: Pages that were decoded before, by key; without it, pages have no keys.
        currency: The account's currency, which amounts have that name no other.
        complete: Completes a page, given the value of the filter that was requested.
    """

    def __init__(
        self,
        dataset: Dataset,
        zone: ZoneInfo,
        slice_value: object,
        *,
        rows_field: str = ROWS,
        known: Mapping[bytes, PageFacts] | None = None,
        currency: str | None = None,
        complete: Callable[[Page, str | None], Page] | None = None,
    ) -> None:
        self.dataset, self.zone = dataset, zone
        self._rows_field, self._slice_value = rows_field, str(slice_value)
        names = tuple(map(attrgetter("name"), dataset.columns))
        self._shape, self._columns = Shape(names), list(enumerate(dataset.columns))
        self._position_of = dict(zip(names, range(len(names)), strict=True))
        self._day = self._position_of[dataset.day] if dataset.day else None
        is_moment = self._day is not None and dataset.columns[self._day].kind is Kind.TIMESTAMP
        self._local_days = local_days(zone) if is_moment else None
        self._currency, self._guesses, self._complete = currency, True, complete
        columns = list(map(attrgetter("name", "kind", "aliases", "key"), dataset.columns))
        self._slice = repr((_VERSION, dataset.name, dataset.day, columns, zone.key, str(slice_value)))
        self._seeds: dict[tuple[Window | None, str | None], int] = {}
        self._known, self._has_keys = {} if known is None else known, known is not None

    def decode(self, body: bytes, query: ListQuery, *, is_late: bool = True) -> Page:
        """Return the page that a body holds.

        Args:
            query: What was requested; a row of another day is refused. Upstreams may end a list without a total by an
                empty object.
            is_late: Whether rows may be decoded later: those of known pages, and of page 1 of a list that is longer
                and divisible. Such a page is seldom stored, and counting takes a tenth of the time of decoding.

        Raises:
            RowsMissingError: It has nothing where the rows should be.
            ContractViolationError: A row has no day, or one of another window; it is named by its position, from 1.
            UnreadableBodyError: The body is not JSON, carries an error, or has a name twice.
        """
        if not body:  # of status 204 or 205; with any other, an empty body is a fault
            return Page([])
        cut = CutBody.guessed(body, self._rows_field) if self._guesses else None
        page = cut and self._fast_page(query, body, cut, is_late=is_late)
        if not page:
            storable = variants(body)
            if storable != [body]:
                first, *others = (self.decode(variant, query, is_late=False) for variant in storable)
                replaced = {REPLACED_TEXT: self._differences(first, *others)} if others else {}
                return replace(first, defects={**first.defects, **replaced}, key=None)
            if not cut or cut.count() is None:
                self._guesses, cut = False, CutBody.of(body, self.dataset, self._rows_field)
                page = self._fast_page(query, body, cut, is_late=is_late)
            page = page or self._lenient_page(query, cut)
        if isinstance(page.rows, LateRows):
            return page
        if not page.rows and page.total is None and self._shape.container == KEYED and query.page == 1:
            raise UnreadableBodyError(f"an empty object as {self._rows_field}, and no total that says that it is empty")
        if query.window is not None and self._day is not None:
            days = set(map(itemgetter(-1), page.rows))
            start, end = query.window.start.isoformat(), query.window.end.isoformat()
            if days and not (start <= min(days) and max(days) < end):
                position, day = next(
                    (number, row[-1]) for number, row in enumerate(page.rows, start=1) if not start <= row[-1] < end
                )
                raise ContractViolationError(
                    self.dataset.name,
                    f"row {position} of the page: its {self.dataset.day} lies on {day} in {self.zone.key}, outside "
                    f"{query.window} that was asked for; the upstream keeps another calendar than the account's",
                )
        return self._complete(page, query.value) if self._complete else page

    def _fast_page(self, query: ListQuery, body: bytes, cut: CutBody, *, is_late: bool) -> Page | None:
        """Return the page if it is known, only counted, or of one strict form."""
        key = self._key(cut, query)
        if is_late:
            page_of = partial(self.decode, query=query, is_late=False)
            if facts := self._known.get(key or b""):
                return Page(
                    LateRows(facts.rows, body, page_of, facts), {}, *cut.envelope, facts.unknown_fields, key=key
                )
            is_longer = query.page == 1 and (cut.envelope.total or 0) > (query.page_size or 0)
            if is_longer and query.window and self.dataset.is_divisible and (count := cut.count()):
                return Page(LateRows(count, body, page_of), {}, *cut.envelope)
        # In most lists each row has every field; then names need only be counted to see that none stands twice.
        for shape in dict.fromkeys((self._shape, replace(self._shape, is_complete=False))):
            decoder = _strict_decoder(self.dataset.columns, self.dataset.day, shape)
            if decoder is None or shape.container != cut.container:
                return None
            rows_of: Callable[[Any], Iterable[Any]] = dict.values if shape.container == KEYED else iter
            try:
                values = list(map(msgspec.structs.astuple, rows_of(decoder.decode(cut.rows))))
            except NO_JSON:
                continue
            self._shape = shape
            cut.check_rows(len(values), len(self._columns) if shape.is_complete else None)
            slice_value = self._slice_value if query.window is None else query.window.start.isoformat()
            strict = self._strict_rows(body, values, slice_value)
            return strict and Page(strict[0], {}, *cut.envelope, defects=strict[1], key=key)
        return None

    def _strict_rows(self, body: bytes, values: list[Row], slice_value: str) -> tuple[list[Row], Defects] | None:
        """Return the rows with their days, and their defects; None where a value needs the lenient decoder."""
        if b"\\" in body and b"\\u0000" in body:  # the first search is faster, and seldom finds one
            return None
        try:
            for position, column in self._columns:
                # The day of a timestamp is computed below, which checks it.
                if column.kind in _CHECKS and not (column.kind is Kind.TIMESTAMP and position == self._day):
                    _CHECKS[column.kind](list(map(itemgetter(position), values)))
            defects = self._excess_digits(values)
            if self._day is None:
                last = (slice_value,)
                return [row + last for row in values], defects
            days = list(map(itemgetter(self._day), values))
            if self._local_days:
                days = self._local_days.of_all(days)
            return list(map(add, values, zip(days))), defects
        except (ValueError, ArithmeticError):
            return None

    def _lenient_page(self, query: ListQuery, cut: CutBody) -> Page:
        reader = LenientReader(self.dataset, self.zone)
        values = reader.read(cut)
        cut.check_rows(len(values), None)
        self._shape = Shape(reader.names, cut.container)
        rows = []
        for position, row in enumerate(values, start=1):
            day = self._slice_value if query.window is None else query.window.start.isoformat()
            try:
                if self._day is not None:
                    day = self._local_days.of(row[self._day]) if self._local_days else row[self._day]
            except ValueError as error:
                problem = f"row {position} of the page: {self.dataset.day} is {error}"
                raise DayMissingError(self.dataset.name, problem) from None
            rows.append((*row, day))
        unreadable = {UNREADABLE_VALUES: reader.unreadable} if reader.unreadable else {}
        defects = {**self._excess_digits(rows), **unreadable}
        facts = (reader.extras, *cut.envelope, frozenset(reader.unknown), defects)
        return Page(rows, *facts, key=self._key(cut, query))

    def _key(self, cut: CutBody, query: ListQuery) -> bytes | None:
        """Return the key of a page, equal where the rows are the same in the warehouse; None if they are no array.

        It depends on all that the decoded rows depend on: the bytes, the columns, the days that were asked for, the
        clocks of the zone on these days, the filter, and the version of the decoder. Counts are read from each answer.
        """
        if not self._has_keys or cut.container != ARRAY:
            return None
        clocks, window = [], query.window
        seed = self._seeds.get((window, query.value))
        if seed is None:
            if window is not None:
                days = (*window.each_day(), window.end)
                clocks = [datetime.combine(day, time(), self.zone).utcoffset() for day in days]
            seed = xxh3_64_intdigest(repr((self._slice, str(window), clocks, query.value)))
            self._seeds[window, query.value] = seed
        return xxh3_128_digest(cut.rows, seed)

    def _excess_digits(self, rows: Sequence[Row]) -> Defects:
        """Return the amounts with more decimals than their currency has, as defects.

        Raises:
            ValueError, ArithmeticError: An amount cannot be stored.
        """
        excess: dict[int, dict[str, str]] = defaultdict(dict)
        for number, column in self._columns:
            if column.kind is not Kind.MONEY:
                continue
            currency = self._position_of.get(column.currency or "")
            codes = {self._currency} if currency is None else set(map(itemgetter(currency), rows))
            fewest = min(map(OTHER_MINOR_DIGITS.get, codes, repeat(MINOR_DIGITS)), default=0)
            if _least_exponent(list(map(itemgetter(number), rows))) >= -fewest:
                continue
            for position, row in enumerate(rows):
                most = minor_digits(self._currency if currency is None else row[currency])
                if row[number] is not None and decimals_of(row[number]) > most:
                    excess[position][column.name] = str(row[number])
        return {EXCESS_DIGITS: excess} if excess else {}

    def _differences(self, page: Page, other: Page) -> Mapping[int, Mapping[str, str]]:
        """Return what differs in two decodings of a page: by the row's position, the columns and the other values."""
        differences = {}
        for position, (row, other_row) in enumerate(zip(page.rows, other.rows, strict=True)):
            pairs = ((column.name, row[number], other_row[number]) for number, column in self._columns)
            sent = {name: str(other_value) for name, value, other_value in pairs if value != other_value}
            if page.extras.get(position) != other.extras.get(position):
                sent["extra"] = ""
            if sent:
                differences[position] = sent
        return differences


@lru_cache(256)
def _strict_decoder(columns: tuple[Column, ...], day: str | None, shape: Shape) -> msgspec.json.Decoder[Any] | None:
    """Return the decoder of rows of a shape, with values in the order of the columns; None if one has no strict type.

    It raises `msgspec.ValidationError` for rows of another shape.
    """
    if not _TYPES.keys() >= set(map(attrgetter("kind"), columns)):
        return None
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for column in columns:
        # A row without its day has no slice.
        kind = _TYPES[column.kind] if column.name == day else _TYPES[column.kind] | None
        may_lack = not shape.is_complete and column.name != day
        fields.append((column.name, kind, None) if may_lack else (column.name, kind))
    sent_as = dict(zip(map(attrgetter("name"), columns), shape.fields, strict=True))
    row = msgspec.defstruct("Row", fields, rename=sent_as, forbid_unknown_fields=True, gc=False, kw_only=True)
    return msgspec.json.Decoder(dict[str, row] if shape.container == KEYED else list[row])  # type: ignore[valid-type]


def _least_exponent(values: Sequence[Any]) -> int:
    """Return the least exponent of numbers that PostgreSQL can store, which is that of their exact sum.

    Raises:
        ValueError, ArithmeticError: One of them cannot be stored.
    """
    # `None in values` would be slow: a Decimal that is compared checks whether the other is a number.
    with localcontext(_EXACT):
        total = sum(filter(None, values), Decimal(0))
    exponent = total.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < LEAST_EXPONENT:
        raise ValueError("not a number that can be stored")
    return exponent


_CHECKS: Mapping[Kind, Callable[[Sequence[Any]], object]] = {
    Kind.DATE: lambda values: [checked_date(text) for text in set(values) - {None}],
    Kind.TIMESTAMP: lambda values: [canonical_timestamp(text) for text in values if text is not None],
    Kind.NUMBER: _least_exponent,
}
"""Raises ValueError or ArithmeticError where a value is none of its kind; amounts are checked with their digits."""
