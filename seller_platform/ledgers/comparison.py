"""Finds entries that several ledgers of one seller have in common, which sums over accounts count several times.

Entries are equal if they are of the same order and local day, and have the same type, SKU, quantity and amount. Entries
without an order do not count: two accounts may pay the same fee on the same day. Equal entries of a ledger count as
often as they occur in both.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, RowMapping, delete, insert, or_, text, tuple_

from seller_platform.contract import Window
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.ledgers.tables import REPEATED_LEDGERS
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.monitoring.settled_partitions import Partition
from seller_platform.warehouse.postgres.advisory_locks import lock
from seller_platform.warehouse.postgres.database import Database

LEDGER = TRANSACTIONS
"""The dataset whose rows are compared."""

SHARE_ALLOWED = Decimal("0.02")
"""The share of entries with an order that another ledger may have by chance, where order numbers are short."""

_SAMPLE = 1_000
# An upstream that ignores the account answers the same for hundreds of them.
_OTHERS = 30
_LOCK = "repeated ledgers"

_LOG = logging.getLogger(__name__)

# Months of one seller in which several accounts have rows.
_SIZES = text("""
    SELECT seller, month, array_agg(account) AS accounts, array_agg(rows) AS rows
    FROM (
        SELECT coalesce(seller_id, 'connection ' || connection) AS seller, account, month, rows
        FROM platform.slices
        JOIN platform.accounts ON accounts.key = account
        WHERE dataset = :dataset AND rows > 0
          AND (:all OR coalesce(seller_id, 'connection ' || connection) IN (
              SELECT coalesce(seller_id, 'connection ' || connection) FROM platform.accounts
              WHERE key = ANY(CAST(:accounts AS text[]))
          ))
    ) AS sizes
    GROUP BY seller, month
    HAVING count(*) > 1 AND (:all OR bool_or((account, month) IN (
        SELECT * FROM unnest(CAST(:accounts AS text[]), CAST(:months AS date[]))
    )))
    ORDER BY month, seller
""")

# With itself an account has all of its entries in common.
# A mask chooses a sample of the orders, the same in every account. Text that stands for "no order" is the same in all
# entries: accounts have more in common than one order.
_COMMON = text("""
    WITH entries AS (
        SELECT seller, account, hash_record_extended(
                   (order_id, local_day, transaction_type, sku, quantity, amount, currency), 0
               ) AS entry, count(*) AS times, min(order_id) AS order_id, min(currency) AS currency,
               min(amount) AS amount
        FROM unnest(CAST(:accounts AS text[]), CAST(:sellers AS text[]), CAST(:masks AS bigint[]))
             AS listed (account, seller, mask)
        JOIN seller.transactions USING (account)
        WHERE local_day >= :first AND local_day < :after AND order_id <> ''
          AND hashtextextended(order_id, 0) & mask = 0
        GROUP BY seller, account, entry
    ), distinct_entries AS (
        SELECT array_agg(account) AS accounts, min(order_id) AS order_id, min(currency) AS currency,
               min(amount) AS amount
        FROM entries, generate_series(1, times) AS occurrence
        GROUP BY seller, entry, occurrence
    ), shared AS (
        SELECT CASE cardinality(accounts) WHEN 1 THEN accounts
               ELSE (SELECT array_agg(each ORDER BY each) FROM unnest(accounts) AS each) END AS sharing,
               coalesce(currency, '') AS currency, count(*) AS rows, coalesce(sum(amount), 0) AS amount,
               min(order_id) AS first_order, max(order_id) AS last_order
        FROM distinct_entries
        GROUP BY sharing, 2
    ), amounts AS (
        SELECT account, other, currency, sum(rows) AS rows, sum(amount) AS amount, min(first_order) AS first_order,
               max(last_order) AS last_order
        FROM shared, unnest(sharing) AS account, unnest(sharing) AS other
        GROUP BY account, other, currency
    ), pairs AS (
        SELECT account, other, sum(rows) AS rows, jsonb_object_agg(currency, CAST(amount AS text)) AS amounts,
               min(first_order) <> max(last_order) AS are_several,
               row_number() OVER (PARTITION BY account, account = other ORDER BY sum(rows) DESC, other) AS place
        FROM amounts
        GROUP BY account, other
    )
    SELECT account, pair.other, CAST(pair.rows AS bigint) AS rows, CAST(own.rows AS bigint) AS compared, pair.amounts
    FROM pairs AS pair JOIN pairs AS own USING (account)
    WHERE pair.other <> account AND own.other = account AND pair.are_several
      AND pair.rows > :allowed * own.rows AND pair.place <= :others
