"""Which accounts of a seller have the same entries in their ledgers."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "repeated_ledgers",
        sa.Column("account", sa.Text(), nullable=False, comment="Key of the account."),
        sa.Column("month", sa.Date(), nullable=False, comment="The first day of the month."),
        sa.Column("other", sa.Text(), nullable=False, comment="Key of the other account that has the same entries."),
        sa.Column("rows", sa.BigInteger(), nullable=False, comment="Entries that both accounts have."),
        sa.Column("compared", sa.BigInteger(), nullable=False, comment="Entries of the account that have an order."),
        sa.Column(
            "amounts",
            postgresql.JSONB(),
            nullable=False,
            comment="The sum of the entries that both have, by currency.",
        ),
        sa.Column(
            "noticed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the accounts were compared.",
        ),
        sa.PrimaryKeyConstraint("account", "month", "other", name="pk_repeated_ledgers"),
        schema="platform",
        comment="Entries of transactions that several accounts of a seller have: sums count them several times.",
    )
