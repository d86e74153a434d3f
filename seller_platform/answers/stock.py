"""The tool `stock`: which products run out, and what to order by when."""

from datetime import date, timedelta
from decimal import Decimal
from shlex import quote

from psycopg import sql
from psycopg.rows import dict_row
from pydantic import Field

from seller_platform.answers.asker import Asker
from seller_platform.answers.figures import ACCOUNTS_DOC, Names
from seller_platform.answers.proof import Asked, Fact, ToolAnswer
from seller_platform.contract import Window
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES
from seller_platform.errors import UnanswerableError
from seller_platform.warehouse.marts.restock_plan import RESTOCK_PLAN
from seller_platform.warehouse.postgres.database import driver_of

_VELOCITY_DAYS, _OLD = timedelta(days=30), timedelta(days=2)

_RUNNING_OUT = """
SELECT account, sku AS product, product_name AS name, snapshot_day, fulfillable_units, health.velocity,
       health.days_of_cover, health.stock_out_date, stock_out_risk AS risk, order_date, order_units
FROM marts.inventory_health AS health JOIN marts.restock_plan AS plan USING (account, sku, snapshot_day, product_name)
WHERE account = ANY ({accounts})
  AND (stock_out_risk = 'out of stock' OR health.stock_out_date <= snapshot_day + {within_days})
ORDER BY health.stock_out_date NULLS FIRST, account, sku
LIMIT {limit}
"""


class StockArguments(Fact):
    """Accounts, and how far to look ahead."""

    accounts: Names = Field(default=(), description=ACCOUNTS_DOC)
    within_days: int = Field(default=30, ge=0, le=3_650, description="Days from the snapshot on.")
    limit: int = Field(default=100, ge=1, le=1_000, description="The most rows.")


class StockRow(Fact):
    """A product that is out of stock, or will be."""

    account: str
    product: str
    name: str | None
    snapshot_day: date
    fulfillable_units: int | None
    velocity: Decimal = Field(description="Units ordered per day over the 30 days before the snapshot.")
    days_of_cover: Decimal | None
    stock_out_date: date | None
    risk: str
    order_date: date | None = Field(description="When to order at the latest.")
    order_units: int


def list_running_out(asker: Asker, arguments: StockArguments) -> ToolAnswer[StockRow]:
    """Answer which products run out.

    Raises:
        UnanswerableError: There is no such account, no snapshot, or the sales before the snapshot are not stored.
    """
    accounts = asker.chosen_accounts(arguments.accounts)
    keys = [each.key for each in accounts]
    numbers = {"within_days": sql.Literal(arguments.within_days), "limit": sql.Literal(arguments.limit)}
    statement = sql.SQL(_RUNNING_OUT.strip()).format(accounts=sql.Literal(keys), **numbers)
    snapshots = "SELECT account, max(snapshot_day) FROM marts.restock_plan WHERE account = ANY (%s) GROUP BY account"
    with asker.database.begin() as connection:
        driver = driver_of(connection)
        days = dict(driver.execute(snapshots, [keys]).fetchall())
        rows = driver.cursor(row_factory=dict_row).execute(statement).fetchall()
    if absent := sorted(set(keys) - set(days)):
        raise UnanswerableError(
            f"{RESTOCK_PLAN.table} has no snapshot of {', '.join(absent)}",
            "Load the inventory with `seller-platform sync`, then build the mart with `seller-platform marts build`.",
        )
    window = Window(min(days.values()) - _VELOCITY_DAYS, min(days.values()))
    asked = Asked(asker, accounts, window, (DAILY_PRODUCT_SALES,))
    return ToolAnswer(
        rows=tuple(StockRow(**row) for row in rows),
        notes=(
            f"Snapshots: {', '.join(sorted({str(day) for day in days.values()}))}; velocity is of the 30 days before. "
            f"{RESTOCK_PLAN.table} plans orders with its default lead time.",
            *(f"The snapshot of {key} is old." for key, day in days.items() if day < asker.clock().date() - _OLD),
        ),
        proof=asked.prove(f"seller-platform query {quote(statement.as_string(None))}"),
    )
