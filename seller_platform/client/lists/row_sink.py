"""The protocol of the object that receives the rows of a slice."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class RowSink(Protocol):
    """Receives the rows of a slice."""

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
