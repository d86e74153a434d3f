"""Reads stored rows as pandas DataFrames."""

import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from seller_platform.contract import Kind
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.relations import Relation, Selection

if TYPE_CHECKING:  # pandas takes half a second to import, and most processes never read a frame
    import pandas as pd


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
    # Both take a while to import.
    import pandas as pd
    import pyarrow as pa

    from seller_platform.warehouse.readers.arrow import read_arrow, read_floats

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


_OBJECTS: dict[Kind, Callable[[str], Any]] = {
    Kind.MONEY: Decimal,
    Kind.NUMBER: Decimal,
    Kind.JSON: partial(json.loads, parse_float=Decimal),
}
