"""The first day of history, and slices that could not be loaded."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "history_start",
        sa.Column("is_only_row", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column(
            "first_day", sa.Date(), nullable=False, comment="The first day of interest; it only becomes earlier."
        ),
        sa.CheckConstraint("is_only_row", name=op.f("ck_history_start_is_only_row")),
        sa.PrimaryKeyConstraint("is_only_row", name=op.f("pk_history_start")),
        schema="platform",
        comment="Where history begins, in one row; its month is the first partition.",
    )
    op.create_table(
        "refusals",
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False, comment="Key of the account."),
        sa.Column(
            "month", sa.Text(), nullable=False, comment="The month of the slice, as 2026-03; empty for a snapshot."
        ),
        sa.Column("error", sa.Text(), nullable=False, comment="The class of the error."),
        sa.Column("message", sa.Text(), nullable=False, comment="What happened, and the next step."),
        sa.Column(
            "since",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When it failed first, after its last load.",
        ),
        sa.Column("refused_at", sa.DateTime(timezone=True), nullable=False, comment="When it failed last."),
        sa.Column("run_id", sa.Text(), nullable=True, comment="The Dagster run that failed last."),
        sa.PrimaryKeyConstraint("dataset", "account", "month", name=op.f("pk_refusals")),
        schema="platform",
        comment="Slices that could not be loaded when they were last tried; deleted when they are.",
    )
