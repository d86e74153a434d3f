"""Receives the rows of a slice, and remembers its pages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from seller_platform.contract.loads import PageFacts

Decode = Callable[[bytes], tuple[Sequence[tuple[Any, ...]], Mapping[int, str]]]
"""Decodes the body of a page into rows and their unknown fields, as `write` takes them."""


class RowSink(Protocol):
    """Receives the rows of a slice, and remembers its pages for a later reading."""

    @property
    def count(self) -> int:
        """Rows since the last restart."""

    @property
    def digest(self) -> bytes:
        """An order-independent digest of those rows."""

    def restart(self) -> None:
        """Forget every row."""

    def write(
        self, rows: Sequence[tuple[Any, ...]], *, tags: Sequence[str | None], extras: Mapping[int, str], page: int
    ) -> None:
        """Append the rows of one page."""

    @property
    def known(self) -> Mapping[bytes, PageFacts] | None:
        """The pages of an earlier reading, by key; None where pages have no keys, and every one is decoded."""

    def remember(self, key: bytes, *, duplicate_keys: int, unknown_fields: frozenset[str]) -> None:
        """Remember the page that was written last, so that a later reading knows it."""

    def write_late(self, key: bytes, body: bytes, decode: Decode, *, tags: Sequence[str | None], page: int) -> None:
        """Append the rows of a known page, which are decoded only if they are needed."""


class KeptRows:
    """Keeps the rows of a short list in memory.

    Attributes:
        rows: The rows since the last restart.
        extras: JSON text of their fields unknown to the contract, by the row's position.
    """

    known: None = None

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.extras: dict[int, str] = {}

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def digest(self) -> bytes:
        return repr(sorted(map(repr, self.rows))).encode()

    def write(self, rows: Sequence[tuple[Any, ...]], *, extras: Mapping[int, str], **_: object) -> None:
        self.extras |= {self.count + position: extra for position, extra in extras.items()}
        self.rows += rows

    def remember(self, *_: object, **__: object) -> None:
        """Remember nothing: its pages have no keys."""

    write_late = remember
