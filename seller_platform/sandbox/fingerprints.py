"""Fingerprints of stored rows: equal in two databases exactly where the rows are equal."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from sqlalchemy import Numeric, Select, Text, cast, func, literal, select

from seller_platform.contract import LOCAL_DAY, Dataset
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import table_for


def fingerprints(
    database: Database, datasets: Sequence[Dataset], *, since: date = date.min
) -> dict[tuple[str, str], tuple[int, str]]:
    """Return the number of rows and a digest of their values, by dataset and account.

    Of snapshots only the newest counts. The digest covers the contract's columns and the local day, not the load of a
    row. It does not depend on the order of rows, nor on trailing zeros of amounts.

    Args:
        since: The first day of dated rows that count.
    """
    prints = {}
    with database.begin() as connection:
        for dataset in datasets:
            for account, rows, digest in connection.execute(_statement(dataset, since)):
                prints[(dataset.name, account)] = (rows, str(digest))
    return prints


def _statement(dataset: Dataset, since: date) -> Select[Any]:
    table = table_for(dataset)
    columns = [table.c[column.name] for column in (*dataset.columns, *dataset.tags)]
    values = [func.trim_scale(column) if isinstance(column.type, Numeric) else column for column in columns]
    day = [table.c[LOCAL_DAY]] if dataset.is_dated else []
    digest = func.hashtextextended(cast(func.row(*values, *day), Text), literal(0))
    statement = select(table.c.account, func.count(), func.sum(cast(digest, Numeric))).group_by(table.c.account)
    if dataset.is_dated:
        return statement.where(table.c[LOCAL_DAY] >= since)
    newest = table.alias()
    latest = select(func.max(newest.c[LOCAL_DAY])).where(newest.c.account == table.c.account).scalar_subquery()
    return statement.where(table.c[LOCAL_DAY] == latest)
