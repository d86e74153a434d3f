"""Slices get a row each, filled from the receipts. Why a slice failed moves there.

Partitions of marts and exports get rows, too, with their next build. Reports are leased from their own table: the
former queue goes, and reports that it had are leased from then on.
"""

import sqlalchemy as sa
from alembic import op

from seller_platform.warehouse.marts.tables import DERIVED
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.service_tables import REPORT_JOBS
from seller_platform.warehouse.schema.slices import fill_slices, keep_slices
from seller_platform.warehouse.schema.tables import SLICES

revision = "0101"
down_revision = "0100"
branch_labels = None
depends_on = None

_FAILURES = """
INSERT INTO platform.slices (dataset, account, month, error, message, failed_since, failed_at, failed_run_id,
                             requests_in_vain)
SELECT dataset, account, CAST(nullif(month, '') || '-01' AS date), error, message, since, refused_at, run_id, requests
FROM platform.refusals
ON CONFLICT (dataset, account, month) DO UPDATE SET
    error = excluded.error, message = excluded.message, failed_since = excluded.failed_since,
    failed_at = excluded.failed_at, failed_run_id = excluded.failed_run_id,
    requests_in_vain = excluded.requests_in_vain
"""
_DROP_QUEUE = """
DO $$
DECLARE
    dropped text;
BEGIN
    FOR dropped IN
        SELECT format('TABLE IF EXISTS %s', oid::regclass) FROM pg_class
        WHERE relnamespace = 'service'::regnamespace AND relkind = 'r' AND relname LIKE 'procrastinate\\_%'
        UNION ALL
        SELECT format('FUNCTION IF EXISTS %s', oid::regprocedure) FROM pg_proc
        WHERE pronamespace = 'service'::regnamespace
          AND (proname LIKE 'procrastinate\\_%' OR proname = 'notify_of_waiting_reports')
        UNION ALL
        SELECT format('TYPE IF EXISTS %s', oid::regtype) FROM pg_type
        WHERE typnamespace = 'service'::regnamespace AND typname LIKE 'procrastinate\\_%' AND typrelid = 0
          AND typelem = 0
    LOOP
        EXECUTE format('DROP %s CASCADE', dropped);
    END LOOP;
END $$
"""


def upgrade() -> None:
    connection = op.get_bind()
    SLICES.create(connection)
    keep_slices(connection)
    fill_slices(driver_of(connection))
    connection.execute(sa.text("UPDATE platform.slices SET reported_load_id = load_id"))  # runs reported them
    connection.execute(sa.text(_FAILURES))
    op.drop_table("refusals", schema="platform")
    DERIVED.create(connection)
    op.drop_column("mart_builds", "snapshot", schema="platform")
    connection.exec_driver_sql(_DROP_QUEUE.replace("%", "%%"))
    op.add_column("report_jobs", REPORT_JOBS.c.leased_until, schema="service")
    op.alter_column("report_jobs", "failures", comment=REPORT_JOBS.c.failures.comment, schema="service")
    next(index for index in REPORT_JOBS.indexes if index.name == "ix_report_jobs_open").create(connection)
