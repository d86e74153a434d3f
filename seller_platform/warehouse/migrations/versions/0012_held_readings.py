"""Receipts of readings that are held instead of published, and of the days that a load changed."""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE platform.loads ADD COLUMN changed_days jsonb")
    op.execute(
        "COMMENT ON COLUMN platform.loads.changed_days IS 'By day: rows that came, rows that went, change of amount.'"
    )
    op.execute("CREATE INDEX ix_loads_held ON platform.loads (dataset, account) WHERE verdict = 'held'")
    op.execute("COMMENT ON COLUMN platform.loads.verdict IS 'match, mismatch, unverifiable or held.'")
