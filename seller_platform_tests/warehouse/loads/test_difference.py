"""Tests the comparison of a reading with the stored rows, by their hashes."""

from collections.abc import Sequence
from uuid import UUID

import pytest
from psycopg import sql
from sqlalchemy import text

from seller_platform.contract import dataset_named
from seller_platform.warehouse.loads.difference import StoredRows, ctid_of, difference, stored_rows
from seller_platform.warehouse.postgres.database import Database, driver_of

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
    is_new, addresses = difference([_HASHES[name] for name in read], rows)

    assert "".join(name for name, new_row in zip(read, is_new, strict=True) if new_row) == new
    # Of equal rows the first ones go.
    assert sorted(addresses) == sorted(ctid_of(number.encode() * 6) for number in gone)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([], True),
        (["a1", "b2", "c3"], True),
        (["a1", "-2"], True),
        (["a1", "b2", "-3"], True),
        (["-1", "-2"], True),
        (["a1", "a2"], False),
        (["a1", "a2", "-3"], False),
        (["a1", "a2", "b3", "-4", "-5"], False),
    ],
)
def test_rows_are_distinct_unless_a_hash_occurs_twice(stored: Sequence[str], *, expected: bool) -> None:
    assert _stored(stored).are_distinct is expected


def test_stored_rows_have_their_hashes_or_are_compared_by_value(database: Database) -> None:
    with database.begin() as connection:
        for row_hash in (f"'{UUID(int=7)}'", f"'{UUID(int=8)}'", "NULL"):
            values = f"{row_hash}, '2026-03-01', 'de-2', 1, 1"
            columns = "row_hash, local_day, account, load_id, page"
            connection.execute(text(f"INSERT INTO seller.transactions ({columns}) VALUES ({values})"))
        with driver_of(connection).cursor() as cursor:
            of_all, of_hashed, by_value = (
                stored_rows(cursor, dataset_named("transactions"), sql.SQL(inside), by_value=by_value)
                for inside, by_value in (("true", False), ("row_hash IS NOT NULL", False), ("true", True))
            )

    assert (of_all.count, of_all.hashes, len(of_all.unhashed), of_all.are_distinct) == (3, None, 1, True)
    assert of_all.address_of.keys() == {bytes(15) + b"\x07", bytes(15) + b"\x08"}
    assert (of_hashed.count, of_hashed.hashes) == (2, bytes(15) + b"\x07" + bytes(15) + b"\x08")
    assert (by_value.count, by_value.hashed, len(by_value.unhashed)) == (3, b"", 3)
    assert of_all.addresses == by_value.addresses


def test_an_address_is_written_as_postgresql_writes_it() -> None:
    assert ctid_of(bytes([0, 1, 0, 2, 1, 3])) == "(65538,259)"
