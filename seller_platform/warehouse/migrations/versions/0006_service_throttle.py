"""The login throttle, shared by every process, and how often a report failed."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "login_attempts",
        sa.Column(
            "subject", sa.Text(), nullable=False, comment="The account or the address that the attempts are counted by."
        ),
        sa.Column(
            "made_at",
            postgresql.ARRAY(sa.DateTime(timezone=True)),
            nullable=False,
            comment="When each was made, the newest last.",
        ),
        sa.Column(
            "expires_at", sa.DateTime(timezone=True), nullable=False, comment="When none of them counts any more."
        ),
        sa.PrimaryKeyConstraint("subject", name=op.f("pk_login_attempts")),
        schema="service",
        comment="The logins that failed or are under way, for as long as they count against the next.",
    )
    op.add_column(
        "report_jobs",
        sa.Column(
            "failures",
            sa.Integer(),
            nullable=False,
            server_default="0",
            comment="How often writing it failed, or killed a worker.",
        ),
        schema="service",
    )
