"""The tool `stock`: what runs out, what to order, and what the stock is worth."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from shlex import quote

from psycopg import sql
from psycopg.rows import dict_row
from pydantic import Field

from seller_platform.agents.asker import Asker
from seller_platform.agents.proof import Asked, ChosenAccounts, Fact, ToolAnswer, beyond
from seller_platform.contract import Window
from seller_platform.contract.cost_periods import Periods
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES
from seller_platform.costs.plans import stored_costs
from seller_platform.counts import count_of
from seller_platform.errors import UnanswerableError
from seller_platform.marts.inventory_health import INVENTORY_HEALTH
from seller_platform.marts.restock_plan import RESTOCK_PLAN
from seller_platform.warehouse.postgres.database import driver_of

_VELOCITY_DAYS, _OLD = timedelta(days=30), timedelta(days=2)

_STOCK = """
SELECT account, sku AS product, product_name AS name, snapshot_day, fulfillable_units, inbound_units,
       coalesce(fulfillable_units, 0) + coalesce(reserved_units, 0) + coalesce(inbound_units, 0) + own_warehouse_units
           AS all_units, health.velocity, health.days_of_cover, health.stock_out_date, stock_out_risk AS risk,
       order_date, order_units, to_buy
FROM marts.inventory_health AS health JOIN marts.restock_plan AS plan USING (account, sku, snapshot_day, product_name)
WHERE account = ANY ({accounts})
ORDER BY health.stock_out_date NULLS FIRST, account, sku
"""


class StockArguments(ChosenAccounts):
    """Accounts, and how far to look ahead."""

    within_days: int = Field(default=30, ge=0, le=3_650, description="Days from the snapshot on.")
    every: bool = Field(default=False, description="List all products, also those that last longer or do not sell.")
    limit: int = Field(default=100, ge=1, le=1_000, description="The most rows.")


class StockRow(Fact):
    """A product that is out of stock, or will be."""

    account: str
    product: str
    name: str | None
    snapshot_day: date
    fulfillable_units: int | None
    inbound_units: int | None = Field(description="Under way to the marketplace; the plan counts them.")
    all_units: int = Field(description="Fulfillable, reserved, inbound, and in own warehouses.")
    unit_cost: Decimal | None = Field(description="Valid on the day of the snapshot; null without one.")
    value: Decimal | None = Field(description="All units at that cost.")
    currency: str | None = Field(description="Of the cost.")
    velocity: Decimal | None = Field(description="Units ordered per day over 30 days; null where not each is loaded.")
    days_of_cover: Decimal | None
    stock_out_date: date | None
    risk: str
    order_date: date | None = Field(description="When to order at the latest.")
    order_units: int | None = Field(description="What the plan lacks: from own warehouses, and bought.")
    to_buy: int | None = Field(description="How many of these own warehouses do not have.")


def list_stock(asker: Asker, arguments: StockArguments) -> ToolAnswer[StockRow]:
    """List products that are out of stock or will be within so many days, what to order and by when.

    The notes say what all stock of the accounts is worth at cost. Each row has the value of its product.

    Raises:
        UnanswerableError: There is no such account, no snapshot, or the sales before the snapshot are not stored.
    """
    accounts = asker.chosen_accounts(arguments.accounts)
    keys = [each.key for each in accounts]
    statement = sql.SQL(_STOCK.strip()).format(accounts=sql.Literal(keys))
    with asker.database.begin() as connection:
        found = driver_of(connection).cursor(row_factory=dict_row).execute(statement).fetchall()
    days = {row["account"]: row["snapshot_day"] for row in found}
    if absent := sorted(set(keys) - set(days)):
        raise UnanswerableError(
            f"{RESTOCK_PLAN.table} has no snapshot of {', '.join(absent)}",
            "Load the inventory with `seller-platform sync`, then build the marts with `seller-platform marts build "
            f"{INVENTORY_HEALTH.name} {RESTOCK_PLAN.name}`.",
        )
    costs = stored_costs(asker.database, keys)
    rows = []
    for row in found:
        unit_cost, currency = _unit_cost(costs.get((row["account"], row["product"]), ()), row["snapshot_day"])
        value = row["all_units"] * unit_cost if unit_cost is not None else None
        rows.append(StockRow(**row, unit_cost=unit_cost, value=value, currency=currency))
    listed = [row for row in rows if arguments.every or _runs_out(row, arguments.within_days)]
    notes = [
        *_worth(rows),
        f"Snapshots: {', '.join(f'{key} {day}' for key, day in sorted(days.items()))}; velocity of 30 days; default "
        "lead time.",
        *(f"The snapshot of {key} is old." for key, day in days.items() if day < asker.clock().date() - _OLD),
        *beyond(arguments.limit, listed),
    ]
    windows = [Window(days[key] - _VELOCITY_DAYS, days[key]) for key in keys]
    asked = Asked(asker, accounts, windows, (DAILY_PRODUCT_SALES,), checked=(INVENTORY_HEALTH, RESTOCK_PLAN))
    command = f"seller-platform query {quote(statement.as_string(None))}"
    currencies = {row.currency for row in rows if row.currency}
    return ToolAnswer(rows=tuple(listed[: arguments.limit]), notes=tuple(notes), proof=asked.prove(command, currencies))


def _unit_cost(periods: Periods, day: date) -> tuple[Decimal, str] | tuple[None, None]:
    """Return what one unit costs on a day; nothing without exactly one period and currency."""
    valid = [each.amounts for each in periods if each.from_date <= day <= (each.to_date or date.max)]
    if len(valid) != 1 or len(valid[0]) != 1:
        return None, None
    ((currency, amount),) = valid[0].items()
    return amount, currency


def _worth(rows: Sequence[StockRow]) -> Iterator[str]:
    """Yield what all stock is worth at cost, and which units are not in it."""
    worth = dict.fromkeys(sorted({row.currency for row in rows if row.currency}), Decimal(0))
    for row in rows:
        if row.currency and row.value is not None:
            worth[row.currency] += row.value
    named = [f"{amount:f} {currency}" for currency, amount in worth.items()]
    yield f"All stock of these accounts is worth {', '.join(named) or 'nothing that is known'} at cost."
    if unknown := [row for row in rows if row.value is None and row.all_units]:
        units, products = sum(row.all_units for row in unknown), count_of(len(unknown), "product")
        yield f"{count_of(units, 'unit')} of {products} without a valid cost are not in it."


def _runs_out(row: StockRow, within_days: int) -> bool:
    until = row.snapshot_day + timedelta(days=within_days)
    return row.risk == "out of stock" or (row.stock_out_date is not None and row.stock_out_date <= until)
