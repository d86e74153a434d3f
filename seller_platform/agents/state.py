"""The tools `accounts`, `coverage`, `problems` and `stock`: what there is now."""

from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from shlex import quote

from psycopg import sql
from psycopg.rows import dict_row
from pydantic import Field
from sqlalchemy import text

from seller_platform.agents.asker import Asker
from seller_platform.agents.proof import (
    MOST_PROBLEMS,
    Asked,
    ChosenAccounts,
    Fact,
    NoArguments,
    Proof,
    Seen,
    ToolAnswer,
    hidden,
    zones_of,
)
from seller_platform.contract import Window
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES
from seller_platform.errors import UnanswerableError
from seller_platform.marts.restock_plan import RESTOCK_PLAN
from seller_platform.warehouse.monitoring.problems import Problem, problems
from seller_platform.warehouse.postgres.database import driver_of

_ACCOUNTS = text("""
    SELECT key, title, country_code AS country, currency_code AS currency, timezone AS time_zone,
           min(month) AS first_month, max(month) AS last_month, max(read_at) AS read_at
    FROM platform.accounts
    LEFT JOIN platform.slices ON account = key AND month IS NOT NULL AND load_id IS NOT NULL
    WHERE key = ANY (:accounts) GROUP BY key ORDER BY key
""")
_SLICES = text("""
    SELECT dataset, account, month, load_id, rows, verdict, read_at,
           CASE WHEN month IS NOT NULL
                THEN (SELECT count(moment) FROM unnest(days_read) AS day (moment)) END AS days_read
    FROM platform.slices WHERE account = ANY (:accounts) AND load_id IS NOT NULL
    ORDER BY dataset, account, month LIMIT 1000
""")

_VELOCITY_DAYS, _OLD = timedelta(days=30), timedelta(days=2)

_RUNNING_OUT = """
SELECT account, sku AS product, product_name AS name, snapshot_day, fulfillable_units, inbound_units, health.velocity,
       health.days_of_cover, health.stock_out_date, stock_out_risk AS risk, order_date, order_units, to_buy
FROM marts.inventory_health AS health JOIN marts.restock_plan AS plan USING (account, sku, snapshot_day, product_name)
WHERE account = ANY ({accounts})
  AND (stock_out_risk = 'out of stock' OR health.stock_out_date <= snapshot_day + {within_days})
ORDER BY health.stock_out_date NULLS FIRST, account, sku
LIMIT {limit}
"""


class AccountRow(Fact):
    """An account of a marketplace."""

    key: str = Field(description="What names the account in the other tools.")
    title: str
    country: str | None
    currency: str | None = Field(description="The currency of its sales.")
    time_zone: str = Field(description="Its days are days of this zone.")
    first_month: date | None = Field(description="The first month of which anything is stored.")
    last_month: date | None
    read_at: datetime | None = Field(description="When any of it was last read.")


class SliceRow(Fact):
    """What is stored of a dataset in a month of an account."""

    dataset: str
    account: str
    month: date | None = Field(description="The first day of the month; null of a list without days.")
    load_id: int = Field(description="The newest load; `seller-platform diff` shows what it changed.")
    rows: int
    verdict: str
    read_at: datetime | None
    days_read: int | None = Field(description="How many days of the month were ever read.")


class StockArguments(ChosenAccounts):
    """Accounts, and how far to look ahead."""

    within_days: int = Field(default=30, ge=0, le=3_650, description="Days from the snapshot on.")
    limit: int = Field(default=100, ge=1, le=1_000, description="The most rows.")


class StockRow(Fact):
    """A product that is out of stock, or will be."""

    account: str
    product: str
    name: str | None
    snapshot_day: date
    fulfillable_units: int | None
    inbound_units: int | None = Field(description="Under way to the marketplace; the plan counts them.")
    velocity: Decimal | None = Field(description="Units ordered per day over 30 days; null where not each is loaded.")
    days_of_cover: Decimal | None
    stock_out_date: date | None
    risk: str
    order_date: date | None = Field(description="When to order at the latest.")
    order_units: int | None = Field(description="What the plan lacks: from own warehouses, and bought.")
    to_buy: int | None = Field(description="How many of these own warehouses do not have.")


def list_accounts(asker: Asker, _: NoArguments) -> ToolAnswer[AccountRow]:
    """List the marketplace accounts that you may see, with currency, time zone and the months that are stored.

    Ask this first: the other tools name an account by its key or its exact title.

    Raises:
        UnanswerableError: There are none.
    """
    accounts = asker.chosen_accounts()
    with asker.database.begin() as connection:
        found = connection.execute(_ACCOUNTS, {"accounts": [each.key for each in accounts]})
        rows = tuple(map(AccountRow.model_validate, found))
    return ToolAnswer(
        rows=rows,
        proof=Proof(
            as_of=min((row.read_at for row in rows if row.read_at), default=None),
            coverage="Every account that may be seen.",
            bound=asker.bound(),
            currencies=tuple(sorted({row.currency for row in rows if row.currency})),
            time_zones=zones_of(accounts),
            seen=Seen(command='seller-platform query "TABLE seller.accounts"'),
        ),
    )


def list_coverage(asker: Asker, arguments: ChosenAccounts) -> ToolAnswer[SliceRow]:
    """List what is stored of each dataset and account by month: rows, days that were read, and when."""
    accounts = asker.chosen_accounts(arguments.accounts)
    with asker.database.begin() as connection:
        found = connection.execute(_SLICES, {"accounts": [each.key for each in accounts]})
        rows = tuple(map(SliceRow.model_validate, found))
    return ToolAnswer(
        rows=rows,
        notes=("Only the first 1,000 rows are listed: name fewer accounts.",) if len(rows) == 1_000 else (),
        proof=Proof(
            as_of=min((row.read_at for row in rows if row.read_at), default=None),
            coverage="What is stored of the accounts; a month with fewer days read than it has is not whole.",
            settledness="The proof of each figure says which of its days may still change.",
            bound=asker.bound(),
            time_zones=zones_of(accounts),
            seen=Seen(command="seller-platform status --datasets"),
        ),
    )


def list_problems(asker: Asker, arguments: ChosenAccounts) -> ToolAnswer[Problem]:
    """List what is wrong with the stored rows now, with the next step of each."""
    now, keys = asker.clock(), None
    if asker.accounts is not None or arguments.accounts:  # all others see those of connections, too
        keys = [each.key for each in asker.chosen_accounts(arguments.accounts)]
    found = problems(asker.database, accounts=keys)
    rows = tuple(replace(each, message=hidden(each.kind, each.message)) for each in found)
    return ToolAnswer(
        rows=rows,
        notes=() if rows else ("Nothing is known to be wrong.",),
        proof=Proof(
            as_of=now,
            coverage="Every dataset of the accounts that is read regularly.",
            problems=tuple(row.message for row in rows[:MOST_PROBLEMS]),
            bound=asker.bound(),
            seen=Seen(command='seller-platform query "TABLE platform.problems"', url=asker.dagster_url),
        ),
    )


def list_running_out(asker: Asker, arguments: StockArguments) -> ToolAnswer[StockRow]:
    """List the products that are out of stock or will be within so many days, with units to order and by when.

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
            f"Snapshots: {', '.join(sorted(map(str, {*days.values()})))}; velocity of 30 days; default lead time.",
            *(f"The snapshot of {key} is old." for key, day in days.items() if day < asker.clock().date() - _OLD),
        ),
        proof=asked.prove(f"seller-platform query {quote(statement.as_string(None))}"),
    )
