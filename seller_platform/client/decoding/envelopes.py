"""Envelopes: cuts the body of a page into its rows and the counts beside them, and finds names that stand twice.

Where an object has a name twice, readers of JSON keep the last value, and what stood under the first is lost.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from seller_platform.client.decoding.values import LARGEST_BIGINT, shape_of, whole_number
from seller_platform.client.http.responses import check_no_error, not_json, parsed_json
from seller_platform.contract import Dataset, Source
from seller_platform.contract.wire import CURRENT_PAGE, LAST_PAGE, PER_PAGE, TOTAL
from seller_platform.errors import ContractViolationError, RepeatedNameError, RowsMissingError

ARRAY, KEYED, BARE = "array", "keyed", "bare"
"""Where the rows of a page are: in an array, in an object keyed by id, or in an array without an envelope."""

NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_NOTHING = (b"", b"null", b"false", b'""')
_MEMBER = b'":'
_LARGEST_PART = 1 << 14

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_KEYED_OBJECTS = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]])


class Envelope(NamedTuple):
    """The counts that a page carries beside its rows; None where one is missing."""

    total: int | None = None
    last_page: int | None = None
    current_page: int | None = None
    per_page: int | None = None

    @classmethod
    def of(cls, beside: bytes) -> "Envelope":
        """Return the counts of a page, in any accepted spelling.

        Args:
            beside: The page without its rows.

        Raises:
            UnreadableBodyError: It carries an error, or has a name twice.
        """
        pairs, numbers = list[tuple[str, object]](), list[int | None]()

        def object_of(members: list[tuple[str, object]]) -> dict[str, object]:
            pairs[:] = members  # the page itself comes last
            return dict(members)

        sent = parsed_json(beside, object_of)
        check_no_error(sent)
        _check_names(pairs)
        for name in (TOTAL, LAST_PAGE, CURRENT_PAGE, PER_PAGE):
            try:
                number = sent[name] if type(sent.get(name)) is int else whole_number(str(sent.get(name)))
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
        # Whatever array takes the place of this one, the body stays valid JSON.
        beside = body[:first] + b"[]" + body[last + 1 :]
        try:
            if bytes(_OBJECT.decode(beside).get(rows_field, b"")) != b"[]":
                return None
        except NO_JSON:
            return None
        return cls(memoryview(body)[first : last + 1], ARRAY, Envelope.of(beside))

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
            rows = bytes(_OBJECT.decode(body).get(rows_field, b""))
        except NO_JSON as error:
            raise not_json(error) from None
        beside = body.replace(rows, rows[:1] + rows[-1:], 1) if rows[:1] in (b"[", b"{") else body
        envelope = Envelope.of(beside)
        if rows in _NOTHING and envelope.total == 0:
            rows = b"[]"
        container = {b"[": ARRAY, b"{": KEYED}.get(rows[:1])
        if container is None:
            problem = f"{rows_field} is {shape_of(rows)}" if rows else f"there is no {rows_field}"
            problem = f"{problem} in the answer, but the rows should be there"
            raise (RowsMissingError if rows in _NOTHING else ContractViolationError)(dataset.name, problem)
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
            parsed_json(text, _check_names)


def _check_names(pairs: Sequence[tuple[str, object]]) -> None:
    if len(dict(pairs)) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise RepeatedNameError(f"an object that has the name {name!r} twice")
