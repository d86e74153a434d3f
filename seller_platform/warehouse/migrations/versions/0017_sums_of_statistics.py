"""Sums of sales, costs and fees by product and month and by day, in place of the daily fees.

The tables stay empty: the first request for the statistics of an account sums its rows, or the next load of a month.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_table("daily_fees", schema="service")
    op.create_table(
        "product_sums",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("month", sa.Date(), nullable=False, comment="Its first day."),
        sa.Column("sku", sa.Text(), comment="Null: sales that name no product."),
        sa.Column("kind", sa.Text(), nullable=False, comment="sales, cost or fees."),
        sa.Column("currency", sa.Text(), nullable=False, comment="Empty: the currency of the account."),
        sa.Column("units", sa.Numeric(), comment="Units ordered; null unless sales."),
        sa.Column("amount", sa.Numeric(), comment="The sum of the month; costs and fees are positive."),
        sa.Column(
            "day_bits",
            sa.Integer(),
            nullable=False,
            comment="The days that have rows: bit 0 is the first of the month.",
        ),
        schema="service",
        comment="Sales, costs and fees by product and month.",
    )
    op.create_index(op.f("ix_product_sums_account_month"), "product_sums", ["account", "month"], schema="service")
    op.create_table(
        "product_days",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("month", sa.Date(), nullable=False, comment="Its first day."),
        sa.Column("sku", sa.Text(), comment="Null: sales that name no product."),
        sa.Column("kind", sa.Text(), nullable=False, comment="sales, cost or fees."),
        sa.Column("currency", sa.Text(), nullable=False, comment="Empty: the currency of the account."),
        sa.Column("days", ARRAY(sa.Date()), nullable=False, comment="The days that have rows, in no order."),
        sa.Column("units_of_days", ARRAY(sa.BigInteger()), comment="Units ordered on these days; null unless sales."),
        sa.Column("amounts_of_days", ARRAY(sa.Numeric()), nullable=False, comment="The sums of these days."),
        schema="service",
        comment="The days of each row of product_sums, in rows of their own, so that sums of months are read quickly.",
    )
    op.create_index(op.f("ix_product_days_account_month"), "product_days", ["account", "month"], schema="service")
    op.create_table(
        "day_sums",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("local_day", sa.Date(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False, comment="sales, cost or fees."),
        sa.Column("is_of_product", sa.Boolean(), nullable=False, comment="False: fees that concern no product."),
        sa.Column("currency", sa.Text(), nullable=False, comment="Empty: the currency of the account."),
        sa.Column("entries", sa.BigInteger(), nullable=False, comment="How many amounts were added."),
        sa.Column("units", sa.Numeric(), comment="Units ordered; null unless sales."),
        sa.Column("amount", sa.Numeric(), comment="The sum of the day; costs and fees are positive."),
        schema="service",
        comment="Sales, costs and fees of all products by day.",
    )
    op.create_index(op.f("ix_day_sums_account_local_day"), "day_sums", ["account", "local_day"], schema="service")
    op.create_table(
        "cost_steps",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column(
            "periods_hash",
            sa.Numeric(),
            nullable=False,
            comment="Hash of the cost periods that the costs follow from.",
        ),
        sa.Column("currency", sa.Text(), nullable=False, comment="Empty: the currency of the account."),
        sa.Column("days", ARRAY(sa.Date()), nullable=False, comment="The days on which the cost changes, in order."),
        sa.Column(
            "amounts", ARRAY(sa.Numeric()), nullable=False, comment="The cost of a unit from each of these days on."
        ),
        schema="service",
        comment="The costs of each product, from its newest cost periods.",
    )
    op.create_index(op.f("ix_cost_steps_account_sku"), "cost_steps", ["account", "sku"], schema="service")
    op.create_table(
        "cost_versions",
        sa.Column("account", sa.Text(), primary_key=True),
        sa.Column(
            "rows_hash", sa.Numeric(), nullable=False, comment="Hash of the places and transactions of the rows."
        ),
        schema="service",
        comment="The rows of cost periods that an account's costs were last computed from.",
    )
    op.add_column(
        "summaries",
        sa.Column(
            "with_sums",
            sa.Boolean(),
            nullable=False,
            server_default=sa.text("false"),
            comment="Whether the sums of statistics are stored, too.",
        ),
        schema="service",
    )
    op.create_table_comment(
        "summaries",
        "Which rows the daily counts and sums are made of: those of an account's dataset after these loads, and after "
        "those that kept the sums themselves.",
        schema="service",
    )
    op.add_column(
        "loads",
        sa.Column(
            "summed", sa.Boolean(), comment="Whether the load kept the sums of its months; null before there were any."
        ),
        schema="platform",
    )
