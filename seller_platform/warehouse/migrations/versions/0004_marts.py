"""The marts, and the receipts of their builds."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE SCHEMA marts")
    op.create_table(
        "mart_builds",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("mart", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False, comment="Key of the account."),
        sa.Column(
            "window_start",
            sa.Date(),
            nullable=True,
            comment="The first day of the month; null where the whole account was built.",
        ),
        sa.Column("window_end", sa.Date(), nullable=True, comment="The first day after it."),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="Order-independent digest of the rows."),
        sa.Column(
            "parameters",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="The numbers that the computation was given.",
        ),
        sa.Column(
            "loads",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="The newest load of each dataset that was read: dataset and platform.loads.id.",
        ),
        sa.Column("run_id", sa.Text(), nullable=True, comment="The Dagster run."),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mart_builds")),
        schema="platform",
        comment="The receipts of marts: one row for each time a partition was built.",
    )
    op.create_index(
        op.f("ix_mart_builds_mart_account_window_start"),
        "mart_builds",
        ["mart", "account", "window_start"],
        unique=False,
        schema="platform",
    )
    op.create_table(
        "account_profit_daily",
        sa.Column("local_day", sa.Date(), nullable=False, comment="The day, in the account's time zone."),
        sa.Column(
            "currency",
            sa.Text(),
            nullable=False,
            comment="ISO 4217 code of all amounts of the row. Sales are in the account's own currency (XXX where it is not known); what the ledger posted in another one stands in a row by itself.",
        ),
        sa.Column("units", sa.BigInteger(), nullable=False, comment="Units ordered, in all sales channels."),
        sa.Column(
            "product_sales", sa.Numeric(), nullable=False, comment="Revenue from products, without tax and shipping."
        ),
        sa.Column("taxes", sa.Numeric(), nullable=False, comment="Tax collected on the sales."),
        sa.Column("shipping_credits", sa.Numeric(), nullable=False, comment="Shipping that the buyers paid."),
        sa.Column("rebates", sa.Numeric(), nullable=False, comment="Promotional rebates granted to the buyers."),
        sa.Column(
            "refunds",
            sa.Numeric(),
            nullable=False,
            comment="What the ledger gave back to buyers, by the day it was posted, as a positive amount; not a part of `profit`.",
        ),
        sa.Column(
            "platform_fees",
            sa.Numeric(),
            nullable=False,
            comment="Fees of the marketplace, by the day they were posted, as a positive cost.",
        ),
        sa.Column(
            "product_cost",
            sa.Numeric(),
            nullable=True,
            comment="Units times the sum of the cost elements that were valid on the day of the sale, of the units that have any; null where none of the units sold has.",
        ),
        sa.Column(
            "profit",
            sa.Numeric(),
            nullable=True,
            comment="`product_sales - product_cost - platform_fees`, as the statistics compute it: too high by the cost of `units_without_cost`; null where `product_cost` is.",
        ),
        sa.Column(
            "profit_margin",
            sa.Numeric(),
            nullable=True,
            comment="Profit in percent of `product_sales`; null where there were none or profit is not known.",
        ),
        sa.Column(
            "roi",
            sa.Numeric(),
            nullable=True,
            comment="Profit in percent of `product_cost`; null where that is 0 or profit is not known.",
        ),
        sa.Column(
            "units_without_cost",
            sa.BigInteger(),
            nullable=False,
            comment="Units sold on days on which no cost of the SKU was valid, or one in another currency than the account's.",
        ),
        sa.Column(
            "sales_without_cost",
            sa.Numeric(),
            nullable=False,
            comment="The part of `product_sales` that those units made.",
        ),
        sa.Column("account", sa.Text(), nullable=False, comment="Key of the account."),
        sa.Column(
            "build_id",
            sa.BigInteger(),
            nullable=False,
            comment="The build that wrote the row: platform.mart_builds.id.",
        ),
        schema="marts",
        comment="Sales, cost, fees and profit of an account on one day, in one currency.",
    )
    op.create_index(
        "ix_account_profit_daily_partition",
        "account_profit_daily",
        ["account", "local_day"],
        unique=False,
        schema="marts",
    )
    op.create_table(
        "product_performance_monthly",
        sa.Column("month", sa.Date(), nullable=False, comment="The first day of the month."),
        sa.Column("sku", sa.Text(), nullable=False, comment="Seller SKU."),
        sa.Column(
            "currency",
            sa.Text(),
            nullable=False,
            comment="ISO 4217 code of all amounts of the row. Sales are in the account's own currency (XXX where it is not known); what the ledger posted in another one stands in a row by itself.",
        ),
        sa.Column(
            "asin", sa.Text(), nullable=True, comment="Product identifier on the marketplace, as it was sold last."
        ),
        sa.Column("product_name", sa.Text(), nullable=True, comment="Name of the product, as it was sold last."),
        sa.Column("units", sa.BigInteger(), nullable=False, comment="Units ordered, in all sales channels."),
        sa.Column(
            "product_sales", sa.Numeric(), nullable=False, comment="Revenue from products, without tax and shipping."
        ),
        sa.Column(
            "share_of_sales",
            sa.Numeric(),
            nullable=True,
            comment="`product_sales` in percent of the account's sales of the month; null where there were none.",
        ),
        sa.Column(
            "rank",
            sa.BigInteger(),
            nullable=True,
            comment="Place of the SKU by `product_sales`, from 1; null where it sold nothing.",
        ),
        sa.Column(
            "abc_class",
            sa.Text(),
            nullable=True,
            comment="A for the SKUs that sell most and make 80 percent of the sales together, B for the next up to 95, C for the rest; null where it sold nothing.",
        ),
        sa.Column("rebates", sa.Numeric(), nullable=False, comment="Promotional rebates granted to the buyers."),
        sa.Column(
            "units_refunded", sa.BigInteger(), nullable=False, comment="Units that the refunds of the month concern."
        ),
        sa.Column(
            "refunds",
            sa.Numeric(),
            nullable=False,
            comment="What the ledger gave back to buyers, by the day it was posted, as a positive amount; not a part of `profit`.",
        ),
        sa.Column(
            "platform_fees",
            sa.Numeric(),
            nullable=False,
            comment="Fees of the marketplace that name the SKU, by the day they were posted, as a positive cost; fees of the account as a whole are in account_profit_daily only.",
        ),
        sa.Column(
            "product_cost",
            sa.Numeric(),
            nullable=True,
            comment="Units times the sum of the cost elements that were valid on the day of the sale, of the units that have any; null where none of the units sold has.",
        ),
        sa.Column(
            "profit",
            sa.Numeric(),
            nullable=True,
            comment="`product_sales - product_cost - platform_fees`; null where any unit has no valid cost.",
        ),
        sa.Column(
            "profit_margin",
            sa.Numeric(),
            nullable=True,
            comment="Profit in percent of `product_sales`; null where there were none or profit is not known.",
        ),
        sa.Column(
            "roi",
            sa.Numeric(),
            nullable=True,
            comment="Profit in percent of `product_cost`; null where that is 0 or profit is not known.",
        ),
        sa.Column(
            "units_without_cost",
            sa.BigInteger(),
            nullable=False,
            comment="Units sold on days on which no cost of the SKU was valid, or one in another currency than the account's.",
        ),
        sa.Column(
            "units_before", sa.BigInteger(), nullable=False, comment="Units ordered in the month before, as a whole."
        ),
        sa.Column(
            "sales_before",
            sa.Numeric(),
            nullable=False,
            comment="Revenue from the product in the month before, as a whole.",
        ),
        sa.Column(
            "sales_change",
            sa.Numeric(),
            nullable=True,
            comment="Change of `product_sales` against `sales_before` in percent; null where that is 0. A month that is not over is compared with the whole month before.",
        ),
        sa.Column("account", sa.Text(), nullable=False, comment="Key of the account."),
        sa.Column(
            "build_id",
            sa.BigInteger(),
            nullable=False,
            comment="The build that wrote the row: platform.mart_builds.id.",
        ),
        schema="marts",
        comment="Sales, cost, fees and profit of one SKU in one month and currency, its rank, and what it sold before.",
    )
    op.create_index(
        "ix_product_performance_monthly_partition",
        "product_performance_monthly",
        ["account", "month"],
        unique=False,
        schema="marts",
    )
    op.create_table(
        "inventory_health",
        sa.Column("sku", sa.Text(), nullable=False, comment="Seller SKU."),
        sa.Column(
            "snapshot_day",
            sa.Date(),
            nullable=False,
            comment="The day of the inventory's newest snapshot, in the account's time zone.",
        ),
        sa.Column("asin", sa.Text(), nullable=True, comment="Product identifier on the marketplace."),
        sa.Column("product_name", sa.Text(), nullable=True, comment="Name of the product."),
        sa.Column("fulfillable_units", sa.BigInteger(), nullable=True, comment="Units that can be sold now."),
        sa.Column("reserved_units", sa.BigInteger(), nullable=True, comment="Units reserved for open orders."),
        sa.Column("inbound_units", sa.BigInteger(), nullable=True, comment="Units on their way in."),
        sa.Column(
            "own_warehouse_units",
            sa.BigInteger(),
            nullable=False,
            comment="Units marked available in the seller's own warehouses, by their newest snapshot.",
        ),
        sa.Column(
            "units_30_days",
            sa.BigInteger(),
            nullable=False,
            comment="Units ordered in the 30 days before the snapshot.",
        ),
        sa.Column(
            "units_90_days",
            sa.BigInteger(),
            nullable=False,
            comment="Units ordered in the 90 days before the snapshot.",
        ),
        sa.Column(
            "sales_days",
            sa.BigInteger(),
            nullable=False,
            comment="Days of those 30 on which the account sold anything; few of them mean that sales are not loaded, and velocities too low.",
        ),
        sa.Column(
            "velocity",
            sa.Numeric(),
            nullable=False,
            comment="Units ordered per day over the 30 days before the snapshot, from the daily sales in all channels.",
        ),
        sa.Column("stated_velocity", sa.Numeric(), nullable=True, comment="The velocity that the API states."),
        sa.Column(
            "days_of_cover",
            sa.Numeric(),
            nullable=True,
            comment="Days the fulfillable units last at the velocity; null where nothing sells.",
        ),
        sa.Column(
            "days_of_cover_with_inbound",
            sa.Numeric(),
            nullable=True,
            comment="The same with the units on their way in.",
        ),
        sa.Column(
            "stock_out_date",
            sa.Date(),
            nullable=True,
            comment="The day on which the fulfillable units will have run out; null where nothing sells or they last ten years.",
        ),
        sa.Column(
            "stock_out_risk",
            sa.Text(),
            nullable=False,
            comment="`out of stock` (no units, but sold within 90 days), `no demand` (nothing sold within 30 days), `critical` (cover below 14 days), `low` (below 30), `overstock` (above 180 with inbound units), `healthy`, or `unknown` (the API states no units); the days are the parameters of the build.",
        ),
        sa.Column(
            "out_of_stock_days",
            sa.BigInteger(),
            nullable=False,
            comment="Snapshots of the last 30 days, this one included, that had no fulfillable units.",
        ),
        sa.Column(
            "snapshot_days", sa.BigInteger(), nullable=False, comment="How many snapshots of those 30 days there are."
        ),
        sa.Column("account", sa.Text(), nullable=False, comment="Key of the account."),
        sa.Column(
            "build_id",
            sa.BigInteger(),
            nullable=False,
            comment="The build that wrote the row: platform.mart_builds.id.",
        ),
        schema="marts",
        comment="Stock, velocity, days of cover and stock-out risk of one SKU, by the newest snapshot.",
    )
    op.create_index("ix_inventory_health_partition", "inventory_health", ["account"], unique=False, schema="marts")
    op.create_table(
        "restock_plan",
        sa.Column("sku", sa.Text(), nullable=False, comment="Seller SKU."),
        sa.Column(
            "snapshot_day",
            sa.Date(),
            nullable=False,
            comment="The day of the inventory's newest snapshot, in the account's time zone.",
        ),
        sa.Column("asin", sa.Text(), nullable=True, comment="Product identifier on the marketplace."),
        sa.Column("product_name", sa.Text(), nullable=True, comment="Name of the product."),
        sa.Column(
            "velocity",
            sa.Numeric(),
            nullable=False,
            comment="Units ordered per day over the 30 days before the snapshot, from the daily sales in all channels.",
        ),
        sa.Column(
            "position_units",
            sa.BigInteger(),
            nullable=False,
            comment="Fulfillable units and those on their way in, together.",
        ),
        sa.Column(
            "days_of_cover",
            sa.Numeric(),
            nullable=True,
            comment="Days they last at the velocity; null where nothing sells.",
        ),
        sa.Column(
            "order_date",
            sa.Date(),
            nullable=True,
            comment="The day on which they last just as long as lead time and safety days together; the day of the snapshot where that is past; null where nothing sells or they last ten years.",
        ),
        sa.Column(
            "order_units",
            sa.BigInteger(),
            nullable=False,
            comment="Units that last for the target cover, and what is missing already for lead time and safety days.",
        ),
        sa.Column(
            "from_own_warehouses",
            sa.BigInteger(),
            nullable=False,
            comment="Those of them that are available in the seller's own warehouses.",
        ),
        sa.Column("to_buy", sa.BigInteger(), nullable=False, comment="The rest of them."),
        sa.Column(
            "urgency",
            sa.Text(),
            nullable=False,
            comment="`now`, `this week` (7 days), `this month` (30 days) or `later`, by `order_date`; `none` without one.",
        ),
        sa.Column(
            "stock_out_date",
            sa.Date(),
            nullable=True,
            comment="The day on which the position will have run out, if nothing is ordered.",
        ),
        sa.Column(
            "days_without_stock",
            sa.BigInteger(),
            nullable=False,
            comment="Days without stock until the units arrive, if they are ordered on the day of the snapshot.",
        ),
        sa.Column("stated_restock_date", sa.Date(), nullable=True, comment="The day that the API advises."),
        sa.Column("stated_restock_units", sa.BigInteger(), nullable=True, comment="The units that the API advises."),
        sa.Column("lead_time_days", sa.BigInteger(), nullable=False, comment="The lead time that was planned with."),
        sa.Column("safety_days", sa.BigInteger(), nullable=False, comment="The safety days that were planned with."),
        sa.Column(
            "target_cover_days", sa.BigInteger(), nullable=False, comment="The target cover that was planned with."
        ),
        sa.Column("account", sa.Text(), nullable=False, comment="Key of the account."),
        sa.Column(
            "build_id",
            sa.BigInteger(),
            nullable=False,
            comment="The build that wrote the row: platform.mart_builds.id.",
        ),
        schema="marts",
        comment="When to order one SKU and how many units, so that it neither runs out nor piles up.",
    )
    op.create_index("ix_restock_plan_partition", "restock_plan", ["account"], unique=False, schema="marts")
    op.create_table(
        "settlement_reconciliation",
        sa.Column(
            "local_day",
            sa.Date(),
            nullable=False,
            comment="The day, in the account's time zone: of the order, for what was sold and paid; of the posting, for fees.",
        ),
        sa.Column(
            "currency",
            sa.Text(),
            nullable=False,
            comment="ISO 4217 code of all amounts of the row. Sales are in the account's own currency (XXX where it is not known); what the ledger posted in another one stands in a row by itself.",
        ),
        sa.Column(
            "comparison",
            sa.Text(),
            nullable=False,
            comment="`orders and daily sales` (totals of order lines that are not cancelled; product sales, taxes and shipping less rebates), `orders and payments` (the same totals; what the ledger paid for these orders within two months), `daily sales and statistics` (product sales), or `fees and statistics` (platform fees).",
        ),
        sa.Column(
            "expected",
            sa.Numeric(),
            nullable=True,
            comment="What the first source says; null where it cannot be told in this currency.",
        ),
        sa.Column(
            "found", sa.Numeric(), nullable=True, comment="What the second source says; null where it is not loaded."
        ),
        sa.Column("difference", sa.Numeric(), nullable=True, comment="`found - expected`."),
        sa.Column(
            "explained",
            sa.Numeric(),
            nullable=True,
            comment="The part of the difference that is as it should be: orders outside the marketplace, orders that are not shipped, and orders so new that the ledger as it is loaded may not know their payment.",
        ),
        sa.Column("unexplained", sa.Numeric(), nullable=True, comment="`difference - explained`."),
        sa.Column(
            "tolerance",
            sa.Numeric(),
            nullable=False,
            comment="What may stay unexplained: 0.1 percent of the larger amount (a parameter), and at least 0.01.",
        ),
        sa.Column(
            "verdict",
            sa.Text(),
            nullable=False,
            comment="`equal`, `explained` (what stays unexplained is within the tolerance), `unexplained`, or `not comparable` (one side is null).",
        ),
        sa.Column("account", sa.Text(), nullable=False, comment="Key of the account."),
        sa.Column(
            "build_id",
            sa.BigInteger(),
            nullable=False,
            comment="The build that wrote the row: platform.mart_builds.id.",
        ),
        schema="marts",
        comment="What two sources say of the same amount of one day, in one currency, and whether what differs is explained.",
    )
    op.create_index(
        "ix_settlement_reconciliation_partition",
        "settlement_reconciliation",
        ["account", "local_day"],
        unique=False,
        schema="marts",
    )
    op.create_table(
        "cost_coverage",
        sa.Column("month", sa.Date(), nullable=False, comment="The first day of the month."),
        sa.Column("sku", sa.Text(), nullable=False, comment="Seller SKU."),
        sa.Column(
            "currency",
            sa.Text(),
            nullable=False,
            comment="ISO 4217 code of all amounts of the row: the account's own currency (XXX where it is not known).",
        ),
        sa.Column(
            "asin", sa.Text(), nullable=True, comment="Product identifier on the marketplace, as it was sold last."
        ),
        sa.Column("product_name", sa.Text(), nullable=True, comment="Name of the product, as it was sold last."),
        sa.Column("units", sa.BigInteger(), nullable=False, comment="Units ordered, in all sales channels."),
        sa.Column(
            "product_sales", sa.Numeric(), nullable=False, comment="Revenue from products, without tax and shipping."
        ),
        sa.Column(
            "units_without_cost",
            sa.BigInteger(),
            nullable=False,
            comment="Units sold on days on which no cost of the SKU was valid, or one in another currency than the account's.",
        ),
        sa.Column(
            "sales_without_cost",
            sa.Numeric(),
            nullable=False,
            comment="The part of `product_sales` that was made on such days.",
        ),
        sa.Column(
            "share_covered",
            sa.Numeric(),
            nullable=True,
            comment="The part of `product_sales` with a valid cost, in percent; null where there were none.",
        ),
        sa.Column("days_sold", sa.BigInteger(), nullable=False, comment="Days with sales of the SKU."),
        sa.Column("days_without_cost", sa.BigInteger(), nullable=False, comment="Those on which no cost was valid."),
        sa.Column(
            "first_day_without_cost", sa.Date(), nullable=True, comment="The first of them; null where there is none."
        ),
        sa.Column(
            "last_day_without_cost", sa.Date(), nullable=True, comment="The last of them; null where there is none."
        ),
        sa.Column(
            "problem",
            sa.Text(),
            nullable=True,
            comment="`no cost` where the SKU has none at all, `gap` where it has on other days, `other currency` where an element is not in the account's; null where every day is covered.",
        ),
        sa.Column("account", sa.Text(), nullable=False, comment="Key of the account."),
        sa.Column(
            "build_id",
            sa.BigInteger(),
            nullable=False,
            comment="The build that wrote the row: platform.mart_builds.id.",
        ),
        schema="marts",
        comment="How much of what one SKU sold in one month has a valid cost.",
    )
    op.create_index("ix_cost_coverage_partition", "cost_coverage", ["account", "month"], unique=False, schema="marts")
