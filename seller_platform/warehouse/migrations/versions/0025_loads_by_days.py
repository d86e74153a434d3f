"""The newest loads of so many days are read by an index."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_DAYS = sa.text("(window_end - window_start)")


def upgrade() -> None:
    op.create_index("ix_loads_account_days", "loads", ["dataset", "account", _DAYS, "id"], schema="platform")
    op.create_index("ix_loads_days", "loads", ["dataset", _DAYS, "id"], schema="platform")