""")


class _Size(NamedTuple):
    """The accounts of a seller that have rows in a month, with the number of rows."""

    seller: str
    month: date
    accounts: Mapping[str, int]

    @property
    def mask(self) -> int:
        """Chooses about a thousand entries of the smallest ledger."""
        return (1 << max(0, (min(self.accounts.values()) // _SAMPLE).bit_length() - 1)) - 1


def compare_ledgers(database: Database, parts: Collection[Partition] | None = None) -> None:
    """Compare months of accounts with the other accounts of the same seller, and store what they have in common.

    Accounts of which the upstream names no seller are compared with those of their connection. A part of the orders is
    compared first where ledgers are large, and all of them where that part has common entries. Comparisons wait for one
    another, so that the result of the newest rows is stored last.

    Args:
        parts: The accounts with their months; None for all.
    """
    with database.begin() as connection:
        lock(connection, _LOCK)
        bound = {
            "dataset": LEDGER.name,
            "all": parts is None,
            "accounts": [account for account, _ in parts or ()],
            "months": [month and month.start for _, month in parts or ()],
        }
        sizes = [
            _Size(row.seller, row.month, dict(zip(row.accounts, row.rows, strict=True)))
            for row in connection.execute(_SIZES, bound)
        ]
        found = [
            {**each, "month": month}
            for month, of_month in groupby(sizes, attrgetter("month"))
            for each in _repeated(connection, month, list(of_month))
        ]
        _replace(connection, sizes, found, parts)


def compare_changed(database: Database, receipts: Iterable[Receipt]) -> None:
    """Compare the months of ledgers that loads have changed; without the warehouse, the next change does it."""
    months = {
        (each.account, Window.month_of(each.window.start))
        for each in receipts
        if each.dataset == LEDGER.name and each.changed
    }
    if months:
        try:
            compare_ledgers(database, months)
        except WarehouseUnavailableError as error:
            _LOG.warning("The accounts of a seller are not compared: %s", error)


def _repeated(connection: Connection, month: date, sizes: Sequence[_Size]) -> Iterator[RowMapping]:
    """Yield what accounts have in common in a month, as `platform.repeated_ledgers` has it."""
    mask_of = {account: size.mask for size in sizes for account in size.accounts}
    seller_of = {account: size.seller for size in sizes for account in size.accounts}
    window = Window.month_of(month)

    def compared(masks: Mapping[str, int], allowed: Decimal) -> Sequence[RowMapping]:
        """Return each account with the other ones that have a larger share of its entries than allowed."""
        bound = {
            "accounts": list(masks),
            "sellers": [seller_of[account] for account in masks],
            "masks": list(masks.values()),
            "first": window.start,
            "after": window.end,
            "allowed": allowed,
            "others": _OTHERS,
        }
        return connection.execute(_COMMON, bound).mappings().all()

    sampled: set[str] = set()
    for each in compared(mask_of, SHARE_ALLOWED / 2):
        if mask_of[each["account"]]:
            sampled |= {each["account"], each["other"]}
        elif each["rows"] > SHARE_ALLOWED * each["compared"]:
            yield each
    if sampled:
        yield from compared(dict.fromkeys(sampled, 0), SHARE_ALLOWED)


def _replace(
    connection: Connection,
    sizes: Iterable[_Size],
    found: Sequence[Mapping[str, Any]],
    parts: Collection[Partition] | None,
) -> None:
    """Store what was found in place of what was stored of the same months."""
    columns = REPEATED_LEDGERS.c
    former = delete(REPEATED_LEDGERS)
    if parts is not None:
        compared = {(account, size.month) for size in sizes for account in size.accounts}
        compared |= {(account, month.start) for account, month in parts if month}
        pairs = (tuple_(account, columns.month) for account in (columns.account, columns.other))
        former = former.where(or_(*(pair.in_(compared) for pair in pairs)))
    connection.execute(former)
    if found:
        connection.execute(insert(REPEATED_LEDGERS), found)
