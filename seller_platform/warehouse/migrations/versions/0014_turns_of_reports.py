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
    # Reports of one user share a lock. When one ends, workers are notified as of a new job, so that they look for the
    # next one at once; else they would look only at their next poll.
    op.execute("""
        CREATE FUNCTION service.notify_of_waiting_reports() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF EXISTS (SELECT FROM service.procrastinate_jobs WHERE lock = OLD.lock AND status = 'todo') THEN
                PERFORM pg_notify(
                    'procrastinate_queue_v1#' || OLD.queue_name,
                    json_build_object('type', 'job_inserted', 'job_id', OLD.id)::text
                );
            END IF;
            RETURN NULL;
        END $$
    """)
    op.execute("""
        CREATE TRIGGER notify_of_waiting_reports AFTER DELETE ON service.procrastinate_jobs
        FOR EACH ROW WHEN (OLD.lock IS NOT NULL) EXECUTE FUNCTION service.notify_of_waiting_reports()
    """)
