"""JSON as a stream: reads arrays of any length by element, as the text that was sent.

ijson is not used, because it converts the text to values: a SKU sent as 1e2 becomes 1E+2, half of a surrogate pair
becomes a question mark, and a number of 5,000 digits crashes the process (ijson 3.6 with yajl2_c). It is not faster
either.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import NoReturn

from seller_platform.errors import UnreadableBodyError

_LARGEST_VALUE = 16 << 20
_BLANKS = " \t\r\n"


class JsonText:
    """Reads JSON that arrives in pieces, and holds only the value that is being read.

    Every method raises `UnreadableBodyError` where the text is no JSON, or was cut.
    """

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._buffer, self._place = "", 0
        self._scan = json.JSONDecoder(parse_float=_nothing, parse_int=_nothing, parse_constant=_refuse_constant)

    def peek(self) -> str:
        """Return the next character that is no blank; an empty text at the end."""
        while True:
            while self._place < len(self._buffer):
                if self._buffer[self._place] not in _BLANKS:
                    return self._buffer[self._place]
                self._place += 1
            if not self._extend():
                return ""

    def value(self) -> str:
        """Return the whole text of the next value."""
        if not self.peek():
            raise UnreadableBodyError("a body that was cut")
        while True:
            end: int | None = None
            with suppress(ValueError):
                end = self._scan.raw_decode(self._buffer, self._place)[1]
            # A number may go on in the next piece.
            if end is not None and (end < len(self._buffer) or not self._extend()):
                value, self._place = self._buffer[self._place : end], end
                return value
            if end is None and not self._extend():
                raise UnreadableBodyError("a body that is not JSON, or was cut")

    def elements(self) -> Iterator[str]:
        """Yield the text of each element of the array that begins here."""
        self._take("[")
        while self.peek() != "]":
            yield self.value()
            if self.peek() != "]":
                self._take(",")
                if self.peek() == "]":
                    raise UnreadableBodyError("a body that is not JSON")
        self._take("]")

    def names(self) -> Iterator[str]:
        """Yield the name of each member of the object that begins here.

        The caller reads the value before the next name.
        """
        self._take("{")
        while self.peek() != "}":
            if self.peek() != '"':
                raise UnreadableBodyError("a body that is not JSON")
            name = str(json.loads(self.value()))
            self._take(":")
            yield name
            if self.peek() != "}":
                self._take(",")
        self._take("}")

    def end(self) -> None:
        """Return if nothing follows.

        Raises:
            UnreadableBodyError: Something follows.
        """
        if self.peek():
            raise UnreadableBodyError("a body with something after its JSON")

    def _take(self, expected: str) -> None:
        character = self.peek()
        if character != expected:
            raise UnreadableBodyError("a body that is not JSON" if character else "a body that was cut")
        self._place += 1

    def _extend(self) -> bool:
        """Read as much again as is held, so that long values are scanned seldom."""
        held = self._buffer[self._place :]
        if len(held) > _LARGEST_VALUE:
            raise UnreadableBodyError(f"a body that is not JSON, or has a value beyond {_LARGEST_VALUE >> 20} MiB")
        fresh: list[str] = []
        size = 0
        for piece in self._pieces:
            fresh.append(piece)
            size += len(piece)
            if size and size >= len(held):
                break
        self._buffer, self._place = held + "".join(fresh), 0
        return size > 0


def _nothing(_: str) -> None:
    """Convert no number: only the end of a value is needed."""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
