"""Rows in the text format of PostgreSQL's COPY, and the digest of a slice.

A *row* is a tuple: the values of `dataset.columns`, then the local day that places it (for accounts: the name of
the connection). Values are `str`, `int`, `Decimal`, `bool`, `date`, an ISO 8601 `str` with offset for a
timestamp, JSON text for a `Kind.JSON` column, or None.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from operator import contains, itemgetter
from struct import iter_unpack
from types import MappingProxyType

from psycopg import sql
from xxhash import xxh3_128_digest

from seller_platform.contract import Dataset, Kind
from seller_platform.counts import count_of
from seller_platform.warehouse.schema.tables import ROW_HASH, SELLER

Row = tuple[object, ...]

# COPY's text format, with NULL spelled as Python spells it: then "%s" writes a row without looking at its values.
_NULL = "None"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

HASH_BYTES = 16
_DIGEST_BITS = 8 * HASH_BYTES
_HASH_DIGITS = 2 * HASH_BYTES


def row_hashes(lines: Iterable[str]) -> bytes:
    """Return the XXH3 hashes of lines, 16 bytes each, one after the other."""
    return b"".join(map(xxh3_128_digest, lines))


class RowDigest:
    """An order-independent digest of rows: the sum of their XXH3 hashes modulo 2**128.

    Equal rows count as often as they occur. It detects accidental changes, not forgeries.
    """

    def __init__(self) -> None:
        self._sum = 0
        self.count = 0

    def add(self, hashes: bytes) -> None:
        """Count rows by their hashes."""
        high = low = 0
        for upper, lower in iter_unpack(">QQ", hashes):
            high += upper
            low += lower
        self._sum = (self._sum + (high << _DIGEST_BITS // 2) + low) % (1 << _DIGEST_BITS)
        self.count += len(hashes) // HASH_BYTES

    @property
    def value(self) -> bytes:
        """The digest of the rows so far: 8 bytes count them, 16 are the sum."""
        return self.count.to_bytes(8, "big") + self._sum.to_bytes(_DIGEST_BITS // 8, "big")


class RowWriter:
    """Writes a dataset's rows as lines of COPY's text format.

    Args:
        dataset: Whose rows.
        tags: The values of `dataset.tags`, the same for every row.
    """

    def __init__(self, dataset: Dataset, tags: Sequence[str | None] = ()) -> None:
        if len(tags) != len(dataset.tags):
            raise ValueError(f"{dataset.name} has {count_of(len(dataset.tags), 'tag')}, not {len(tags)}")
        self._fields = len(dataset.columns) + len(tags) + 2
        constants = [_escaped(tag).replace("%", "%%") for tag in tags]
        self._template = "\t".join([*["%s"] * len(dataset.columns), *constants, _NULL, "%s"])
        self._general = "\t".join([*["%s"] * len(dataset.columns), *constants, "%s", "%s"])
        # Looking for a text among Decimals is slow: each comparison asks whether the text is a number.
        texts = [number for number, column in enumerate(dataset.columns) if column.kind in (Kind.TEXT, Kind.JSON)]
        self._texts: Callable[[Row], tuple[object, ...]] = itemgetter(*texts, -1)

    def lines(self, rows: Sequence[Row], extras: Mapping[int, str] = MappingProxyType({})) -> list[str]:
        """Return one line per row, without its end: columns, tags, `extra` and the day.

        Args:
            rows: Any number of rows.
            extras: JSON text of the fields unknown to the contract, by the row's position.
        """
        if extras:
            return [
                self._general % (*map(_escaped, row[:-1]), _escaped(extras.get(position)), row[-1])
                for position, row in enumerate(rows)
            ]
        template = self._template
        lines = [template % row for row in rows]
        if self._are_plain(rows, lines):
            return lines
        tabs = self._fields - 1
        return [
            template % tuple(map(_escaped, row))
            if "\\" in line or "\n" in line or "\r" in line or line.count("\t") != tabs or _NULL in texts
            else line
            for line, row, texts in zip(lines, rows, map(self._texts, rows), strict=True)
        ]

    def _are_plain(self, rows: Sequence[Row], lines: Sequence[str]) -> bool:
        """Whether surely no value needs an escape. The whole batch is tested at the speed of C."""
        text = "\n".join(lines)
        return (
            "\\" not in text
            and "\r" not in text
            and text.count("\t") == (self._fields - 1) * len(lines)
            and text.count("\n") == max(0, len(lines) - 1)
            # Each line spells NULL once, for `extra`; more of it is a null value, or text that only looks like one.
            and (text.count(_NULL) == len(lines) or not any(map(contains, map(self._texts, rows), repeat(_NULL))))
        )

    @staticmethod
    def block(lines: Sequence[str], hashes: bytes, *, account: str, load_id: int, page: int) -> bytes:
        """Return the lines of one page for COPY, each with its account, load, page and hash."""
        between = f"\t{_escaped(account)}\t{load_id}\t{page}\t"
        digits = hashes.hex()
        starts = range(0, len(digits), _HASH_DIGITS)
        return "".join(
            [
                f"{line}{between}{digits[start : start + _HASH_DIGITS]}\n"
                for line, start in zip(lines, starts, strict=True)
            ]
        ).encode()


def copy_statement(dataset: Dataset, table: sql.Identifier | None = None) -> sql.Composed:
    """Return the COPY statement that reads the blocks of a `RowWriter`; without a table, into the dataset's."""
    columns = [column.name for column in (*dataset.columns, *dataset.tags)]
    columns += ["extra", dataset.slice_column, "account", "load_id", "page", ROW_HASH]
    return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT text, NULL {})").format(
        table or sql.Identifier(SELLER, dataset.name),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.Literal(_NULL),
    )


def _escaped(value: object) -> str:
    if value is None:
        return _NULL
    text = str(value)
    if not text.isprintable() or "\\" in text:
        text = text.translate(_ESCAPES)
    return "Non\\e" if text == _NULL else text
