"""What a load does to the sums: it declares the first ones current, and follows what it changed."""

from datetime import date

from psycopg import sql
from sqlalchemy import ColumnElement, Connection, exists, select

from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.service.sums.costs import APPLY
from seller_platform.service.sums.keeping import has_sums, keep_sums, lock_name, values_of
from seller_platform.service.tables import UNSUMMED_LOADS
from seller_platform.warehouse.loads.receipts import Receipt, Slice
from seller_platform.warehouse.loads.retention import Expiring
from seller_platform.warehouse.loads.slices import SliceChange
from seller_platform.warehouse.postgres.advisory_locks import try_lock
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.tables import SELLER

# Sums of a list without rows are current, and stay so with each load that keeps them.
_BEGIN = """
INSERT INTO service.summaries (account, dataset)
SELECT %(account)s, %(dataset)s
WHERE NOT EXISTS (SELECT FROM {table} WHERE account = %(account)s)
  AND NOT EXISTS (SELECT FROM service.product_days WHERE account = %(account)s AND kind = ANY(%(kinds)s))
  AND NOT EXISTS (SELECT FROM service.day_sums WHERE account = %(account)s AND kind = ANY(%(kinds)s))
  AND NOT EXISTS (SELECT FROM service.daily_counts WHERE account = %(account)s AND dataset = %(dataset)s)
ON CONFLICT DO NOTHING
"""


def begin_sums(connection: Connection, slice_: Slice) -> None:
    """Declare the sums of an account's dataset current if it has no rows yet."""
    if has_sums(dataset := slice_.dataset):
        statement = sql.SQL(_BEGIN).format(table=sql.Identifier(SELLER, dataset.name))
        driver_of(connection).execute(statement, values_of(dataset, slice_.account))


def follow_load(connection: Connection, slice_: Slice, receipt: Receipt, _: SliceChange) -> None:
    """Sum what a load changed, in its transaction, or mark it.

    Costs are left to the next request while another program sums rows of the account.
    """
    is_first = receipt.restatement is None
    keep_sums(connection, slice_.dataset, slice_.account, slice_.window, load_id=receipt.id, is_first=is_first)
    if slice_.dataset == COST_PERIODS and try_lock(connection, lock_name(slice_.account)):
        driver_of(connection).execute(APPLY, {"accounts": [slice_.account]})


def _is_marked_again(_: date) -> ColumnElement[bool]:
    """Return the condition for marks of months that a newer mark has, too. Without requests nothing deletes marks."""
    newer = UNSUMMED_LOADS.alias()
    return exists(
        select(newer.c.load_id).where(
            newer.c.account == UNSUMMED_LOADS.c.account,
            newer.c.dataset == UNSUMMED_LOADS.c.dataset,
            newer.c.load_id > UNSUMMED_LOADS.c.load_id,
            newer.c.months.contains(UNSUMMED_LOADS.c.months),
        )
    )


EXPIRING = (Expiring(UNSUMMED_LOADS, _is_marked_again),)
"""The marks that `prune` deletes, however new they are."""
