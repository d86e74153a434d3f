"""Answers from stored counts and sums while they are current, else from the rows.

An answer checks in its own snapshot whether the sums are current. Where they are not, the first request updates them.
Requests at the same time, and services that may not write, are answered from the rows.
"""

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import LiteralString, TypeVar

from psycopg import errors, sql

from seller_platform.contract import Dataset
from seller_platform.service.access import SelectedAccounts
from seller_platform.service.pool import Connection
from seller_platform.service.sums.costs import APPLY, APPLY_WRITTEN, CHANGED, IS_APPLIED
from seller_platform.service.sums.keeping import IS_CURRENT, SETTINGS, lock_name, sum_statement, values_of
from seller_platform.service.sums.statistics import KINDS
from seller_platform.warehouse.postgres.advisory_locks import TRY_LOCK

Answer = TypeVar("Answer")

WITHOUT_SUMS = "kept AS MATERIALIZED (SELECT true AS is_current)"
"""The same item of WITH for a statement that uses no sums."""

_KEPT = """kept AS MATERIALIZED (
    SELECT coalesce(bool_and(EXISTS (
        SELECT FROM service.summaries AS summary
        WHERE summary.account = requested.account AND summary.dataset = dataset.name AND {is_current}
    )), true){costs} AS is_current
    FROM unnest(%(accounts)s::text[]) AS requested (account)
    CROSS JOIN unnest(ARRAY[{datasets}]::text[]) AS dataset (name)
)"""

_STALE = """
SELECT requested.account, EXISTS (
    SELECT FROM platform.slices
    WHERE dataset = %(dataset)s AND account = requested.account AND changed_load_id IS NOT NULL
) OR EXISTS (
    SELECT FROM service.summaries WHERE dataset = %(dataset)s AND account = requested.account
)
FROM unnest(%(accounts)s::text[]) AS requested (account)
WHERE NOT EXISTS (
    SELECT FROM service.summaries AS summary
    WHERE summary.account = requested.account AND summary.dataset = %(dataset)s AND {is_current}
)
"""

_HAS_COSTS = "SELECT FROM service.cost_versions WHERE account = %(account)s"


def kept(*datasets: str, costs: LiteralString = "") -> sql.Composed:
    """Return the item of WITH whose `kept.is_current` says whether all counts or sums are current."""
    names = sql.SQL(", ").join(map(sql.Literal, datasets))
    return sql.SQL(_KEPT).format(is_current=sql.SQL(IS_CURRENT), datasets=names, costs=sql.SQL(costs))


def kept_sums() -> sql.Composed:
    """Return these items of WITH for all sums of statistics."""
    return sql.SQL(CHANGED) + sql.SQL(",\n") + kept(*KINDS, costs=f" AND {IS_APPLIED}")


async def answer_from_sums(
    connection: Connection,
    datasets: Sequence[Dataset],
    selected: SelectedAccounts,
    query: Callable[[bool], Awaitable[Answer | None]],
) -> Answer:
    """Return an answer from the stored counts or sums of datasets, or else from their rows.

    Args:
        datasets: One, or all of which statistics are made.
        query: Queries the stored sums, or the rows; None where the sums of an account are not current.
    """
    answer = await query(True)
    if answer is None and await _bring_up_to_date(connection, datasets, selected):
        answer = await query(True)
    if answer is None:
        answer = await query(False)
    assert answer is not None
    return answer


async def apply_costs(
    connection: Connection, account: str, skus: Sequence[str], *, added: int, rows_hash: Decimal
) -> None:
    """Compute the costs of an account's products whose cost periods were written, in the same transaction.

    An account of which another program writes the sums is left to the next request for its statistics.

    Args:
        added: How many rows were added, less those deleted.
        rows_hash: The hashes of rows that were added, less those of deleted ones.
    """
    if await (await connection.execute(TRY_LOCK, {"name": lock_name(account)})).fetchone() == (True,):
        values = {"accounts": [account], "skus": list(skus), "added": added, "rows_hash": rows_hash}
        is_applied = await (await connection.execute(_HAS_COSTS, {"account": account})).fetchone() is not None
        await connection.execute(sql.SQL(APPLY_WRITTEN if is_applied else APPLY), values, prepare=False)


async def _bring_up_to_date(connection: Connection, datasets: Sequence[Dataset], selected: SelectedAccounts) -> bool:
    """Sum what was loaded since, and return whether all sums became current."""
    is_of_statistics = len(datasets) > 1
    statement = sql.SQL(_STALE).format(is_current=sql.SQL(IS_CURRENT))
    stale: dict[str, list[Dataset]] = {account: [] for account in (selected.keys if is_of_statistics else ())}
    for dataset in datasets:
        values = {"dataset": dataset.name, "accounts": selected.keys}
        for account, is_loaded in await (await connection.execute(statement, values)).fetchall():
            # Rows without a receipt may change without one, so that no sums of them are stored.
            if not is_loaded:
                return False
            stale.setdefault(account, []).append(dataset)
    for account, of_account in stale.items():
        try:
            async with connection.transaction():
                is_ours = await (await connection.execute(TRY_LOCK, {"name": lock_name(account)})).fetchone()
                if is_ours != (True,):
                    return False
                await connection.execute(SETTINGS)
                for dataset in of_account:
                    await connection.execute(sum_statement(dataset), values_of(dataset, account), prepare=False)
                if is_of_statistics:
                    await connection.execute(sql.SQL(APPLY), {"accounts": [account]}, prepare=False)
        except (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege):
            return False
    return True
