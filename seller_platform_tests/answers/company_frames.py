"""The demo company's rows as DataFrames, and the fifteen metrics computed from them, without marts and without SQL."""

import json
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pandas as pd
from sqlalchemy import text

from seller_platform.warehouse.postgres.database import Database

_CENT = Decimal("0.01")
_TABLES = ("daily_product_sales", "transactions", "orders", "cost_periods")


@dataclass(frozen=True)
class Company:
    """Daily sales with the cost of a unit, the ledger, and orders."""

    sales: pd.DataFrame
    ledger: pd.DataFrame
    orders: pd.DataFrame

    @classmethod
    def read(cls, database: Database) -> "Company":
        with database.begin() as connection:

            def rows(statement: str) -> pd.DataFrame:
                result = connection.execute(text(statement))
                return pd.DataFrame([tuple(row) for row in result], columns=list(result.keys()), dtype=object)

            sales, ledger, orders, costs = (rows(f"TABLE seller.{name}") for name in _TABLES)
        periods: dict[tuple[str, str], list[tuple[date, date, Decimal]]] = {}
        cost: Any
        for cost in costs.itertuples():
            elements = cost.cost_elements if isinstance(cost.cost_elements, list) else json.loads(cost.cost_elements)
            amount = sum((Decimal(str(each["amount"])) for each in elements), Decimal(0))
            periods.setdefault((cost.account, cost.sku), []).append((cost.from_date, cost.to_date or date.max, amount))

        def cost_of(row: Any) -> Decimal | None:
            of_product = periods.get((row.account, row.sku), ())
            return next((amount for first, last, amount in of_product if first <= row.local_day <= last), None)

        sales["unit_cost"] = pd.Series([cost_of(row) for row in sales.itertuples()], index=sales.index, dtype=object)
        return cls(sales, ledger, orders)

    def values(self, account: str, first: date, last: date, sku: str | None = None) -> dict[str, Decimal | None]:
        """Return every metric of an account over days, both inclusive; None where it is not known."""

        def chosen(rows: pd.DataFrame) -> pd.DataFrame:
            rows = rows[(rows.account == account) & (rows.local_day >= first) & (rows.local_day <= last)]
            return rows if sku is None else rows[rows.sku == sku]

        sales, ledger, orders = chosen(self.sales), chosen(self.ledger), chosen(self.orders)
        about = ledger.transaction_type + " " + ledger.description
        is_fee = ledger.transaction_type == "Fee"

        def posted(rows: pd.Series) -> Decimal:
            return sum(ledger.amount[rows], Decimal(0))

        revenue, units = sum(sales.product_sales, Decimal(0)), sum(sales.units_ordered)
        fees, refunds = -posted(is_fee), -posted(ledger.transaction_type == "Refund")
        unknown = sum(sales.units_ordered[sales.unit_cost.isna()])
        by_day = sales.assign(known=sales.unit_cost.notna()).groupby("local_day" if sku is None else "account").known
        is_known = bool(by_day.any().all() if sku is None else by_day.all().all())
        known = sales[sales.unit_cost.notna()]
        cost = sum(known.units_ordered * known.unit_cost, Decimal(0))
        profit = revenue - cost - fees
        others = posted(~is_fee & ~ledger.transaction_type.isin(["Order", "Transfer"]))
        net = profit + sum(sales.shipping_credits, Decimal(0)) - sum(sales.rebates, Decimal(0)) + others

        def percent(amount: Decimal) -> Decimal:
            return (100 * amount / revenue).quantize(_CENT, ROUND_HALF_UP)

        return {
            "units": Decimal(units),
            "orders": Decimal(orders.platform_order_id[~orders.order_status.isin(["Cancelled", "Canceled"])].nunique()),
            "product_sales": revenue,
            "average_price": (revenue / units).quantize(_CENT, ROUND_HALF_UP),
            "refunds": refunds,
            "refund_rate": percent(refunds),
            "platform_fees": fees,
            "fee_rate": percent(fees),
            "advertising": -posted(~is_fee & about.str.contains("dvertis")),
            "product_cost": cost if is_known else None,
            "profit": profit if is_known else None,
            "profit_margin": percent(profit) if is_known else None,
            "net_profit": net if is_known else None,
            "net_margin": percent(net) if is_known else None,
            "units_without_cost": Decimal(unknown),
        }
