"""Compares a reading with the stored slice, and writes only what differs.

Rows are compared by the hash of their text first. What differs by its hash is then compared by value in PostgreSQL,
because an amount may be spelled 19.9 or 19.90: such a row stays, with its new hash. Both comparisons count equal rows.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import filterfalse
from struct import Struct, unpack
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from seller_platform.contract import Dataset, Kind
from seller_platform.warehouse.loads.copy_format import HASH_BYTES
from seller_platform.warehouse.loads.day_changes import has_moments
from seller_platform.warehouse.loads.profiles import Profile, profile_query
from seller_platform.warehouse.postgres.database import identifiers
from seller_platform.warehouse.schema.tables import GONE_LOAD_ID, HISTORY, ROW_HASH, SELLER, table_for

_HASH_AND_ADDRESS = Struct(f"{HASH_BYTES}s6s")
LOAD_ID = "load_id"
_OF_LOAD = (LOAD_ID, "page", ROW_HASH)

# One value for all rows, because psycopg takes a hundred times longer for a row each.
_STORED = sql.SQL(
    "SELECT string_agg(coalesce(uuid_send(row_hash), {none}) || tidsend(ctid), '') FROM {table} WHERE {inside}"
)
_NO_HASH = bytes(HASH_BYTES)

# Emptied at the end of each transaction and kept for the next: creating a table costs more than filling it.
_CREATE = sql.SQL("CREATE TEMPORARY TABLE IF NOT EXISTS {pending} (LIKE {table}) ON COMMIT DELETE ROWS")

_BRING_BACK = sql.SQL("""
INSERT INTO {pending} ({columns}, load_id)
SELECT {columns}, 0 FROM {history}
WHERE {inside} AND load_id < {before} AND gone_load_id >= {before}
""")

_EQUAL = sql.SQL("""
SELECT stored, new
FROM (
    SELECT unnest(array_agg(address) FILTER (WHERE NOT is_new)) AS stored,
           unnest(array_agg(address) FILTER (WHERE is_new)) AS new
    FROM (
        SELECT {content}, ctid AS address, false AS is_new FROM {table}
        WHERE {owned} AND ctid = ANY (%s::text[]::tid[])
        UNION ALL
        SELECT {content}, ctid, true FROM {pending}
    ) AS differing
    GROUP BY {content}
) AS equal
WHERE stored IS NOT NULL AND new IS NOT NULL
""")

_TAKE_HASH = sql.SQL("""
WITH equal AS (SELECT * FROM unnest(%(stored)s::text[]::tid[], %(new)s::text[]::tid[]) AS equal (stored, new)),
     dropped AS (DELETE FROM {pending} AS pending USING equal WHERE pending.ctid = equal.new
                 RETURNING equal.stored, pending.row_hash)
UPDATE {table} AS kept SET row_hash = dropped.row_hash FROM dropped
WHERE kept.{owned} AND kept.ctid = dropped.stored AND kept.row_hash IS DISTINCT FROM dropped.row_hash
""")

_MOVE = sql.SQL("""
WITH gone AS (DELETE FROM {table} WHERE {owned} AND ctid = ANY (%s::text[]::tid[]) AND {inside} RETURNING *),
     kept AS (INSERT INTO {history} ({columns}, {gone_load_id}) SELECT {columns}, {load} FROM gone)
{sums}
""")

_PUBLISH = sql.SQL("""
INSERT INTO {table} ({columns}, {load_id}) SELECT {columns}, {load} FROM {pending} WHERE {inside}
""")

_KEPT_TWICE = sql.SQL("""
SELECT gone.ctid::text FROM {table} AS gone JOIN {table} AS kept USING ({day}, {key})
WHERE gone.{owned} AND kept.{owned} AND {inside_gone} AND NOT kept.ctid = ANY (%(gone)s::text[]::tid[])
""")
_CAME_LATER = sql.SQL("""
SELECT gone.ctid::text FROM {table} AS gone JOIN {table} AS kept USING ({order_id})
WHERE gone.{owned} AND kept.{owned} AND {inside_gone} AND kept.{day} <> gone.{day} AND kept.load_id > gone.load_id
  AND ROW({entry_of_kept})::text = ROW({entry_of_gone})::text
""")
_DATED_ANEW = sql.SQL("""
SELECT DISTINCT kept.{day} FROM {table} AS kept JOIN {pending} AS new USING ({order_id})
WHERE kept.{owned} AND kept.{day} < {first_day} AND kept.{day} >= {first_day} - 62
  AND ROW({entry_of_kept})::text = ROW({entry_of_new})::text
