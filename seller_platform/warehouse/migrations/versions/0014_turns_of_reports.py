"""The turn of each report in the queue, and the size of its rows."""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE service.report_jobs ADD COLUMN turn bigint NOT NULL DEFAULT 0, ADD COLUMN bytes bigint")
    op.execute(
        "COMMENT ON COLUMN service.report_jobs.turn IS 'Its place in the queue; users take turns, the lowest first.'"
    )
    op.execute(
        "COMMENT ON COLUMN service.report_jobs.bytes IS 'The size of its stored rows; null until it is completed.'"
    )
    op.execute("CREATE INDEX ix_report_jobs_turn ON service.report_jobs (turn)")
    op.execute("""
        UPDATE service.report_jobs AS job
        SET bytes = coalesce((SELECT sum(octet_length(rows)) FROM service.report_chunks WHERE report_id = job.id), 0)
        WHERE state = 'completed'
    """)
