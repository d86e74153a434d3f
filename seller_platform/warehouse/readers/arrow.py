"""Reads stored rows as Arrow tables, with types that lose nothing, and as pandas DataFrames."""

import json
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import csv
from sqlalchemy import Connection

from seller_platform.contract import Kind
from seller_platform.errors import InexactNumberError
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.loaded import require_loaded
from seller_platform.warehouse.readers.relations import ROWS_PER_BLOCK, Relation, Selection, read_blocks

if TYPE_CHECKING:  # pandas takes half a second to import, and most processes never read a frame
    import pandas as pd

# A product has the digits after the point of both factors, and DuckDB and Spark stop at 38 digits in all. So money has
# few: twenty digits before the point and eight after it. DuckDB multiplies decimals of at most 18 digits within 18
# digits, so that fewer would overflow sooner. Other numbers, such as ratios, have twenty digits and eighteen.
MONEY = pa.decimal128(28, 8)
NUMBER = pa.decimal128(38, 18)

_TYPES = {
    Kind.TEXT: pa.string(),
    Kind.INTEGER: pa.int64(),
    Kind.MONEY: MONEY,
    Kind.NUMBER: NUMBER,
    Kind.BOOLEAN: pa.bool_(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.JSON: pa.string(),
}
_OBJECTS: dict[Kind, Callable[[str], Any]] = {
    Kind.MONEY: Decimal,
    Kind.NUMBER: Decimal,
    Kind.JSON: partial(json.loads, parse_float=Decimal),
}


def read_arrow(
    database: Database, relation: Relation, parts: Iterable[Selection] | None, *, numbers_as_text: bool = False
) -> pa.Table:
    """Return the rows of the parts, by account and then as the API lists them.

    The columns are those of `schema_of`. A part that was loaded without rows adds none.

    Args:
        parts: None asks for every account that was ever loaded.

    Raises:
        InexactNumberError: A number has more digits than its type. Never where numbers are text.
        NotLoadedError: A part, or a month of it, was never loaded; see `require_loaded`.
        RequestError: The relation has no such parts.
    """
    chosen = require_loaded(database, relation, parts)
    schema = schema_of(relation.columns, numbers_as_text=numbers_as_text)
    with database.begin() as connection:
        batches = read_batches(connection, relation, chosen, numbers_as_text=numbers_as_text)
        return pa.Table.from_batches(list(batches), schema)


def read_floats(database: Database, relation: Relation, parts: Iterable[Selection] | None) -> pa.Table:
    """Return the rows as `read_arrow` does, with money and numbers as the nearest double."""
    table = read_arrow(database, relation, parts, numbers_as_text=True)
    types = [pa.float64() if kind in (Kind.MONEY, Kind.NUMBER) else _TYPES[kind] for _, kind in relation.columns]
    return table.cast(pa.schema(list(zip(table.column_names, types, strict=True))))


def read_frames(
    database: Database, relation: Relation, parts: Iterable[Selection] | None, *, as_floats: bool = False
) -> "pd.DataFrame":
    """Return the rows of several parts, by account and then as the API lists them.

    One statement reads them. The account key is the first column, the row's local day the second unless the relation
    has a day of its own. Text is `string`, integers `Int64`, booleans `boolean`, dates `datetime64[s]` without a zone,
    timestamps `datetime64[us, UTC]`. Money and numbers are `object` columns of `Decimal`, exact as sent. JSON is
    decoded, its numbers as `Decimal`. Nulls are `<NA>`, `NaT` and None. Its errors are those of `read_arrow`.

    Args:
        parts: None asks for every account that was ever loaded.
        as_floats: Return money and numbers as `float64`, which is not exact.
    """
    import pandas as pd  # as above

    nullable = {pa.string(): pd.StringDtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    table = (read_floats if as_floats else partial(read_arrow, numbers_as_text=True))(database, relation, parts)
    frame = {}
    for name, kind in relation.columns:
        column = table[name]
        if kind in _OBJECTS and column.type == pa.string():
            values = [None if text is None else _OBJECTS[kind](text) for text in column.to_pylist()]
            frame[name] = pd.Series(values, dtype="object")
        elif kind is Kind.DATE:
            frame[name] = column.to_pandas(date_as_object=False).astype("datetime64[s]")
        else:
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return pd.DataFrame(frame)


def read_batches(
    connection: Connection,
    relation: Relation,
    parts: Iterable[Selection] | None,
    *,
    numbers_as_text: bool = False,
    beside: Iterable[tuple[str, Kind]] = (),
    rows_per_batch: int = ROWS_PER_BLOCK,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the parts, as `read_blocks` does, in batches, of which one is in memory.

    Args:
        beside: Further columns of the table, which come last.

    Raises:
        InexactNumberError: A number has more digits than its type.
    """
    columns = (*relation.columns, *beside)
    names = [name for name, _ in columns]
    as_sent = schema_of(columns, numbers_as_text=True)
    schema = schema_of(columns, numbers_as_text=numbers_as_text)
    for block in read_blocks(connection, relation, parts, names, rows_per_block=rows_per_batch):
        table = csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block)),
            csv.ParseOptions(newlines_in_values=True),
            csv.ConvertOptions(
                column_types=as_sent,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["t"],
                false_values=["f"],
            ),
        )
        (batch,) = table.combine_chunks().to_batches()
        arrays = []
        for field, array in zip(schema, batch.columns, strict=True):
            try:
                arrays.append(array.cast(field.type) if field.type in (MONEY, NUMBER) else array)
            except pa.ArrowInvalid as error:
                problem = f"{relation.table}.{field.name} holds a number that is no {field.type} ({error})"
                raise InexactNumberError(problem) from None
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def schema_of(columns: Iterable[tuple[str, Kind]], *, numbers_as_text: bool = False) -> pa.Schema:
    """Return the types of columns that a reader gets, such as those of a relation.

    Money is `decimal128(28, 8)`, numbers are `decimal128(38, 18)`, or both are text; timestamps are in UTC; JSON is its
    text.
    """
    types = _TYPES | ({Kind.MONEY: pa.string(), Kind.NUMBER: pa.string()} if numbers_as_text else {})
    return pa.schema([(name, types[kind]) for name, kind in columns])
