"""Tests that rows written as CSV arrive exactly as in PostgreSQL's text format, whatever they hold."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal

import pytest
from psycopg import Cursor, sql

from seller_platform.contract import DATASETS, Dataset, Kind, Window, dataset_named
from seller_platform.errors import ContractViolationError
from seller_platform.warehouse.loads.copy_format import LINE_VERSION, Row, RowDigest, RowWriter, as_csv, copy_statement
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform_tests.support.stored_rows import count_rows, execute, store_slice, stored

ORDERS, MARCH = dataset_named("orders"), Window.month_of(date(2026, 3, 1))
DAY, ROWS = "2026-03-05", 200

TEXTS = (
    *("", " ", "a", "null", "NULL", "None", "\\N", "\\", "\\\\", "\\.", '"', '""', '\\"', "'", ",", '","'),
    *("\t", "\n", "\r", "\r\n", "a\nb\n", "\b\f\v", "\x01\x1f\x7f", "\\n", "\\u0041", "\\u0000"),
    *("]\n[", "[]", "/", "\\/", "%s", "{}"),
    *("é", "竹", "\u2028\u2029", "\ufeff", "\U0001f600", "e\u0301", "\u202e", "\x85\xa0", "x" * 3000),
)
AMOUNTS = (
    *("0", "0.10", "-0.00", "100", "1E+2", "1E-7", "-7.50", "12345678901234567890.123456789"),
    *("0.000000000000000000000000000001", "9" * 40),
)
MOMENTS = (
    *("2026-03-05T10:00:00Z", "2026-03-05T10:00:00.123456+05:30"),
    *("2026-03-05T23:59:59-08:00", "2026-03-05T10:00:00+00:00"),
)
DOCUMENTS = (
    *("[]", "{}", '"text"', "1.10", "true", '{"a": [1.10, null, {"b": ""}]}', '{"nul": "\\\\u0000"}'),
    *('{"a\\tb": "\\u00e9 \\ud83d\\ude00 \\"q\\" \\\\ \\/ \\n"}', '{ "space" :\n\t[ 1 , 2 ] }', '"\U0001f600\u2028"'),
)


def _value(rng: random.Random, kind: Kind, *, is_required: bool) -> object:  # noqa: PLR0911  # one for each kind
    if not is_required and rng.random() < 0.15:
        return None
    match kind:
        case Kind.TEXT:
            return rng.choice([*TEXTS, "".join(rng.choices(TEXTS[:-1], k=4))])
        case Kind.INTEGER:
            return rng.choice([0, 1, -1, 2**63 - 1, -(2**63), rng.randrange(10**6)])
        case Kind.MONEY | Kind.NUMBER:
            return Decimal(rng.choice([*AMOUNTS, f"{rng.randrange(10**6)}.{rng.randrange(100):02d}"]))
        case Kind.BOOLEAN:
            return rng.random() < 0.5
        case Kind.DATE:
            return rng.choice(["2026-03-05", "0001-01-01", "9999-12-31"])
        case Kind.TIMESTAMP:
            return rng.choice(MOMENTS)
        case Kind.JSON:
            return rng.choice(DOCUMENTS)


def _rows(dataset: Dataset, seed: int) -> tuple[list[Row], dict[int, str]]:
    rng = random.Random(f"{dataset.name} {seed}")
    rows: list[Row] = [
        (*(_value(rng, column.kind, is_required=column.name == dataset.day) for column in dataset.columns), DAY)
        for _ in range(ROWS)
    ]
    return rows, {position: rng.choice(DOCUMENTS) for position in rng.sample(range(ROWS), 20)}


def _former_lines(rows: Sequence[Row], extras: Mapping[int, str], rest: Sequence[object]) -> Iterator[str]:
    """Yield rows in COPY's text format, value by value."""
    escapes = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
    for position, row in enumerate(rows):
        values = (*row, extras.get(position), *rest)
        yield "\t".join("\\N" if value is None else str(value).translate(escapes) for value in values) + "\n"


@contextmanager
def _copied(cursor: Cursor, dataset: Dataset, name: str) -> Iterator[sql.Identifier]:
    table = sql.Identifier("pg_temp", name)
    cursor.execute(sql.SQL("CREATE TEMPORARY TABLE {} (LIKE {})").format(table, sql.Identifier("seller", dataset.name)))
    yield table


