"""Reports are leased from their own table. The former queue goes; reports that it had are leased from then on."""

import sqlalchemy as sa
from alembic import op

revision = "0102"
down_revision = "0101"
branch_labels = None
depends_on = None

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
    op.get_bind().exec_driver_sql(_DROP_QUEUE.replace("%", "%%"))
    op.add_column(
        "report_jobs",
        sa.Column(
            "leased_until",
            sa.DateTime(timezone=True),
            comment="When the lease of its worker ends; null without one.",
        ),
        schema="service",
    )
    op.alter_column(
        "report_jobs",
        "failures",
        comment="How many leases ended by themselves, because writing it failed or its worker died.",
        schema="service",
    )
    op.create_index(
        "ix_report_jobs_open",
        "report_jobs",
        ["turn"],
        schema="service",
        postgresql_where=sa.text("state = 'processing'"),
    )
