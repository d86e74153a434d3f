"""The state that a list shows: whether later loads changed its rows, and what else its answer depends on.

A load writes its receipt in the transaction that changes the rows, with the number of that transaction. So the receipt
says whether a snapshot of PostgreSQL saw the rows. Neither the times nor the numbers of loads say that, because loads
run at the same time and end in any order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from seller_platform.contract import Dataset
from seller_platform.service.pool import Connection
from seller_platform.warehouse.postgres.database import IDENTITY


@dataclass(frozen=True)
class ListState:
    """What an answer was made of.

    Attributes:
        others: Hashes of what is not loaded: the accounts as they are listed, exchange rates, facts about products.
        snapshot: The snapshot of PostgreSQL; None of a standby, whose snapshots do not name open transactions.
        database: What distinguishes the database from others, and from itself before it was restored.
        has_later_loads: Whether loads that the moment of a pinned list did not see changed rows of its days.
    """

    others: str
    snapshot: str | None
    database: str
    has_later_loads: bool


_ITEMS = sql.SQL("""later_loads AS MATERIALIZED (
    SELECT load.id
    FROM (
        SELECT {dataset}, account, first_day, last_day FROM chosen
        UNION ALL
        SELECT dataset, account, first_day, last_day
        FROM unnest(
            %(needed_datasets)s::text[], %(needed_accounts)s::text[],
            %(needed_firsts)s::date[], %(needed_lasts)s::date[]
        ) AS needed (dataset, account, first_day, last_day)
    ) AS covered (dataset, account, first_day, last_day)
    JOIN platform.published_loads AS load
      ON load.dataset = covered.dataset AND load.account = covered.account AND load.changed
     AND load.window_start <= covered.last_day AND load.window_end > covered.first_day
    WHERE NOT coalesce(pg_visible_in_snapshot(transaction_id, %(snapshot)s::pg_snapshot), true)
)""")

# Whoever fills the sandbox again replaces the rows of its accounts, which have no receipts.
_COLUMNS = sql.SQL("""concat_ws('.',
    (SELECT coalesce(bit_xor(hashtextextended(concat_ws('|', connection, account, xmin::text), 0)), 0)
     FROM seller.accounts WHERE account = ANY (%(accounts)s::text[])),
    {others}
), CASE WHEN NOT pg_is_in_recovery() THEN pg_current_snapshot()::text END, {database},
EXISTS (SELECT FROM later_loads)""")

RATES: LiteralString = """(
    SELECT coalesce(bit_xor(hashtextextended(rate::text, 0)), 0) FROM service.exchange_rates AS rate
    WHERE rate.currency = ANY (%(currencies)s::text[] || %(currency)s::text)
      AND rate.day BETWEEN (SELECT min(first_day) FROM chosen) AND (SELECT max(last_day) FROM chosen)
)"""
"""An expression that changes with the exchange rates of the chosen days."""

# The first condition on the transaction finds the few later receipts by an index.
LATER_LOADS: LiteralString = """
SELECT coalesce(array_agg(id), '{}')
FROM platform.published_loads
WHERE dataset = ANY (%(datasets)s::text[]) AND account = ANY (%(accounts)s::text[]) AND changed
  AND transaction_id >= pg_snapshot_xmin(%(snapshot)s::pg_snapshot)
  AND NOT pg_visible_in_snapshot(transaction_id, %(snapshot)s::pg_snapshot)
"""
"""Selects the loads that the moment of a pinned list did not see."""


def state_items(dataset: Dataset) -> sql.Composed:
    """Return items of WITH, after `chosen`, for `state_columns`."""
    return _ITEMS.format(dataset=sql.Literal(dataset.name))


def state_columns(others: Sequence[LiteralString]) -> sql.Composed:
    """Return the attributes of a `ListState`, in their order.

    Args:
        others: Expressions that change with what the answer depends on beside loads.
    """
    return _COLUMNS.format(database=IDENTITY, others=sql.SQL(", ").join(map(sql.SQL, (*others, "NULL"))))


async def database_of(connection: Connection) -> str:
    """Return what `ListState.database` is."""
    row = await (await connection.execute(sql.SQL("SELECT {}").format(IDENTITY))).fetchone()
    assert row is not None
    return str(row[0])
