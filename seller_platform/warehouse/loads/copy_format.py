"""Rows in the CSV format of PostgreSQL's COPY, and the digest of a slice.

A *row* is a tuple: the values of `dataset.columns`, then the local day that places it (for accounts: the name of
the connection). Values are `str`, `int`, `Decimal`, `bool`, `date`, an ISO 8601 `str` with offset for a
timestamp, JSON text for a `Kind.JSON` column, or None.

A row is written as the values of a JSON array, which is CSV to COPY: texts and numbers are quoted, `null` is not, and a
backslash escapes quotes and itself. Only control characters have escapes that COPY does not know. They keep every row
on one line until `as_csv` replaces them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType

import msgspec
from psycopg import sql
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from seller_platform.contract import Dataset
from seller_platform.warehouse.postgres.database import identifiers
from seller_platform.warehouse.schema.tables import ROW_HASH, SELLER

Row = tuple[object, ...]

LINE_VERSION = 2
"""The version of the text that is hashed. Raise it when the same row is written in another way."""

HASH_BYTES = 16
_DIGEST_BITS = 8 * HASH_BYTES
_DIGEST_MODULUS = (1 << _DIGEST_BITS) - 1
_FEW_BITS = 16 * _DIGEST_BITS

_JSON = msgspec.json.Encoder()
_BETWEEN_LINES = b"]\n["
# A quote stays escaped. An escaped backslash is matched so that it is not taken for the begin of another escape.
_ESCAPE = re.compile(rb"\\(?:[\\nrtbf]|u00[01][0-9a-f])")
_CHARACTERS = {_JSON.encode(chr(code))[1:-1]: chr(code).encode() for code in range(32)} | {b"\\\\": b"\\\\"}


def sum_of_hashes(hashes: bytes) -> bytes:
    """Return the sum of hashes modulo 2**128 - 1."""
    number = int.from_bytes(hashes)
    # The hashes are digits to the base 2**128, which is 1 modulo 2**128 - 1: halves may be added at any digit.
    while (bits := number.bit_length()) > _FEW_BITS:
        half = bits // 2 // _DIGEST_BITS * _DIGEST_BITS
        number = (number >> half) + (number & ((1 << half) - 1))
    return (number % _DIGEST_MODULUS).to_bytes(HASH_BYTES)


class RowDigest:
    """An order-independent digest of rows: the sum of their XXH3 hashes modulo 2**128 - 1.

    Equal rows count as often as they occur. It detects accidental changes, not forgeries.
    """

    def __init__(self) -> None:
        self._sum = 0
        self.count = 0

    def add(self, hashes: bytes) -> None:
        """Count rows by their hashes."""
        self.add_sum(len(hashes) // HASH_BYTES, sum_of_hashes(hashes))

    def add_sum(self, count: int, hash_sum: bytes) -> None:
        """Count rows by the sum of their hashes."""
        self._sum = (self._sum + int.from_bytes(hash_sum)) % _DIGEST_MODULUS
        self.count += count

    @property
    def value(self) -> bytes:
        """The digest of the rows so far: 8 bytes count them, 16 are the sum."""
        return self.count.to_bytes(8, "big") + self._sum.to_bytes(HASH_BYTES, "big")


class RowWriter:
    """Writes a dataset's rows as lines; all of them have the same values of `dataset.tags`."""

    def __init__(self, tags: Sequence[str | None] = ()) -> None:
        self._tags = tuple(tags)
        self._seed = xxh3_64_intdigest(_JSON.encode(self._tags)) if tags else 0

    def lines(self, rows: Sequence[Row], extras: Mapping[int, str] = MappingProxyType({})) -> list[bytes]:
        """Return one line per row, without its end: columns, the day, and `extra` where the row has it.

        The fields unknown to the contract are JSON text by the row's position.
        """
        if not rows:
            return []
        lines = _JSON.encode_lines(rows)[1:-2].split(_BETWEEN_LINES)
        for position, extra in extras.items():
            lines[position] += b"," + _JSON.encode(extra)
        return lines

    def hashes(self, lines: Iterable[bytes]) -> bytes:
        """Return the XXH3 hashes of rows, 16 bytes each; they differ where columns, day, `extra` or tags differ."""
        return b"".join(map(xxh3_128_digest, lines, repeat(self._seed)))

    def block(
        self,
        lines: Sequence[bytes],
        hashes: bytes,
        *,
        account: str,
        load_id: int,
        page: int,
        with_extra: Iterable[int] = (),
    ) -> bytes:
        """Return the lines of one page, each with its tags, account, load, page and hash; some have `extra`."""
        if not lines:
            return b""
        after = b",%b," % _JSON.encode((*self._tags, account, load_id, page))[1:-1]
        parts = [b",null" + after] * (3 * len(lines))
        for position in with_extra:
            parts[3 * position + 1] = after
        parts[::3] = lines
        parts[2::3] = hashes.hex("\n", -HASH_BYTES).encode().splitlines(keepends=True)
        return b"".join(parts) + b"\n"


def as_csv(block: bytes) -> bytes:
    """Return whole lines of a block as COPY reads them."""
    return _ESCAPE.sub(lambda escape: _CHARACTERS[escape[0]], block) if b"\\" in block else block


def copy_statement(dataset: Dataset, table: sql.Identifier | None = None) -> sql.Composed:
    """Return the COPY statement that reads CSV of blocks; without a table, into the dataset's.

    Its text is UTF-8 whatever the session's encoding, so that the rows that are hashed are those that are stored.
    """
    columns = [column.name for column in dataset.columns]
    columns += [dataset.slice_column, "extra", *(column.name for column in dataset.tags)]
    columns += ["account", "load_id", "page", ROW_HASH]
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, QUOTE '\"', ESCAPE {}, NULL 'null', ENCODING 'UTF8')")
    return statement.format(table or sql.Identifier(SELLER, dataset.name), identifiers(columns), sql.Literal("\\"))
