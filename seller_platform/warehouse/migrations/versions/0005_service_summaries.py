"""What the service keeps counted and summed."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "summaries",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.Column(
            "loads",
            postgresql.ARRAY(sa.BigInteger()),
            nullable=False,
            comment="The loads whose rows are in: platform.loads.id.",
        ),
        sa.PrimaryKeyConstraint("account", "dataset", name=op.f("pk_summaries")),
        schema="service",
        comment="Which rows the daily counts and fees are made of: those of an account's dataset after these loads.",
    )
    op.create_table(
        "daily_counts",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.Column("local_day", sa.Date(), nullable=False),
        sa.Column("part", sa.Text(), comment="The part of the list, where it has parts."),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        schema="service",
        comment="How many rows each day of a list has.",
    )
    op.create_index(
        op.f("ix_daily_counts_account_dataset_local_day"),
        "daily_counts",
        ["account", "dataset", "local_day"],
        schema="service",
    )
    op.create_table(
        "daily_fees",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("local_day", sa.Date(), nullable=False),
        sa.Column("sku", sa.Text(), comment="Null: fees that concern no product."),
        sa.Column("currency", sa.Text()),
        sa.Column("amount", sa.Numeric(), nullable=False, comment="What was charged, as a positive cost."),
        schema="service",
        comment="The fees of seller.transactions by day, product and currency.",
    )
    op.create_index(op.f("ix_daily_fees_account_local_day"), "daily_fees", ["account", "local_day"], schema="service")
