"""A buffer of rows, written by COPY whenever it holds a few megabytes."""

from collections import Counter
from collections.abc import Sequence

import psycopg

from seller_platform.contract import Dataset
from seller_platform.warehouse.loads.copy_format import Row, RowWriter, as_csv, copy_statement

_FULL_BYTES = 4 << 20
_LOAD = 0  # these rows have no load


class CopyBuffer:
    """Writes rows of any datasets inside the caller's transaction; `flush` writes the rest.

    Attributes:
        counts: The rows of each dataset so far.
    """

    def __init__(self, connection: psycopg.Connection) -> None:
        self.counts: Counter[str] = Counter()
        self._connection = connection
        self._writers: dict[tuple[str, tuple[str, ...]], RowWriter] = {}
        self._blocks: dict[str, tuple[Dataset, list[bytes]]] = {}
        self._bytes = 0

    def add(self, dataset: Dataset, rows: Sequence[Row], *, account: str, tags: tuple[str, ...] = ()) -> None:
        """Append rows of one account."""
        key = dataset.name, tags
        if key not in self._writers:
            self._writers[key] = RowWriter(dataset, tags)
        writer = self._writers[key]
        lines = writer.lines(rows)
        block = writer.block(lines, writer.hashes(lines), account=account, load_id=_LOAD, page=0)
        self._blocks.setdefault(dataset.name, (dataset, []))[1].append(block)
        self.counts[dataset.name] += len(rows)
        self._bytes += len(block)
        if self._bytes > _FULL_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write every buffered row."""
        for dataset, blocks in self._blocks.values():
            with self._connection.cursor() as cursor, cursor.copy(copy_statement(dataset)) as copy:
                copy.write(as_csv(b"".join(blocks)))
        self._blocks, self._bytes = {}, 0
