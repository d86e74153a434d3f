"""Daily counts of lists, and the sums of statistics, stored so that no answer has to read all rows.

A load of daily product sales or transactions writes the sums of its months in its own transaction. Every other load
that changes rows marks its months in `service.unsummed_loads`. For a request the service counts the marked months again
and deletes the marks, in one statement. The sums of an account without receipts are written by the program that wrote
its rows, at the end of the same transaction, or not at all.

Whatever changes `product_days` writes the month to `service.changed_months`, because the service stores sums of months
that follow from them. The mark names the dataset, so that loads of two datasets do not wait for each other.

Loads share the lock of an account's sums until they are committed, so they do not wait for one another, and a program
that sums sees all of them. A load that finds the lock taken leaves the sums as they are and marks its months. The
statement that sums sees both the rows and the mark of such a load, or neither.

The statements are psycopg's, because both the service (asynchronous) and the loads (not) run them.
"""

from collections.abc import Sequence
from functools import cache
from typing import LiteralString

from psycopg import sql
from sqlalchemy import Connection

from seller_platform.contract import LISTS, LOCAL_DAY, Dataset, Window
from seller_platform.service.sums.costs import APPLY
from seller_platform.service.sums.statistics import (
    CHANGE_DAYS,
    DAY_COLUMNS,
    DAYS_OF,
    KINDS,
    SELECT_DAYS,
    SELECTED,
    STORE_PRODUCTS,
    items_of,
)
from seller_platform.service.tables import COST_STEPS, DAILY_COUNTS, DAY_SUMS, PRODUCT_DAYS, SERVICE, SUMMARIES
from seller_platform.warehouse.postgres.advisory_locks import lock, try_lock
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.tables import HISTORY, SELLER

IS_CURRENT = """NOT EXISTS (
        SELECT FROM service.unsummed_loads AS mark
        WHERE mark.account = summary.account AND mark.dataset = summary.dataset
    )"""
"""Condition on a row `summary` of service.summaries: its sums are those of the stored rows."""

_MOST_TOUCHED = 1_000

SETTINGS: LiteralString = "SET LOCAL work_mem = '64MB'; SET LOCAL jit = off; SET LOCAL enable_sort = off"
"""The settings with which sums are written. The planner would sort by texts, which is several times slower."""

_FORGET = "DELETE FROM service.summaries WHERE account = %(account)s"

# Everything in one statement, so of one moment. What is inserted does not see what is deleted, and need not.
_SUM = """
WITH marks AS (
    DELETE FROM service.unsummed_loads WHERE account = %(account)s AND dataset = %(dataset)s RETURNING months
),
kept AS MATERIALIZED (
    SELECT FROM service.summaries WHERE account = %(account)s AND dataset = %(dataset)s
),
unsummed AS MATERIALIZED (
    SELECT lower(part) AS first_day, upper(part) AS end_day
    FROM unnest((SELECT range_agg(months) FROM marks)) AS part
    WHERE EXISTS (SELECT FROM kept)
    UNION ALL
    SELECT '-infinity', 'infinity' WHERE NOT EXISTS (SELECT FROM kept)
),
ends AS (
    SELECT min(local_day)::timestamp AS first_day, max(local_day)::timestamp AS last_day
    FROM (
        (SELECT local_day FROM {table} WHERE account = %(account)s ORDER BY local_day LIMIT 1)
        UNION ALL
        (SELECT local_day FROM {table} WHERE account = %(account)s ORDER BY local_day DESC LIMIT 1)
    ) AS days
),
windows AS MATERIALIZED (
    SELECT %(account)s::text AS account, month::date AS first_day, (month + interval '1 month')::date AS end_day
    FROM unsummed
    CROSS JOIN ends
    CROSS JOIN LATERAL generate_series(
        date_trunc('month', greatest(unsummed.first_day, ends.first_day)),
        least(unsummed.end_day - interval '1 day', ends.last_day), interval '1 month'
    ) AS month
    -- Without rows both ends are null, which greatest() and least() ignore: the series would have no end.
    WHERE ends.first_day IS NOT NULL
){items}
INSERT INTO service.summaries (account, dataset) VALUES (%(account)s, %(dataset)s) ON CONFLICT DO NOTHING
"""

# Sums that were never stored will be made of all rows. While another program sums, it may be storing the first ones.
_MARK = """
INSERT INTO service.unsummed_loads (account, dataset, load_id, months)
SELECT %(account)s, %(dataset)s, %(load)s, daterange(%(first_day)s, %(end_day)s)
WHERE NOT %(is_shared)s OR EXISTS (
    SELECT FROM service.summaries WHERE account = %(account)s AND dataset = %(dataset)s
)
"""

