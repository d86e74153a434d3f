"""Daily counts and fees, stored so that no answer has to count all rows.

Loading does not write them. The service brings them up to date for a request, from the receipts: it sums again the days
of each load that changed rows since. The sums of an account without receipts are written by the program that wrote its
rows, at the end of the same transaction, or not at all.

The statements are psycopg's, because both the service (asynchronous) and the sandbox (not) run them.
"""

from collections.abc import Sequence
from functools import cache

from psycopg import sql
from sqlalchemy import Connection

from seller_platform.contract import LISTS, Dataset
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.warehouse.postgres.advisory_locks import lock
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.service_tables import DAILY_COUNTS, DAILY_FEES, SERVICE, SUMMARIES
from seller_platform.warehouse.schema.tables import SELLER

# Loads are not stored in the order of their numbers, so only the set of receipts says which of them are summed. Their
# count does not say it either: receipts that are summed may be pruned later.
IS_CURRENT = """NOT EXISTS (
        SELECT load.id FROM platform.loads AS load
        WHERE load.dataset = summary.dataset AND load.account = summary.account AND load.changed
        EXCEPT SELECT unnest(summary.loads)
    )"""
"""Condition on a row `summary` of service.summaries: its sums are those of the stored rows."""

_FORGET = "DELETE FROM service.summaries WHERE account = %(account)s"

# Everything in one statement, so of one moment. What is inserted does not see what is deleted, and need not.
_SUM = """
WITH receipts AS MATERIALIZED (
    SELECT id, daterange(window_start, window_end) AS days
    FROM platform.loads
    WHERE dataset = %(dataset)s AND account = %(account)s AND changed
),
kept AS MATERIALIZED (
    SELECT loads FROM service.summaries WHERE account = %(account)s AND dataset = %(dataset)s
),
windows AS MATERIALIZED (
    SELECT coalesce(lower(part), '-infinity') AS first_day, coalesce(upper(part), 'infinity') AS end_day
    FROM unnest((
        SELECT range_agg(receipts.days) FROM receipts WHERE receipts.id NOT IN (SELECT unnest(loads) FROM kept)
    )) AS part
    WHERE EXISTS (SELECT FROM kept)
    UNION ALL
    SELECT '-infinity', 'infinity' WHERE NOT EXISTS (SELECT FROM kept)
),
uncounted AS (
    DELETE FROM service.daily_counts AS daily USING windows
    WHERE daily.account = %(account)s AND daily.dataset = %(dataset)s
      AND daily.local_day >= windows.first_day AND daily.local_day < windows.end_day
),
counted AS (
    INSERT INTO service.daily_counts (account, dataset, local_day, part, rows)
    SELECT %(account)s, %(dataset)s, stored.local_day, {part}, count(*)
    FROM windows
    JOIN {table} AS stored
      ON stored.account = %(account)s
     AND stored.local_day >= windows.first_day AND stored.local_day < windows.end_day
    GROUP BY stored.local_day, {part}
){fees}
INSERT INTO service.summaries (account, dataset, loads)
SELECT %(account)s, %(dataset)s, coalesce((SELECT array_agg(id) FROM receipts), '{{}}')
ON CONFLICT (account, dataset) DO UPDATE SET loads = excluded.loads
"""

_FEES = """,
unsummed AS (
    DELETE FROM service.daily_fees AS daily USING windows
    WHERE daily.account = %(account)s
      AND daily.local_day >= windows.first_day AND daily.local_day < windows.end_day
),
summed AS (
    INSERT INTO service.daily_fees (account, local_day, sku, currency, amount)
    SELECT charged.account, charged.local_day, charged.sku, charged.currency, charged.amount
    FROM windows
    CROSS JOIN LATERAL ({charged}) AS charged
)"""

CHARGED = """
        SELECT account, local_day, sku, currency, -sum(amount) AS amount
        FROM seller.transactions
        WHERE {condition} AND transaction_type = 'Fee' AND amount IS NOT NULL
        GROUP BY account, local_day, sku, currency"""
"""The fees of the ledger by day, product and currency, as positive costs."""

_OF_WINDOWS = """account = %(account)s AND local_day >= windows.first_day AND local_day < windows.end_day"""


def lock_name(account: str) -> str:
    """Return the name of the lock under which the sums of an account are written."""
    return f"service.summaries {account}"


@cache
def sum_statement(dataset: Dataset) -> sql.Composed:
    """Return the statement that brings the sums of an account's dataset up to date.

    It takes `account` and `dataset`, in a transaction that holds the lock.
    """
    column = dataset.split_by.column if dataset.split_by else None
    fees = sql.SQL(_FEES).format(charged=sql.SQL(CHARGED).format(condition=sql.SQL(_OF_WINDOWS)))
    return sql.SQL(_SUM).format(
        table=sql.Identifier(SELLER, dataset.name),
        part=sql.Identifier("stored", column) if column else sql.SQL("NULL::text"),
        fees=fees if dataset == TRANSACTIONS else sql.SQL(""),
    )


def forget_sums(connection: Connection, accounts: Sequence[str]) -> None:
    """Invalidate the sums of accounts. No others are written before the transaction ends."""
    for account in accounts:
        lock(connection, lock_name(account))
        driver_of(connection).execute(_FORGET, {"account": account})


def write_sums(connection: Connection, accounts: Sequence[str]) -> None:
    """Sum the rows of accounts whose sums `forget_sums` invalidated in the same transaction."""
    driver = driver_of(connection)
    for account in accounts:
        for dataset in LISTS:
            if not dataset.is_computed:
                driver.execute(sum_statement(dataset), {"account": account, "dataset": dataset.name})
    for table in (SUMMARIES, DAILY_COUNTS, DAILY_FEES):
        driver.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(SERVICE, table.name)))
