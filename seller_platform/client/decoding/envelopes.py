"""Envelopes: cuts the body of a page into its rows and the counts beside them, and finds names that stand twice.

Where an object has a name twice, readers of JSON keep the last value, and what stood under the first is lost.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from seller_platform.client.decoding.values import LARGEST_BIGINT, shape_of, whole_number
from seller_platform.client.http.responses import ERROR_FIELDS, check_no_error, digits_kept, not_json
from seller_platform.contract import Dataset, Source
from seller_platform.contract.wire import CURRENT_PAGE, LAST_PAGE, PER_PAGE, TOTAL
from seller_platform.errors import ContractViolationError, RepeatedNameError, RowsMissingError

ARRAY, KEYED, BARE = "array", "keyed", "bare"
"""Where the rows of a page are: in an array, in an object keyed by id, or in an array without an envelope."""

NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_COUNTS = (TOTAL, LAST_PAGE, CURRENT_PAGE, PER_PAGE)
_NULL = b"null"
_NOTHING = (b"", _NULL, b"false", b'""')
_MEMBER = b'":'
_LARGEST_PART = 1 << 14

_Count = int | float | str | None
_COUNT: msgspec.json.Decoder[_Count] = msgspec.json.Decoder(_Count)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_KEYED_OBJECTS = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]])
_BESIDE = [*((name, _Count, None) for name in _COUNTS), *((name, Any, None) for name in ERROR_FIELDS)]


class Envelope(NamedTuple):
    """The counts that a page carries beside its rows; None where one is missing."""

    total: int | None = None
    last_page: int | None = None
    current_page: int | None = None
    per_page: int | None = None

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> "Envelope":
        """Return the counts that stand beside rows, in any accepted spelling.

        Raises:
            ErrorAnswerError: An error stands beside them.
        """
        check_no_error(sent)
        numbers: list[int | None] = []
        for name in _COUNTS:
            try:
                number = sent[name] if isinstance(sent[name], int) else whole_number(str(sent[name]))
            except ValueError:
                number = -1
            numbers.append(number if 0 <= number <= LARGEST_BIGINT else None)
        return cls(*numbers)


@dataclass(frozen=True)
class CutBody:
    """The body of a page, cut into its rows and what stands beside them.

    Attributes:
        container: Where they are.
    """

    rows: memoryview
    container: str
    envelope: Envelope

    @classmethod
    def guessed(cls, body: bytes, rows_field: str) -> "CutBody | None":
        """Cut a body at its first and last bracket, which is fast; None if that is no envelope with an array of rows.

        Raises:
            UnreadableBodyError: An error stands beside the rows, or a name twice.
        """
        first, last = body.find(b"["), body.rfind(b"]")
        if not 0 <= first < last:
            return None
        beside = body[:first] + b"[]" + body[last + 1 :]
        try:
            # Whatever array takes the place of this one, the body stays valid JSON.
            sent = msgspec.structs.asdict(_beside_rows(rows_field).decode(beside))
        except NO_JSON:
            return None
        _checked(_parsed(beside, list))
        return cls(memoryview(body)[first : last + 1], ARRAY, Envelope.of(sent))

    @classmethod
    def of(cls, body: bytes, dataset: Dataset, rows_field: str) -> "CutBody":
        """Cut a body of any form.

        Raises:
            RowsMissingError: It has nothing where the rows should be.
            ContractViolationError: It has something else there.
            UnreadableBodyError: The body is not JSON, or an error stands beside the rows, or a name twice.
        """
        try:
            if body.lstrip()[:1] == b"[":
                sent_rows = _LIST.decode(body)
                if dataset.source in (Source.PRODUCT_LOOKUP, Source.REPORT):
                    return cls(memoryview(body), BARE, Envelope())
                problem = f"the answer is an array, not an object with {rows_field}"
                raise (ContractViolationError if sent_rows else RowsMissingError)(dataset.name, problem)
            page = _OBJECT.decode(body)
            sent: dict[str, Any] = {name: digits_kept(bytes(page.get(name, _NULL))) for name in ERROR_FIELDS}
        except NO_JSON as error:
            raise not_json(error) from None
        for name in _COUNTS:
            with suppress(msgspec.ValidationError):
                sent[name] = None
                sent[name] = _COUNT.decode(page.get(name, _NULL))
        envelope, rows = Envelope.of(sent), bytes(page.get(rows_field, b""))
        if rows in _NOTHING and envelope.total == 0:
            rows = b"[]"
        container = {b"[": ARRAY, b"{": KEYED}.get(rows[:1])
        if container is None:
            problem = f"{rows_field} is {shape_of(rows)}" if rows else f"there is no {rows_field}"
            problem = f"{problem} in the answer, but the rows should be there"
            raise (RowsMissingError if rows in _NOTHING else ContractViolationError)(dataset.name, problem)
        _checked(_parsed(body.replace(rows, rows[:1] + rows[-1:], 1), list))
        return cls(memoryview(rows), container, envelope)

    def count(self) -> int | None:
        """Return how many rows there are; None if the bytes of the rows are not one array."""
        try:
            return len(_LIST.decode(self.rows))
        except NO_JSON:
            return None

    def check_rows(self, count: int, columns: int | None) -> None:
        """Return unless a name stands twice in a row, or in the object of rows.

        Writers that repeat a name do so in all rows. So of an array beyond 16 KiB only the first rows are looked at:
        all would cost a `sync` more than two percent of its time.

        Args:
            count: How many rows there are.
            columns: How many names each row has if none stands twice; None where rows differ.

        Raises:
            RepeatedNameError: A name stands twice.
        """
        is_keyed = self.container == KEYED
        text = bytes(self.rows if is_keyed else self.rows[:_LARGEST_PART])
        if is_part := len(text) < len(self.rows):
            text = text[: text.rfind(b"}") + 1] + b"]"
        try:
            if columns is not None:
                names = columns * (len(_LIST.decode(text)) if is_part else count)
            else:
                objects = _KEYED_OBJECTS.decode(text).values() if is_keyed else _OBJECTS.decode(text)
                names = sum(map(len, objects))
        except NO_JSON:  # the last bracket of the part stands in a text
            text, names = bytes(self.rows), -1
        # There are more, too, where an object is the value of another.
        surplus = text.count(_MEMBER) - names - is_keyed * count
        # Quotes inside texts are escaped, and some writers put a space before the colon.
        if surplus and surplus not in (text.count(b"\\" + _MEMBER), -text.count(b'" :')):
            _parsed(text, _checked)


def _parsed(text: bytes, hook: Callable[[Any], object]) -> Any:
    """Parse JSON, given what makes a value of the pairs of an object."""
    try:
        return digits_kept(text.decode(errors="surrogateescape"), object_pairs_hook=hook, strict=False)
    except (ValueError, RecursionError) as error:
        raise not_json(error) from None


def _checked(pairs: Sequence[tuple[str, object]]) -> None:
    if len(dict(pairs)) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise RepeatedNameError(f"an object that has the name {name!r} twice")


@lru_cache(4)
def _beside_rows(rows_field: str) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a page without its rows."""
    page = msgspec.defstruct("BesideRows", [("rows", list[None]), *_BESIDE], rename={"rows": rows_field})
    return msgspec.json.Decoder(page)
