"""Rows stored in a dataset's table without a load."""

from collections.abc import Iterable, Sequence
from itertools import islice

import psycopg

from seller_platform.contract import Dataset
from seller_platform.warehouse.loads.copy_format import Row, RowWriter, as_csv, copy_statement


def copy_rows(
    connection: psycopg.Connection,
    dataset: Dataset,
    rows: Iterable[Row],
    *,
    account: str,
    tags: Sequence[str | None] = (),
    load_id: int = 0,
) -> int:
    """Append rows to a dataset's table inside the caller's transaction, and return how many.

    Load 0 marks rows that were not stored by a load, as in the sandbox.
    """
    writer, count, remaining = RowWriter(dataset, tags), 0, iter(rows)
    with connection.cursor() as cursor, cursor.copy(copy_statement(dataset)) as copy:
        while batch := list(islice(remaining, 2_000)):
            lines = writer.lines(batch)
            block = writer.block(lines, writer.hashes(lines), account=account, load_id=load_id, page=0)
            copy.write(as_csv(block))
            count += len(batch)
    return count
