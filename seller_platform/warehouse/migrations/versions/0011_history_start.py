"""The first day of history."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0009"
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
