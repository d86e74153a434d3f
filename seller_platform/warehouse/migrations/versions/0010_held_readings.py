"""Receipts of readings that are held instead of published."""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE INDEX ix_loads_held ON platform.loads (dataset, account) WHERE verdict = 'held'")
    op.execute("COMMENT ON COLUMN platform.loads.verdict IS 'match, mismatch, unverifiable or held.'")
