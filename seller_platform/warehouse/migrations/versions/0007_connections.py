"""What each connection needs to be called by itself."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "connections",
        sa.Column(
            "client_secret",
            sa.LargeBinary(),
            nullable=True,
            comment="The application's secret, encrypted (Fernet); null: the settings'.",
        ),
        schema="platform",
    )
    op.add_column(
        "connections",
        sa.Column(
            "redirect_uri",
            sa.Text(),
            nullable=True,
            comment="Where the authorisation page leads back to; null: the settings'.",
        ),
        schema="platform",
    )
