"""Answers from stored daily counts and fees while they are current, else from the rows.

An answer checks in its own snapshot whether the sums are current. Where they are not, the first request updates them.
Requests at the same time, and services that may not write, are answered from the rows.
"""

from typing import Protocol, TypeVar

from psycopg import errors, sql

from seller_platform.contract import Dataset
from seller_platform.service.access import SelectedAccounts
from seller_platform.service.pool import Connection
from seller_platform.warehouse.loads.daily_totals import IS_CURRENT, lock_name, sum_statement
from seller_platform.warehouse.postgres.advisory_locks import TRY_LOCK

Answer_co = TypeVar("Answer_co", covariant=True)

WITHOUT_SUMS = "kept AS MATERIALIZED (SELECT true AS is_current)"
"""The same item of WITH for a statement that uses no sums."""

_KEPT = """kept AS MATERIALIZED (
    SELECT coalesce(bool_and(EXISTS (
        SELECT FROM service.summaries AS summary
        WHERE summary.account = requested.account AND summary.dataset = {dataset} AND {is_current}
    )), true) AS is_current
    FROM unnest(%(accounts)s::text[]) AS requested (account)
)"""

_STALE = """
SELECT requested.account, EXISTS (
    SELECT FROM platform.loads WHERE dataset = %(dataset)s AND account = requested.account AND changed
)
FROM unnest(%(accounts)s::text[]) AS requested (account)
WHERE NOT EXISTS (
    SELECT FROM service.summaries AS summary
    WHERE summary.account = requested.account AND summary.dataset = %(dataset)s AND {is_current}
)
"""


def kept(dataset: Dataset) -> sql.Composed:
    """Return the item of WITH whose `kept.is_current` says whether all sums are current."""
    return sql.SQL(_KEPT).format(dataset=sql.Literal(dataset.name), is_current=sql.SQL(IS_CURRENT))


class AnswerQuery(Protocol[Answer_co]):
    """Queries the daily sums or the rows.

    Returns:
        The answer; None where the sums were queried and those of an account are not current.
    """

    async def __call__(self, *, is_kept: bool) -> Answer_co | None: ...


async def answer_from_sums(
    connection: Connection, dataset: Dataset, selected: SelectedAccounts, query: AnswerQuery[Answer_co]
) -> Answer_co:
    """Return an answer from the daily sums of a dataset, or else from its rows."""
    answer = await query(is_kept=True)
    if answer is None and await _bring_up_to_date(connection, dataset, selected):
        answer = await query(is_kept=True)
    if answer is None:
        answer = await query(is_kept=False)
    assert answer is not None
    return answer


async def _bring_up_to_date(connection: Connection, dataset: Dataset, selected: SelectedAccounts) -> bool:
    """Sum what was loaded since, and return whether all sums became current."""
    values = {"dataset": dataset.name, "accounts": selected.keys}
    statement = sql.SQL(_STALE).format(is_current=sql.SQL(IS_CURRENT))
    stale = await (await connection.execute(statement, values)).fetchall()
    # Rows without a receipt may change without one, so that no sums of them are stored.
    if not all(is_loaded for _, is_loaded in stale):
        return False
    for account, _ in stale:
        account_values = {"dataset": dataset.name, "account": account}
        try:
            async with connection.transaction():
                is_ours = await (await connection.execute(TRY_LOCK, {"name": lock_name(account)})).fetchone()
                if is_ours != (True,):
                    return False
                await connection.execute(sum_statement(dataset), account_values)
        except (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege):
            return False
    return True