_WINDOW = """
WITH windows AS (SELECT %(account)s::text AS account, %(first_day)s::date AS first_day, %(end_day)s::date AS end_day),
unsummed AS (SELECT first_day, end_day FROM windows)"""

_COUNTS = """,
uncounted AS (
    DELETE FROM service.daily_counts AS daily USING unsummed
    WHERE daily.account = %(account)s AND daily.dataset = %(dataset)s
      AND daily.local_day >= unsummed.first_day AND daily.local_day < unsummed.end_day
),
counted AS (
    INSERT INTO service.daily_counts (account, dataset, local_day, part, is_merged, rows)
    SELECT %(account)s, %(dataset)s, stored.local_day, {part}, false, count(*)
    FROM unsummed
    JOIN {table} AS stored
      ON stored.account = %(account)s
     AND stored.local_day >= unsummed.first_day AND stored.local_day < unsummed.end_day
    GROUP BY stored.local_day, {part}{merged}
)"""

_MERGED_COUNTS = """
    UNION ALL
    SELECT %(account)s, %(dataset)s, merged.local_day, NULL, true, count(*)
    FROM (
        SELECT DISTINCT {key}
        FROM unsummed
        JOIN {table} AS stored
          ON stored.account = %(account)s
         AND stored.local_day >= unsummed.first_day AND stored.local_day < unsummed.end_day
    ) AS merged
    GROUP BY merged.local_day"""

_STEPS = """,
steps AS (SELECT account, sku, currency, days, amounts FROM service.cost_steps WHERE account = %(account)s),"""

_PRODUCTS: LiteralString = """,
products AS MATERIALIZED ({selected}),
months_changed AS (
    INSERT INTO service.changed_months (account, month, dataset)
    SELECT %(account)s, first_day, %(dataset)s FROM windows
    ON CONFLICT DO NOTHING
),"""

_SUMS: LiteralString = """
products_forgotten AS (
    DELETE FROM service.product_days AS sums USING unsummed
    WHERE sums.account = %(account)s AND sums.kind = ANY(%(kinds)s)
      AND sums.month >= unsummed.first_day AND sums.month < unsummed.end_day
),
days_forgotten AS (
    DELETE FROM service.day_sums AS sums USING unsummed
    WHERE sums.account = %(account)s AND sums.kind = ANY(%(kinds)s)
      AND sums.local_day >= unsummed.first_day AND sums.local_day < unsummed.end_day
),{store_products},
days_summed AS (
    INSERT INTO service.day_sums ({day_columns}){day_sums}
)"""

_CHANGED_SUMS: LiteralString = """
old AS (
    DELETE FROM service.product_days AS sums USING windows
    WHERE sums.account = %(account)s AND sums.kind = ANY(%(kinds)s)
      AND sums.month >= windows.first_day AND sums.month < windows.end_day AND sums.sku = ANY(%(skus)s)
    RETURNING sums.*
),{store_products},"""

_STORE_PRODUCTS: LiteralString = STORE_PRODUCTS.replace("{new}", "products")

_TOUCHED = """
SELECT array_agg(DISTINCT sku), bool_or(sku IS NULL)
FROM (
    SELECT sku COLLATE "C" AS sku FROM {table}
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s AND load_id = %(load)s
    UNION ALL
    SELECT sku FROM {former}
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s AND gone_load_id = %(load)s
) AS touched
"""


def lock_name(account: str) -> str:
    """Return the name of the lock under which the sums of an account are written."""
    return f"service.summaries {account}"


def has_sums(dataset: Dataset) -> bool:
    """Whether loads of a dataset keep the sums of statistics."""
    return dataset.name in KINDS


@cache
def sum_statement(dataset: Dataset) -> sql.Composed:
    """Return the statement that brings the sums of an account's dataset up to date.

    It takes the values of `values_of`, in a transaction that holds the lock.
    """
    items = _counts(dataset)
    return sql.SQL(_SUM).format(
        table=sql.Identifier(SELLER, dataset.name), items=items + _sums(dataset) if has_sums(dataset) else items
    )


def values_of(dataset: Dataset, account: str) -> dict[str, object]:
    """Return the parameters of `sum_statement`."""
    return {"dataset": dataset.name, "account": account, "kinds": list(KINDS.get(dataset.name, ()))}


