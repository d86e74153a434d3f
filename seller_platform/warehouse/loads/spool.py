"""The spool: the rows of a slice between their reading and their storing, in a file where they are many."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import accumulate, compress, count, islice
from operator import itemgetter
from struct import iter_unpack
from types import MappingProxyType

from seller_platform.contract.loads import NO_PAGES, PageFacts
from seller_platform.errors import WarehouseError
from seller_platform.warehouse.loads.copy_format import HASH_BYTES, Row, RowDigest, RowWriter, as_csv, sum_of_hashes

_BYTES_IN_MEMORY = 8 << 20
_CHUNK_BYTES = 1 << 20
_CHUNK_LINES = 5_000
_HASH = f"{HASH_BYTES}s"

_Decode = Callable[[bytes], tuple[Sequence[Row], Mapping[int, str]]]


class Spool:
    """The rows of a slice during reading: in memory, above 8 MiB in a file.

    A reader writes to it; `restart` deletes the rows of a failed attempt.

    Attributes:
        days: The rows by the value of the slice column: for most datasets the local day, as text.
        known: Pages of an earlier reading of the slice, by key.
        pages: The pages of this reading that are known to the next one, by key.
    """

    def __init__(self, name: str, account: str, load_id: int, known: Mapping[bytes, PageFacts] = NO_PAGES) -> None:
        """Open an empty spool for rows of an account, unless `write` names another; errors have the slice's name."""
        self.load_id, self.known = load_id, known
        self._name, self._account = name, account
        self._writers: dict[tuple[str | None, ...], RowWriter] = {}
        self._file = tempfile.SpooledTemporaryFile(_BYTES_IN_MEMORY)  # noqa: SIM115  # closed by `close`
        self._bodies = tempfile.SpooledTemporaryFile(_BYTES_IN_MEMORY)  # noqa: SIM115  # closed by `close`
        self._forget()

    def _forget(self) -> None:
        self._digest, self._hashes = RowDigest(), bytearray()
        self.days: Counter[str] = Counter()
        self.pages: dict[bytes, PageFacts] = {}
        # Known pages whose rows are not decoded yet: the bytes of the body, how it is decoded, tags, and the number.
        self._late: list[tuple[int, _Decode, Sequence[str | None], int]] = []

    @property
    def count(self) -> int:
        return self._digest.count

    @property
    def digest(self) -> bytes:
        """An order-independent digest of the rows so far."""
        return self._digest.value

    @property
    def hashes(self) -> list[bytes]:
        """The hash of each row, in the order of the rows."""
        self._decode_late()
        return [each for (each,) in iter_unpack(_HASH, self._hashes)]

    def restart(self) -> None:
        """Delete every row."""
        self._forget()
        with spool_errors(self._name):
            for file in (self._file, self._bodies):
                file.seek(0)
                file.truncate()

    def write(
        self,
        rows: Sequence[Row],
        *,
        tags: Sequence[str | None] = (),
        extras: Mapping[int, str] = MappingProxyType({}),
        page: int,
        account: str | None = None,
    ) -> None:
        """Append the rows of one page. `account` is given where it is not the slice's own."""
        self._last = self._written(rows, tags, extras, account or self._account, page)
        self._count(self._last)

    def remember(self, key: bytes, *, duplicate_keys: int, unknown_fields: frozenset[str]) -> None:
        """Remember the page that was written last, so that a later reading knows it."""
        self.pages[key] = replace(self._last, duplicate_keys=duplicate_keys, unknown_fields=unknown_fields)

    def write_late(self, key: bytes, body: bytes, decode: _Decode, *, tags: Sequence[str | None], page: int) -> None:
        """Append the rows of a known page. They are decoded when `hashes` or `chunks` need them."""
        facts = self.known[key]
        self.pages[key] = facts
        self._count(facts)
        self._late.append((len(body), decode, tags, page))
        with spool_errors(self._name):
            self._bodies.write(body)

    def _count(self, facts: PageFacts) -> None:
        self._digest.add_sum(facts.rows, facts.hash_sum)
        self.days.update(facts.days)

    def _written(
        self, rows: Sequence[Row], tags: Sequence[str | None], extras: Mapping[int, str], account: str, page: int
    ) -> PageFacts:
        """Write the rows of one page to the file, and return what they add to the slice."""
        key = tuple(tags)
        if key not in self._writers:
            self._writers[key] = RowWriter(key)
        writer = self._writers[key]
        lines = writer.lines(rows, extras)
        hashes = writer.hashes(lines)
        self._hashes += hashes
        block = writer.block(lines, hashes, account=account, load_id=self.load_id, page=page, with_extra=extras)
        with spool_errors(self._name):
            self._file.write(block)
        days = Counter(map(itemgetter(-1), rows))
        return PageFacts(len(rows), sum_of_hashes(hashes), {str(day): rows for day, rows in days.items()})

    def _decode_late(self) -> None:
        """Decode the known pages that were written late."""
        late, self._late = self._late, []
        with spool_errors(self._name):
            self._bodies.seek(0)
        for size, decode, tags, page in late:
            with spool_errors(self._name):
                body = self._bodies.read(size)
            rows, extras = decode(body)
            self._written(rows, tags, extras, self._account, page)

    def chunks(self, chosen: Iterable[bool] | None = None) -> Iterator[bytes]:
        """Yield the chosen rows, or all that was written, from the start, as CSV."""
        return map(as_csv, self._blocks(chosen))

    def row_at(self, line: int, chosen: Sequence[bool] | None = None) -> int:
        """Return the number of the row, from 1, that is read when COPY has read so many lines of the CSV."""
        written = count(1) if chosen is None else compress(count(1), chosen)
        rows = (row for block in self._blocks(chosen) for row in block.splitlines(keepends=True))
        # Until the end of the first row, COPY does not know which character ends a line, and counts the other one.
        lines = (
            text.count(b"\n") if number else text.count(b"\r") + 1 for number, text in enumerate(map(as_csv, rows))
        )
        return next(number for number, end in zip(written, accumulate(lines), strict=False) if end >= line)

    def _blocks(self, chosen: Iterable[bool] | None) -> Iterator[bytes]:
        """Yield whole lines of what was written."""
        self._decode_late()
        with spool_errors(self._name):
            self._file.seek(0)
        if chosen is not None:
            lines = compress(self._file, chosen)
            while part := list(islice(lines, _CHUNK_LINES)):
                yield b"".join(part)
            return
        while chunk := self._file.read(_CHUNK_BYTES):
            yield chunk + self._file.readline()

    def close(self) -> None:
        """Close the file and free the memory."""
        for file in (self._file, self._bodies):
            with suppress(OSError):  # on a full disk it tries once more to write rows that are not needed any more
                file.close()


@contextmanager
def spool_errors(name: str) -> Iterator[None]:
    """Turn an OSError into one of ours, which names the rows. A write may fail as late as in the step after it."""
    try:
        yield
    except OSError as error:
        folder = tempfile.tempdir or "the folder for temporary files"
        raise WarehouseError(
            f"{name}: its rows cannot be kept in {folder} while it is read: {error.strerror or error}",
            code="SpoolError",
            step="The former rows are unchanged; make room there, or name another folder by TMPDIR, and try again.",
        ) from error
