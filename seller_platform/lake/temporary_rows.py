"""The rows of an export between their reading and their writing, in a temporary file."""

import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from tempfile import TemporaryFile
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class ExportedSlice:
    """The rows of an account and a month, in the temporary file.

    Attributes:
        account: None for all rows of the table.
        month: Its first day; None for all rows of the account.
        start: Where they begin in the file.
    """

    account: str | None
    month: date | None
    start: int
    rows: int
    digest: str
    load_ids: tuple[int, ...]

    @property
    def application(self) -> str:
        """The name under which the log of the table keeps the digest."""
        return f"seller_platform|{self.account or ''}|{self.month or ''}"

    @property
    def number(self) -> int:
        """The digest as the log of the table keeps it: 63 bits."""
        return int(self.digest[:16], 16) >> 1


class TemporaryRows(io.FileIO):
    """A temporary file without a name, which a killed process does not leave, and a digest of what is written to it.

    It has no buffer, so that on a full disk a write fails, and none of the steps after it.
    """

    def __init__(self) -> None:
        with TemporaryFile() as file:
            super().__init__(os.dup(file.fileno()), "r+b")
        self.digest = sha256()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        rest = memoryview(data)
        while rest:
            rest = rest[super().write(rest) :]
        return len(data)

    def shorten(self, size: int) -> None:
        """Delete what is behind a position, and continue there."""
        self.truncate(size)
        self.seek(size)


def batches_of(spool: TemporaryRows, slices: Iterable[ExportedSlice]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of slices from the file."""
    for each in slices:
        spool.seek(each.start)
        with pa.ipc.open_stream(spool) as stream:
            yield from stream