def keep_sums(
    connection: Connection, dataset: Dataset, account: str, window: Window, *, load_id: int, is_first: bool = False
) -> None:
    """Sum the months of a window in the transaction that changed its rows, or mark them.

    They are summed if their dataset has sums, and no other program sums rows of the account. Where a load changed rows
    of few products, only these are summed again.

    Args:
        is_first: No earlier load of these days exists, so that all products are summed without looking for the changed.
    """
    if dataset not in LISTS or window.is_empty:
        return
    driver, is_shared = driver_of(connection), try_lock(connection, lock_name(account), shared=True)
    months = [Window.month_of(month.start) for month in window.months()]
    values = {**values_of(dataset, account), "load": load_id, "is_shared": is_shared}
    if not (has_sums(dataset) and is_shared):
        driver.execute(_MARK, values | {"first_day": months[0].start, "end_day": months[-1].end})
        return
    find_touched, keep, change = _month_statements(dataset)
    driver.execute(SETTINGS)
    for month in months:
        values |= {"first_day": month.start, "end_day": month.end}
        touched = None if is_first else driver.execute(find_touched, values).fetchone()
        skus, is_unnamed = touched or (None, is_first)
        is_whole = bool(is_unnamed) or len(skus or ()) > _MOST_TOUCHED
        driver.execute(keep if is_whole else change, {**values, "skus": skus})


@cache
def _month_statements(dataset: Dataset) -> tuple[sql.Composed, sql.Composed, sql.Composed]:
    """Return what finds the products of a month that a load touched, what sums the month, and what sums these only."""
    touched = sql.SQL(_TOUCHED).format(
        table=sql.Identifier(SELLER, dataset.name), former=sql.Identifier(HISTORY, dataset.name)
    )
    counted = sql.SQL(_WINDOW) + _counts(dataset)
    changed = sql.SQL(_PRODUCTS + _CHANGED_SUMS).format(
        selected=sql.SQL(SELECTED[dataset.name]), store_products=sql.SQL(_STORE_PRODUCTS)
    )
    days = sql.SQL(CHANGE_DAYS.replace("{new}", "products"))
    items = sql.SQL(_STEPS) + items_of(dataset, of_touched=True)
    return touched, counted + _sums(dataset) + sql.SQL("SELECT"), counted + items + changed + days


def _counts(dataset: Dataset) -> sql.Composed:
    """Return the items of WITH that count the rows of the days in `unsummed`."""
    table, column = sql.Identifier(SELLER, dataset.name), dataset.split_by.column if dataset.split_by else None
    key = sql.SQL(", ").join(sql.Identifier("stored", name) for name in dict.fromkeys((LOCAL_DAY, *dataset.key)))
    is_merged = dataset.split_by is not None and dataset.split_by.is_merged
    return sql.SQL(_COUNTS).format(
        table=table,
        part=sql.Identifier("stored", column) if column else sql.SQL("NULL::text"),
        merged=sql.SQL(_MERGED_COUNTS).format(table=table, key=key) if is_merged else sql.SQL(""),
    )


def _sums(dataset: Dataset) -> sql.Composed:
    """Return the items of WITH that write the sums of the months in `windows`, which are those in `unsummed`."""
    days = sql.SQL(DAYS_OF).format(sign=sql.SQL("1"), products=sql.SQL("products"))
    sums = sql.SQL(_PRODUCTS + _SUMS).format(
        selected=sql.SQL(SELECTED[dataset.name]),
        store_products=sql.SQL(_STORE_PRODUCTS),
        day_columns=sql.SQL(DAY_COLUMNS),
        day_sums=sql.SQL(SELECT_DAYS).format(days=days),
    )
    return sql.SQL(_STEPS) + items_of(dataset) + sums


def forget_sums(connection: Connection, accounts: Sequence[str]) -> None:
    """Invalidate the sums of accounts. No others are written before the transaction ends."""
    for account in accounts:
        lock(connection, lock_name(account))
        driver_of(connection).execute(_FORGET, {"account": account})


def write_sums(connection: Connection, accounts: Sequence[str]) -> None:
    """Sum the rows of accounts whose sums `forget_sums` invalidated in the same transaction."""
    driver = driver_of(connection)
    driver.execute(SETTINGS)
    for account in accounts:
        for dataset in LISTS:
            if not dataset.is_computed:
                driver.execute(sum_statement(dataset), values_of(dataset, account))
    driver.execute(APPLY, {"accounts": list(accounts)})
    for table in (SUMMARIES, DAILY_COUNTS, PRODUCT_DAYS, DAY_SUMS, COST_STEPS):
        driver.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(SERVICE, table.name)))
