"""Tests the comparison of a reading with the stored rows, by their hashes."""

from collections.abc import Sequence

import pytest

from seller_platform.warehouse.loads.difference import StoredRows, ctid_of, difference

_HASHES = {name: name.encode() * 16 for name in "abcd"}


def _stored(rows: Sequence[str]) -> StoredRows:
    """Return rows that are named by their hash and a number, which is their address; `-` stands for no hash."""
    addresses = {row: row[1:].encode() * 6 for row in rows}
    hashed = [row for row in rows if row[0] != "-"]
    return StoredRows(
        len(rows),
        {_HASHES[row[0]]: addresses[row] for row in hashed},
        b"".join(_HASHES[row[0]] + addresses[row] for row in hashed),
        [addresses[row] for row in rows if row[0] == "-"],
    )


@pytest.mark.parametrize(
    ("read", "stored", "new", "gone"),
    [
        ("", ["a1", "b2"], "", "12"),
        ("abc", [], "abc", ""),
        ("abc", ["a1", "b2", "c3"], "", ""),
        ("abc", ["b1", "d2"], "ac", "2"),
        ("ab", ["a1", "-2"], "b", "2"),
        ("aab", ["a1", "a2", "a3", "d4"], "b", "14"),
        ("aaab", ["a1", "b2"], "aa", ""),
        ("aa", ["a1", "b2", "b3", "-4"], "a", "234"),
        ("ab", ["a1", "a2", "-3"], "b", "13"),
    ],
)
def test_equal_rows_count_as_often_as_they_occur(read: str, stored: Sequence[str], new: str, gone: str) -> None:
    rows = _stored(stored)
    found = difference([_HASHES[name] for name in read], rows)

    assert "".join(name for name, is_new in zip(read, found.is_new, strict=True) if is_new) == new
    # Of equal rows the first ones go.
    assert b"".join(sorted(found.gone)) == b"".join(number.encode() * 6 for number in gone)


def test_rows_without_a_hash_are_counted_and_have_no_digest() -> None:
    hashed, other = _stored(["a1", "b2"]), _stored(["a1", "-2"])

    assert (hashed.hashes, other.hashes) == (_HASHES["a"] + _HASHES["b"], None)
    assert hashed.addresses == other.addresses == [b"1" * 6, b"2" * 6]


def test_an_address_is_written_as_postgresql_writes_it() -> None:
    assert ctid_of(bytes([0, 1, 0, 2, 1, 3])) == "(65538,259)"
