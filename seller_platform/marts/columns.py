"""Columns that several marts have, and what amounts are computed from."""

from dataclasses import replace

from seller_platform.contract import Kind
from seller_platform.warehouse.derived.declaration import MartColumn

OF_SALES = ("daily_product_sales.product_sales",)
OF_COST = (
    "daily_product_sales.units_ordered",
    "daily_product_sales.date",
    "daily_product_sales.sku",
    *(f"cost_periods.{name}" for name in ("sku", "from_date", "to_date", "cost_elements")),
)
OF_LEDGER = ("transactions.amount", "transactions.transaction_type", "transactions.currency")
OF_LINES = (*OF_LEDGER, "transactions.description")
OF_PROFIT = (*OF_SALES, *OF_COST, *OF_LEDGER)
OF_NET_PROFIT = (
    *OF_PROFIT,
    "daily_product_sales.shipping_credits",
    "daily_product_sales.rebates",
    "transactions.description",
)


def nullable(name: str, kind: Kind, doc: str, of: tuple[str, ...] = ()) -> MartColumn:
    """Return a column that may be null."""
    return MartColumn(name, kind, doc, of, nullable=True)


CURRENCY = MartColumn(
    "currency",
    Kind.TEXT,
    "ISO 4217 code of all amounts of the row. Sales are in the account's own currency (XXX where it is not known); "
    "what the ledger posted in another one stands in a row by itself.",
    ("accounts.currency_code", "transactions.currency"),
    key=True,
)
OWN_CURRENCY = replace(
    CURRENCY,
    doc="ISO 4217 code of all amounts of the row: the account's own currency (XXX where it is not known).",
    of=("accounts.currency_code",),
    key=False,
)
MONTH = MartColumn("month", Kind.DATE, "The first day of the month.", ("daily_product_sales.date",), key=True)
SKU = MartColumn("sku", Kind.TEXT, "Seller SKU.", ("daily_product_sales.sku",), key=True)
ASIN = nullable(
    "asin", Kind.TEXT, "Product identifier on the marketplace, as it was sold last.", ("daily_product_sales.asin",)
)
PRODUCT_NAME = nullable(
    "product_name", Kind.TEXT, "Name of the product, as it was sold last.", ("daily_product_sales.product_name",)
)
UNITS = MartColumn(
    "units", Kind.INTEGER, "Units ordered, in all sales channels.", ("daily_product_sales.units_ordered",)
)
PRODUCT_SALES = MartColumn("product_sales", Kind.MONEY, "Revenue from products, without tax and shipping.", OF_SALES)
SHIPPING_CREDITS = MartColumn(
    "shipping_credits", Kind.MONEY, "Shipping that the buyers paid.", ("daily_product_sales.shipping_credits",)
)
REBATES = MartColumn(
    "rebates", Kind.MONEY, "Promotional rebates granted to the buyers.", ("daily_product_sales.rebates",)
)
REFUNDS = MartColumn(
    "refunds",
    Kind.MONEY,
    "What the ledger gave back to buyers, with the tax in it, by the day it was posted, as a positive amount; a part "
    "of `net_profit`, not of `profit`.",
    OF_LEDGER,
)
PLATFORM_FEES = MartColumn(
    "platform_fees", Kind.MONEY, "Fees of the marketplace, by the day they were posted, as a positive cost.", OF_LEDGER
)
STEPS = (
    MartColumn(
        "advertising", Kind.MONEY, "Entries for advertising that are not of type Fee, as a positive cost.", OF_LINES
    ),
    MartColumn("storage", Kind.MONEY, "Entries for storage that are not of type Fee, as a positive cost.", OF_LINES),
    MartColumn(
        "subscriptions", Kind.MONEY, "Entries for subscriptions that are not of type Fee, as a positive cost.", OF_LINES
    ),
    MartColumn("reimbursements", Kind.MONEY, "What the marketplace paid for units that it lost or damaged.", OF_LINES),
    MartColumn(
        "other_entries",
        Kind.MONEY,
        "All other entries of the ledger, negative where the seller pays, without payments of buyers and payouts; "
        "`profit_bridge_monthly` lists their kinds.",
        OF_LINES,
    ),
)
NET_PROFIT = nullable(
    "net_profit",
    Kind.MONEY,
    "`profit + shipping_credits - rebates - refunds - advertising - storage - subscriptions + reimbursements + "
    "other_entries`; taxes are not a part of it. Refunds contain tax, so it is too low by that tax. Null where "
    "`profit` is.",
    OF_NET_PROFIT,
)
PRODUCT_COST = nullable(
    "product_cost",
    Kind.MONEY,
    "Units times the sum of the cost elements that were valid on the day of the sale, of the units that have any; "
    "null where none of the units sold has.",
    OF_COST,
)
PROFIT_MARGIN = nullable(
    "profit_margin",
    Kind.NUMBER,
    "Profit in percent of `product_sales`; null where there were none or profit is not known.",
    OF_PROFIT,
)
ROI = nullable(
    "roi", Kind.NUMBER, "Profit in percent of `product_cost`; null where that is 0 or profit is not known.", OF_PROFIT
)
UNITS_WITHOUT_COST = MartColumn(
    "units_without_cost",
    Kind.INTEGER,
    "Units sold on days on which no cost of the SKU was valid, or one in another currency than the account's.",
    OF_COST,
)
SALES_WITHOUT_COST = MartColumn(
    "sales_without_cost", Kind.MONEY, "The part of `product_sales` that was made on such days.", (*OF_SALES, *OF_COST)
)
SNAPSHOT_SKU = replace(SKU, of=("inventory.sku",))
SNAPSHOT_DAY = MartColumn(
    "snapshot_day", Kind.DATE, "The day of the inventory's newest snapshot, in the account's time zone."
)
SNAPSHOT_ASIN = replace(ASIN, doc="Product identifier on the marketplace.", of=("inventory.asin",))
SNAPSHOT_NAME = replace(PRODUCT_NAME, doc="Name of the product.", of=("inventory.product_name",))
VELOCITY = nullable(
    "velocity",
    Kind.NUMBER,
    "Units ordered per day over the 30 days before the snapshot, from the daily sales in all channels; null where not "
    "each of them is loaded.",
    ("daily_product_sales.units_ordered", "daily_product_sales.date"),
)
