"""Counts the requests that each connection sends in a day."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sent_requests",
        sa.Column("connection", sa.Text(), nullable=False, comment="The connection that sent them."),
        sa.Column("day", sa.Date(), nullable=False, comment="The day, in UTC."),
        sa.Column("requests", sa.Integer(), nullable=False, comment="Requests that were sent, or are reserved."),
        sa.PrimaryKeyConstraint("connection", "day", name=op.f("pk_sent_requests")),
        schema="platform",
        comment="Requests by day, of connections with a budget (SELLER_API_REQUESTS_PER_DAY).",
    )
    op.add_column(
        "refusals",
        sa.Column(
            "requests",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="The most requests that were sent in vain, before those of a day were used up.",
        ),
        schema="platform",
    )
