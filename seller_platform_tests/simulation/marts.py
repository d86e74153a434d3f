"""A mart over the lists of the simulation, and the check that one which is said to be current is."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from psycopg import sql
from sqlalchemy import MetaData

from seller_platform.contract import Kind
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.derived.declaration import Chart, Input, Mart, MartColumn
from seller_platform.warehouse.derived.due import Derived, PartitionState, partition_states
from seller_platform.warehouse.derived.tables import mart_table_for
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform_tests.simulation.upstream import ACCOUNT, DATED, SNAPSHOT

if TYPE_CHECKING:
    from seller_platform_tests.simulation.world import World

_QUERY = """
SELECT greatest(local_day, %(first_day)s::date), 'transactions', count(*), sum(amount),
       string_agg(description, ',' ORDER BY description)
FROM seller.transactions
WHERE account = %(account)s AND local_day >= %(first_day)s::date - interval '1 month' AND local_day < %(end_day)s
GROUP BY 1
UNION ALL
SELECT local_day, 'orders', count(*), sum(order_total), string_agg(product_name, ',' ORDER BY product_name)
FROM seller.orders
WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
GROUP BY local_day
UNION ALL
SELECT %(first_day)s, 'inventory', count(*), sum(afn_total_quantity), string_agg(product_name, ',' ORDER BY sku)
FROM seller.inventory
WHERE account = %(account)s AND local_day = (SELECT max(local_day) FROM seller.inventory WHERE account = %(account)s)
"""
_MART = Mart(
    name="simulated",
    doc="The rows of a day.",
    columns=(
        MartColumn("local_day", Kind.DATE, "The day.", key=True),
        MartColumn("dataset", Kind.TEXT, "The list.", key=True),
        MartColumn("rows", Kind.INTEGER, "Its rows."),
        MartColumn("amount", Kind.MONEY, "The sum of an amount.", nullable=True),
        MartColumn("names", Kind.TEXT, "Their names.", nullable=True),
    ),
    inputs=(
        Input(DATED[0], required=False, months_before=1),
        Input(DATED[1], required=False),
        Input(SNAPSHOT, required=False),
    ),
    query=sql.SQL(_QUERY),
    checks=(),
    chart=Chart("bars", "Rows", "rows", sql.SQL("SELECT 'rows' AS label, 1 AS rows"), "None."),
    day="local_day",
)
_COMPARED = sql.SQL("""
SELECT 'stored', local_day::text, dataset, rows, trim_scale(amount)::text, names
FROM marts.simulated WHERE {inside}
UNION ALL
SELECT 'computed', day::text, dataset, rows, trim_scale(amount)::text, names
FROM ({query}) AS computed (day, dataset, rows, amount, names)
""").format(inside=_MART.inside, query=_MART.query)


def create_mart(database: Database) -> None:
    """Create the table of the mart."""
    with database.begin() as connection:
        mart_table_for(_MART, MetaData()).create(connection)


def build_due(world: "World", database: Database) -> int:
    """Build the partitions that are due, and return their number."""
    world.has_marts = True
    due = [each for each in _states(world, database) if each.reason is None and each.problem is None]
    for state in due:
        build_partition(database, _MART, state.account, state.window, run_id="marts")
    return len(due)


def judge_marts(world: "World", database: Database) -> None:
    """Check that the rows of each partition that is said to be current are those that it would have now.

    No other actor has a turn meanwhile.
    """
    for state in _states(world, database):
        if not state.is_current or state.window is None:
            continue
        bound = {"account": state.account, "first_day": state.window.start, "end_day": state.window.end}
        rows: dict[str, Counter[object]] = {"stored": Counter(), "computed": Counter()}
        with database.begin() as connection:
            for kind, *row in driver_of(connection).execute(_COMPARED, bound):
                rows[kind][tuple(row)] += 1
        world.model.judge_reader(f"the mart of {state.window}", rows["stored"], rows["computed"])


def _states(world: "World", database: Database) -> Sequence[PartitionState]:
    with database.begin() as connection:
        return partition_states(connection, Derived.of(_MART), [ACCOUNT.key], world.months)
