"""When a consent was last used, for the page on which its user ends it; and a comment that tells the truth."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "authorizations",
        sa.Column(
            "last_used_on",
            sa.Date(),
            nullable=True,
            comment="The last day (UTC) on which a token of it was used to read or write; null: never.",
        ),
        schema="service",
    )
    op.alter_column(
        "inventory",
        "velocity_30_days",
        comment="Units sold per day, over 30 days unless others were asked for.",
        existing_comment="Units sold per day over the last 30 days.",
        schema="seller",
    )
