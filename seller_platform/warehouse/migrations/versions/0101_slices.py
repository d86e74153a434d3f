"""Slices get a row each, filled from the receipts. Why a slice failed moves there.

Partitions of marts and exports get rows, too, with their next build.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.slices import fill_slices, keep_slices
from seller_platform.warehouse.schema.tables import TransactionNumber

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


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "slices",
        sa.Column("dataset", sa.Text(), nullable=False, comment="The table in schema seller."),
        sa.Column("account", sa.Text(), nullable=False, comment="Account key; for seller.accounts the connection."),
        sa.Column("month", sa.Date(), comment="The first day of the month; null where the list has no days."),
        sa.Column(
            "load_id",
            sa.BigInteger(),
            comment="The newest load of any of its days: platform.loads.id; null if never loaded.",
        ),
        sa.Column("changed_load_id", sa.BigInteger(), comment="The newest load that changed its rows."),
        sa.Column("reported_load_id", sa.BigInteger(), comment="The newest load that was reported to Dagster."),
        sa.Column(
            "rows",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="Rows stored; of a snapshot the newest.",
        ),
        sa.Column("read_at", moment, comment="When the newest published reading of it began."),
        sa.Column("current_at", moment, comment="When the newest with the account's present day in it began."),
        sa.Column(
            "days_read",
            postgresql.ARRAY(moment),
            comment="When each of its days was last read, from the first; null days are to be read.",
        ),
        sa.Column(
            "read_after_days",
            sa.Integer(),
            comment="The fewest days after which a day was last read; null before all were.",
        ),
        sa.Column("time_zone", sa.Text(), comment="The account's time zone, as it was last read."),
        sa.Column("currency", sa.Text(), comment="The account's currency, as it was last read."),
        sa.Column(
            "mismatched_load_ids",
            postgresql.ARRAY(sa.BigInteger()),
            server_default="{}",
            nullable=False,
            comment="Loads whose rows do not add up to the announced total, and that no later load replaced.",
        ),
        sa.Column(
            "held_load_ids",
            postgresql.ARRAY(sa.BigInteger()),
            server_default="{}",
            nullable=False,
            comment="Readings that are held: no later loads published their days, or held them again.",
        ),
        sa.Column(
            "noted_load_ids",
            postgresql.ARRAY(sa.BigInteger()),
            server_default="{}",
            nullable=False,
            comment="Loads whose notes a check reads, and whose days no later loads replaced together.",
        ),
        sa.Column(
            "recounted_rows",
            sa.BigInteger(),
            comment="Rows that were counted since its load, if they are not as many.",
        ),
        sa.Column(
            "transaction_id",
            TransactionNumber(),
            server_default=sa.text("pg_current_xact_id()"),
            nullable=False,
            comment="The transaction that changed the row last.",
        ),
        sa.Column("error", sa.Text(), comment="The class of the error when it was last tried; null if it was loaded."),
        sa.Column("message", sa.Text(), comment="What happened, and the next step."),
        sa.Column("failed_since", moment, comment="When it failed first, after its last load."),
        sa.Column("failed_at", moment, comment="When it failed last."),
        sa.Column("failed_run_id", sa.Text(), comment="The Dagster run that failed last."),
        sa.Column(
            "requests_in_vain",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="The most requests that were sent in vain, before those of a day were used up.",
        ),
        schema="platform",
        comment="What is true of each slice now: stored, held or failed.",
    )
    op.create_index(
        "ix_slices_unreported",
        "slices",
        ["load_id"],
        schema="platform",
        postgresql_where=sa.text("load_id IS NOT NULL AND reported_load_id IS DISTINCT FROM load_id"),
    )
    op.create_index(
        "uq_slices",
        "slices",
        ["dataset", "account", "month"],
        unique=True,
        schema="platform",
        postgresql_nulls_not_distinct=True,
    )
    op.create_index(
        "ix_slices_troubled",
        "slices",
        ["dataset", "account"],
        schema="platform",
        postgresql_where=sa.text(
            "error IS NOT NULL OR held_load_ids <> '{}' OR mismatched_load_ids <> '{}' OR noted_load_ids <> '{}' "
            "OR recounted_rows IS NOT NULL"
        ),
    )
    op.create_index("ix_slices_transaction_id", "slices", ["transaction_id"], schema="platform")
    connection = op.get_bind()
    keep_slices(connection)
    fill_slices(driver_of(connection))
    connection.execute(sa.text("UPDATE platform.slices SET reported_load_id = load_id"))  # runs reported them
    connection.execute(sa.text(_FAILURES))
    op.drop_table("refusals", schema="platform")
    op.create_table(
        "derived_partitions",
        sa.Column(
            "folder", sa.Text(), nullable=False, comment="The folder of files; empty for a table of schema marts."
        ),
        sa.Column("name", sa.Text(), nullable=False, comment="The mart, or the table that was exported."),
        sa.Column("account", sa.Text(), nullable=False, comment="Key of the account; empty for files of all accounts."),
        sa.Column(
            "month", sa.Date(), comment="The first day of the month; null where the whole account is made at once."
        ),
        sa.Column(
            "changes",
            sa.BigInteger(),
            nullable=False,
            comment="Sum of the newest changes of what the newest try read; another one after each change.",
        ),
        sa.Column("version", sa.Text(), nullable=False, comment="Digest of the code of the newest try."),
        sa.Column("run_id", sa.Text(), comment="The Dagster run of the newest try; null where there was none."),
        sa.Column("tried_at", moment, nullable=False, comment="When the newest try ended."),
        sa.Column("digest", sa.LargeBinary(), comment="Digest of what was made last; null before it was made."),
        sa.Column("changed_build_id", sa.BigInteger(), comment="The build of a mart that changed its rows last."),
        sa.Column(
            "failed_checks",
            postgresql.JSONB(),
            comment="What contradicts the checks of a mart that fail, by name; null if none do.",
        ),
        sa.Column("error", sa.Text(), comment="The class of the error of the newest try; null if it succeeded."),
        sa.Column("message", sa.Text(), comment="What happened, and the next step."),
        sa.Column("failed_since", moment, comment="When it failed first, after it was made last."),
        schema="platform",
        comment="The newest try of each partition of a mart and of its files: made or failed.",
    )
    op.create_index(
        "uq_derived_partitions",
        "derived_partitions",
        ["folder", "name", "account", "month"],
        unique=True,
        schema="platform",
        postgresql_nulls_not_distinct=True,
    )