ORDER BY 1 DESC LIMIT 31
""")

_FIRST_ROWS = sql.SQL("SELECT {content} FROM {rows} WHERE {inside} ORDER BY {order} LIMIT {most}")
_MOST_ROWS = 1_000

_ALL = sql.SQL("true")


@dataclass(frozen=True)
class StoredRows:
    """The rows of a slice as they are stored.

    An address is the ctid of a row in binary. It is valid within the transaction that read it, and in the partition of
    the slice's account.

    Attributes:
        address_of: Addresses by hash; of equal rows one.
        hashed: The hash and the address of each row, one after the other.
        unhashed: The addresses of rows without a hash that is believed.
    """

    count: int
    address_of: Mapping[bytes, bytes]
    hashed: bytes
    unhashed: Sequence[bytes]

    @property
    def are_distinct(self) -> bool:
        """Whether no hash occurs twice."""
        return len(self.address_of) + len(self.unhashed) == self.count

    @property
    def addresses(self) -> list[str]:
        """The addresses of all rows, as PostgreSQL writes them."""
        return [ctid_of(address) for address in (*(each for _, each in _unpacked(self.hashed)), *self.unhashed)]

    @property
    def hashes(self) -> bytes | None:
        """The hashes of all rows, one after the other; None if a row has none."""
        return None if self.unhashed else b"".join(each for each, _ in _unpacked(self.hashed))


@dataclass(frozen=True)
class RowsApart:
    """What a list and the stored rows do not have in common, by value: how many rows of each, and the first ones."""

    listed: int
    stored: int
    first_listed: Sequence[Mapping[str, Any]]
    first_stored: Sequence[Mapping[str, Any]]


def stored_rows(
    cursor: psycopg.Cursor[Any], dataset: Dataset, inside: sql.Composable, *, by_value: bool = False
) -> StoredRows:
    """Return the hashes and addresses of the stored rows that meet a condition; to compare by value, without hashes."""
    statement = _STORED.format(none=_NO_HASH, table=sql.Identifier(SELLER, dataset.name), inside=inside)
    with cursor.connection.cursor(binary=True) as binary:
        (found,) = binary.execute(statement).fetchone() or (None,)
    found = found or b""
    if by_value:
        addresses = [address for _, address in _unpacked(found)]
        return StoredRows(len(addresses), {}, b"", addresses)
    count, address_of, unhashed = len(found) // _HASH_AND_ADDRESS.size, dict(_unpacked(found)), []
    if address_of.pop(_NO_HASH, None) is not None:
        unhashed = [address for each, address in _unpacked(found) if each == _NO_HASH]
        found = b"".join(each + address for each, address in _unpacked(found) if each != _NO_HASH)
    return StoredRows(count, address_of, found, unhashed)


def difference(read: Sequence[bytes], stored: StoredRows) -> tuple[Sequence[bool], Sequence[str]]:
    """Compare the hashes of a reading with those of the stored rows; equal rows count as often as they occur.

    Returns:
        For each row of the reading, in its order, whether it is not stored; and the addresses of stored rows that were
        not read.
    """
    address_of, distinct = stored.address_of, set(read)
    if stored.are_distinct and len(distinct) == len(read):
        new = distinct.difference(address_of)
        gone = map(address_of.__getitem__, filterfalse(distinct.__contains__, address_of))
        return list(map(new.__contains__, read)), [*map(ctid_of, gone), *map(ctid_of, stored.unhashed)]
    unread = Counter(each for each, _ in _unpacked(stored.hashed))
    is_new = []
    for each in read:
        is_stored = bool(unread[each])
        unread[each] -= is_stored
        is_new.append(not is_stored)
    gone_rows = list(stored.unhashed)
    for each, address in _unpacked(stored.hashed):
        if unread[each]:
            unread[each] -= 1
            gone_rows.append(address)
    return is_new, [*map(ctid_of, gone_rows)]


class PendingRows:
    """New rows of a slice in a temporary table, until they are published.

    Args:
        owned: The condition for rows of the slice's account, which begins with a column: partitions share addresses.
    """

    def __init__(self, cursor: psycopg.Cursor[Any], dataset: Dataset, owned: sql.Composable) -> None:
        self.table = sql.Identifier("pg_temp", f"pending_{dataset.name}")
        self._cursor, self._dataset = cursor, dataset
        self._names = {
            "pending": self.table,
            "table": sql.Identifier(SELLER, dataset.name),
            "history": sql.Identifier(HISTORY, dataset.name),
            "gone_load_id": sql.Identifier(GONE_LOAD_ID),
            "owned": owned,
        }
        self._columns = [column.name for column in table_for(dataset).columns]
        self._columns_of_row = identifiers(name for name in self._columns if name != LOAD_ID)
        self._execute(_CREATE)

    def bring_back(self, inside: sql.Composable, *, before: int) -> None:
        """Add the former rows of a slice that were stored before a load and are gone since."""
        self._execute(_BRING_BACK, columns=self._columns_of_row, inside=inside, before=sql.Literal(before))

    def drop_equal(self, gone: Sequence[str]) -> list[str]:
        """Drop new rows that equal gone rows by value, and return the rows that are gone indeed.

        The stored row of such a pair takes the new hash and stays with the load that first brought it.
        """
        content = identifiers(name for name in self._columns if name not in _OF_LOAD)
        pairs = self._execute(_EQUAL, [list(gone)], content=content).fetchall()
        if not pairs:
            return list(gone)
        stored, new = map(list, zip(*pairs, strict=True))
        self._execute(_TAKE_HASH, {"stored": stored, "new": new})
        equal = set(stored)
        return [each for each in gone if each not in equal]

    def apart(self, gone: Sequence[str]) -> RowsApart:
        """Return the new rows and those that are gone, after equal ones were dropped."""
        ((listed,),) = self._execute(sql.SQL("SELECT count(*) FROM {pending}")).fetchall()
        at = sql.SQL("{} AND ctid = ANY ({}::text[]::tid[])").format(self._names["owned"], sql.Literal(list(gone)))
        content = identifiers(name for name in self._columns if name not in (*_OF_LOAD, "account"))
        order = identifiers([*self._dataset.order, *self._dataset.key])
        with self._cursor.connection.cursor(row_factory=dict_row) as cursor:
            first_listed, first_stored = (
                cursor.execute(
                    _FIRST_ROWS.format(
                        content=content, rows=rows, inside=inside, order=order, most=sql.Literal(_MOST_ROWS)
                    )
                ).fetchall()
                for rows, inside in ((self.table, _ALL), (self._names["table"], at))
            )
        return RowsApart(int(listed), len(gone), first_listed, first_stored)

    def free_to_go(self, gone: Sequence[str]) -> set[str]:
        """Return the gone rows whose key another row keeps, or that came later under another date, as they were."""
        day, key = self._dataset.slice_column, identifiers(self._dataset.key)
        at = sql.SQL("gone.ctid = ANY (%(gone)s::text[]::tid[])")
        names = {"day": sql.Identifier(day), "key": key, "inside_gone": at, **self._entry}
        statements = [_KEPT_TWICE] * bool(self._dataset.key) + [_CAME_LATER] * bool(self._entry)
        found = (self._execute(each, {"gone": list(gone)}, **names).fetchall() for each in statements)
        return {address for rows in found for (address,) in rows}

    def dated_anew(self, first_day: date) -> list[str]:
        """Return earlier days that have a new row under another date: an entry of an order, equal in all else."""
        if not self._entry:
            return []
        names = {"day": sql.Identifier(self._dataset.slice_column), "first_day": sql.Literal(first_day), **self._entry}
        return [str(day) for (day,) in self._execute(_DATED_ANEW, **names)]

    @property
    def _entry(self) -> dict[str, sql.Composable]:
        """The columns that stay when an entry of an order gets another date; nothing where rows are no entries."""
        columns = [column.name for column in self._dataset.columns if column.kind not in (Kind.DATE, Kind.TIMESTAMP)]
        orders = [name for name in columns if name.endswith("order_id")]
        if not orders or not has_moments(self._dataset):
            return {}
        of_each = {f"entry_of_{table}": identifiers(columns, table) for table in ("kept", "gone", "new")}
        return {"order_id": sql.Identifier(orders[0]), **of_each}

    def move_to_history(self, gone: Sequence[str], load_id: int, inside: sql.Composable | None = None) -> Profile:
        """Move stored rows, or those inside a condition, to schema `history` as gone; return their profile."""
        names = {"columns": identifiers(self._columns), "load": sql.Literal(load_id), "inside": inside or _ALL}
        sums = profile_query(self._dataset, sql.Identifier("gone"), _ALL)
        return Profile.of(self._dataset, self._execute(_MOVE, [list(gone)], sums=sums, **names).fetchall())

    def publish(self, load_id: int, inside: sql.Composable | None = None) -> Profile:
        """Insert new rows, or those inside a condition, into the dataset's table as a load's; return their profile."""
        names = {"columns": self._columns_of_row, "inside": inside or _ALL}
        self._execute(_PUBLISH, load=sql.Literal(load_id), load_id=sql.Identifier(LOAD_ID), **names)
        profile = profile_query(self._dataset, self.table, inside or _ALL)
        return Profile.of(self._dataset, self._cursor.execute(profile).fetchall())

    def _execute(self, statement: sql.SQL, values: Any = None, **names: sql.Composable) -> psycopg.Cursor[Any]:
        return self._cursor.execute(statement.format(**self._names, **names), values)


def ctid_of(address: bytes) -> str:
    """Return an address as PostgreSQL writes a ctid: `(block,row)`."""
    return "({},{})".format(*unpack(">IH", address))


def _unpacked(hashed: bytes) -> Any:
    """Iterate over the hash and the address of each row."""
    return _HASH_AND_ADDRESS.iter_unpack(hashed)
