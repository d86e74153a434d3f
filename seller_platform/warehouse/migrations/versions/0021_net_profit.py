"""Net profit beside profit, and the lines that lead from one to the other.

The marts that gain columns lose their rows and receipts: they are built again with the new code.
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("TRUNCATE marts.account_profit_daily, marts.product_performance_monthly")
    op.execute("DELETE FROM platform.mart_builds WHERE mart IN ('account_profit_daily', 'product_performance_monthly')")
    op.create_table(
        "profit_bridge_monthly",
        sa.Column("month", sa.Date(), nullable=False, comment="The first day of the month."),
        sa.Column(
            "currency",
            sa.Text(),
            nullable=False,
            comment="ISO 4217 code of all amounts of the row. Sales are in the account's own currency (XXX where it is not known); what the ledger posted in another one stands in a row by itself.",
        ),
        sa.Column(
            "formula",
            sa.Text(),
            nullable=False,
            comment="`standard`, or the name in the file of SELLER_PLATFORM_PROFIT_FORMULA.",
        ),
        sa.Column(
            "line",
            sa.Text(),
            nullable=False,
            comment="The line: entries of the ledger by type and description, or an amount beside the ledger (`product_sales`, `product_cost`, `shipping_credits`, `rebates`, `taxes`). `other` has the entries that no line names.",
        ),
        sa.Column("place", sa.BigInteger(), nullable=False, comment="Place of the line in its formula, from 1."),
        sa.Column(
            "part",
            sa.Text(),
            nullable=False,
            comment="Of the standard formula: `profit` (a part of profit, as the API computes it), `step` (between profit and net profit) or `not counted`; of one's own: `counted` or `not counted`.",
        ),
        sa.Column(
            "amount",
            sa.Numeric(),
            nullable=True,
            comment="The sum of the line, negative where it lowers the profit; null for `product_cost` where no unit sold has a cost.",
        ),
        sa.Column(
            "entries", sa.BigInteger(), nullable=False, comment="Entries of the ledger; 0 for an amount beside it."
        ),
        sa.Column(
            "kinds",
            sa.Text(),
            nullable=True,
            comment="Types and descriptions of these entries, one a line, the 20 most frequent; null beside the ledger.",
        ),
        sa.Column("account", sa.Text(), nullable=False, comment="Key of the account."),
        sa.Column(
            "build_id",
            sa.BigInteger(),
            nullable=False,
            comment="The build that wrote the row: platform.mart_builds.id.",
        ),
        schema="marts",
        comment="One line of a profit formula for one month and currency: what it adds to profit or net profit.",
    )
    op.create_index(
        "ix_profit_bridge_monthly_partition",
        "profit_bridge_monthly",
        ["account", "month"],
        unique=False,
        schema="marts",
    )
    op.add_column(
        "account_profit_daily",
        sa.Column(
            "advertising",
            sa.Numeric(),
            nullable=False,
            comment="Entries for advertising that are not of type Fee, as a positive cost.",
        ),
        schema="marts",
    )
    op.add_column(
        "account_profit_daily",
        sa.Column(
            "storage",
            sa.Numeric(),
            nullable=False,
            comment="Entries for storage that are not of type Fee, as a positive cost.",
        ),
        schema="marts",
    )
    op.add_column(
        "account_profit_daily",
        sa.Column(
            "subscriptions",
            sa.Numeric(),
            nullable=False,
            comment="Entries for subscriptions that are not of type Fee, as a positive cost.",
        ),
        schema="marts",
    )
    op.add_column(
        "account_profit_daily",
        sa.Column(
            "reimbursements",
            sa.Numeric(),
            nullable=False,
            comment="What the marketplace paid for units that it lost or damaged.",
        ),
        schema="marts",
    )
    op.add_column(
        "account_profit_daily",
        sa.Column(
            "other_entries",
            sa.Numeric(),
            nullable=False,
            comment="All other entries of the ledger, negative where the seller pays, without payments of buyers and payouts; `profit_bridge_monthly` lists their kinds.",
        ),
        schema="marts",
    )
    op.add_column(
        "account_profit_daily",
        sa.Column(
            "net_profit",
            sa.Numeric(),
            nullable=True,
            comment="`profit + shipping_credits - rebates - refunds - advertising - storage - subscriptions + reimbursements + other_entries`; taxes are not a part of it. Refunds contain tax, so it is too low by that tax. Null where `profit` is.",
        ),
        schema="marts",
    )
    op.alter_column(
        "account_profit_daily",
        "refunds",
        existing_type=sa.NUMERIC(),
        comment="What the ledger gave back to buyers, with the tax in it, by the day it was posted, as a positive amount; a part of `net_profit`, not of `profit`.",
        existing_comment="What the ledger gave back to buyers, by the day it was posted, as a positive amount; not a part of `profit`.",
        existing_nullable=False,
        schema="marts",
    )
    op.create_table_comment(
        "account_profit_daily",
        "Sales, cost, fees, profit and net profit of an account on one day, in one currency.",
        existing_comment="Sales, cost, fees and profit of an account on one day, in one currency.",
        schema="marts",
    )
    op.add_column(
        "product_performance_monthly",
        sa.Column("shipping_credits", sa.Numeric(), nullable=False, comment="Shipping that the buyers paid."),
        schema="marts",
    )
    op.add_column(
        "product_performance_monthly",
        sa.Column(
            "advertising",
            sa.Numeric(),
            nullable=False,
            comment="Entries for advertising that are not of type Fee, as a positive cost.",
        ),
        schema="marts",
    )
    op.add_column(
        "product_performance_monthly",
        sa.Column(
            "storage",
            sa.Numeric(),
            nullable=False,
            comment="Entries for storage that are not of type Fee, as a positive cost.",
        ),
        schema="marts",
    )
    op.add_column(
        "product_performance_monthly",
        sa.Column(
            "subscriptions",
            sa.Numeric(),
            nullable=False,
            comment="Entries for subscriptions that are not of type Fee, as a positive cost.",
        ),
        schema="marts",
    )
    op.add_column(
        "product_performance_monthly",
        sa.Column(
            "reimbursements",
            sa.Numeric(),
            nullable=False,
            comment="What the marketplace paid for units that it lost or damaged.",
        ),
        schema="marts",
    )
    op.add_column(
        "product_performance_monthly",
        sa.Column(
            "other_entries",
            sa.Numeric(),
            nullable=False,
            comment="All other entries of the ledger, negative where the seller pays, without payments of buyers and payouts; `profit_bridge_monthly` lists their kinds.",
        ),
        schema="marts",
    )
    op.add_column(
        "product_performance_monthly",
        sa.Column(
            "net_profit",
            sa.Numeric(),
            nullable=True,
            comment="`profit + shipping_credits - rebates - refunds - advertising - storage - subscriptions + reimbursements + other_entries`; taxes are not a part of it. Refunds contain tax, so it is too low by that tax. Null where `profit` is.",
        ),
        schema="marts",
    )
    op.alter_column(
        "product_performance_monthly",
        "refunds",
        existing_type=sa.NUMERIC(),
        comment="What the ledger gave back to buyers, with the tax in it, by the day it was posted, as a positive amount; a part of `net_profit`, not of `profit`.",
        existing_comment="What the ledger gave back to buyers, by the day it was posted, as a positive amount; not a part of `profit`.",
        existing_nullable=False,
        schema="marts",
    )
    op.create_table_comment(
        "product_performance_monthly",
        "Sales, cost, fees, profit and net profit of one SKU in one month and currency, its rank, and what it sold before.",
        existing_comment="Sales, cost, fees and profit of one SKU in one month and currency, its rank, and what it sold before.",
        schema="marts",
    )
    op.alter_column(
        "settlement_reconciliation",
        "local_day",
        existing_type=sa.DATE(),
        comment="The day, in the account's time zone: of the order, for what was sold and paid; of the posting, for fees; of the payout. What is not paid out yet has the last day of the ledger.",
        existing_comment="The day, in the account's time zone: of the order, for what was sold and paid; of the posting, for fees.",
        existing_nullable=False,
        schema="marts",
    )
    op.alter_column(
        "settlement_reconciliation",
        "comparison",
        existing_type=sa.TEXT(),
        comment="`orders and daily sales` (totals of order lines that are not cancelled; product sales, taxes and shipping less rebates), `orders and payments` (the same totals; what the ledger paid for these orders within two months), `daily sales and statistics` (product sales), `fees and statistics` (platform fees), or `earnings and payouts` (all entries of the ledger between two payouts; the second payout).",
        existing_comment="`orders and daily sales` (totals of order lines that are not cancelled; product sales, taxes and shipping less rebates), `orders and payments` (the same totals; what the ledger paid for these orders within two months), `daily sales and statistics` (product sales), or `fees and statistics` (platform fees).",
        existing_nullable=False,
        schema="marts",
    )
    op.alter_column(
        "settlement_reconciliation",
        "expected",
        existing_type=sa.NUMERIC(),
        comment="What the first source says; null where it is unknown in this currency, and for the first payout.",
        existing_comment="What the first source says; null where it cannot be told in this currency.",
        existing_nullable=True,
        schema="marts",
    )
    op.alter_column(
        "settlement_reconciliation",
        "explained",
        existing_type=sa.NUMERIC(),
        comment="The part of the difference that is as it should be: orders outside the marketplace, orders that are not shipped, and orders so new that the ledger as it is loaded may not know their payment. Of payouts, the balance carried over: what was posted after the period of the payout had closed, less the same of the payout before; and what is not paid out yet.",
        existing_comment="The part of the difference that is as it should be: orders outside the marketplace, orders that are not shipped, and orders so new that the ledger as it is loaded may not know their payment.",
        existing_nullable=True,
        schema="marts",
    )
    op.add_column(
        "mart_builds",
        sa.Column(
            "version",
            sa.Text(),
            nullable=True,
            comment="Digest of the code that computed them; null for builds of earlier versions.",
        ),
        schema="platform",
    )