@pytest.mark.parametrize("dataset", DATASETS, ids=lambda dataset: dataset.name)
def test_rows_arrive_as_in_the_text_format_in_any_session(database: Database, dataset: Dataset) -> None:
    rows, extras = _rows(dataset, 1)
    tags = ('a "tag",\n\\',) * len(dataset.tags)
    account, load_id, page = 'the "shop",\n\t\\', 7, 3
    writer = RowWriter(tags)
    lines = writer.lines(rows, extras)
    hashes = writer.hashes(lines)
    block = writer.block(lines, hashes, account=account, load_id=load_id, page=page, with_extra=extras)

    with database.connect() as connection, driver_of(connection).cursor() as cursor:
        cursor.execute("SET client_encoding = LATIN1")
        with _copied(cursor, dataset, "new") as new, cursor.copy(copy_statement(dataset, new)) as copy:
            copy.write(as_csv(block))
        cursor.execute("SET client_encoding = UTF8")
        with _copied(cursor, dataset, "former") as former:
            columns = [column.name for column in dataset.columns]
            columns += [dataset.slice_column, "extra", *(column.name for column in dataset.tags)]
            columns += ["account", "load_id", "page"]
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(former, names)) as copy:
                copy.write("".join(_former_lines(rows, extras, (*tags, account, load_id, page))))
        differences = sql.SQL("SELECT {columns} FROM {a} EXCEPT ALL SELECT {columns} FROM {b}")
        # Texts, because equal amounts may have another scale.
        texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in columns)
        found = [
            cursor.execute(differences.format(columns=texts, a=a, b=b)).fetchall()
            for a, b in ((new, former), (former, new))
        ]
        stored = cursor.execute(sql.SQL("SELECT string_agg(uuid_send(row_hash), '') FROM {}").format(new)).fetchone()

    assert found == [[], []]
    assert stored is not None
    assert sorted(stored[0][start : start + 16] for start in range(0, 16 * ROWS, 16)) == sorted(
        hashes[start : start + 16] for start in range(0, 16 * ROWS, 16)
    )


def test_equal_rows_have_equal_hashes_whatever_page_they_are_on() -> None:
    rows, extras = _rows(ORDERS, 3)
    writer, other = RowWriter(("platform",)), RowWriter(("non-platform",))
    alone = b"".join(
        writer.hashes(writer.lines([row], {0: extras[number]} if number in extras else {}))
        for number, row in enumerate(rows)
    )
    together = writer.hashes(writer.lines(rows, extras))
    by_parts, at_once = RowDigest(), RowDigest()
    for start in range(0, len(together), 48):
        by_parts.add(together[start : start + 48])
    at_once.add(together)

    assert together == alone
    assert by_parts.value == at_once.value
    assert at_once.value[8:] == (
        sum(int.from_bytes(together[start : start + 16]) for start in range(0, 16 * ROWS, 16)) % (2**128 - 1)
    ).to_bytes(16)
    assert not set(writer.lines(rows)) - set(other.lines(rows))
    assert writer.hashes(writer.lines(rows)) != other.hashes(other.lines(rows))


def _order(number: int, name: str) -> Row:
    return (f"O-{number}", "2026-03-05T10:00:00Z", "Shipped", Decimal("10.0"), "USD", 1, "SKU", None, name, DAY)


def _load(database: Database, rows: Sequence[Row], extras: Mapping[int, str] | None = None) -> Receipt:
    return store_slice(database, ORDERS, MARCH, rows, "us-7", extras=extras)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("number", "refused", "problem"),
    [
        (3, _order(3, "a\0b"), "row 3: not a value PostgreSQL takes .22021"),
        (3, (*_order(3, "a\nb")[:3], "ten", *_order(3, "a\nb")[4:]), "row 3, column order_total: not a value"),
        (1, (*_order(1, "a\nb")[:1], "a\r\nb", *_order(1, "a\nb")[2:]), "row 1, column purchase_date: not a value"),
    ],
)
def test_a_refused_row_is_named_by_its_number_among_rows_of_many_lines(
    database: Database, is_first: bool, number: int, refused: Row, problem: str
) -> None:
    rows = [_order(1, "a\nb\r\nc"), _order(2, "\n\n"), _order(3, "c"), _order(4, "d")]
    if not is_first:
        _load(database, [_order(2, "\n\n")])  # is not written again
    rows[number - 1] = refused

    with pytest.raises(ContractViolationError, match=problem):
        _load(database, rows)


def test_rows_hashed_by_a_former_version_stay_where_they_are(database: Database) -> None:
    rows = [_order(number, f"name {number % 40}\t") for number in range(100)] + [_order(7, "twice")] * 2
    first = _load(database, rows, {3: '{"a": 1}'})
    hashes = "SELECT array_agg(row_hash ORDER BY platform_order_id, product_name) FROM seller.orders"
    expected = stored(database, hashes)
    execute(database, "UPDATE seller.orders SET row_hash = md5(row_hash::text)::uuid")
    execute(database, "UPDATE platform.loads SET digest = decode('00', 'hex')")

    again = _load(database, rows, {3: '{"a": 1}'})
    third = _load(database, rows, {3: '{"a": 1}'})

    assert stored(database, "SELECT DISTINCT load_id FROM seller.orders") == [(first.id,)]
    assert count_rows(database, "history.orders") == 0
    assert stored(database, hashes) == expected
    assert (again.changed, again.digest, again.restatement) == (False, first.digest, {})
    assert not third.changed


@pytest.mark.parametrize(
    ("name", "tags", "digest"),
    [
        ("orders", ("platform",), "f2c22cf70c6d60a8315708bc613563cd"),
        ("transactions", (), "b26abe8e396d3633260f3011a8976a93"),
    ],
)
def test_the_hash_of_a_row_changes_only_with_the_version(name: str, tags: Sequence[str], digest: str) -> None:
    dataset = dataset_named(name)
    writer = RowWriter(tags)
    lines = writer.lines([(None,) * len(dataset.columns) + ("2026-03-01",)])

    assert (LINE_VERSION, writer.hashes(lines).hex()) == (2, digest)
