"""The jobs of asynchronous reports."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "report_jobs",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("selector", sa.Text(), nullable=False, comment="The parameter that says what the report holds."),
        sa.Column("value", sa.Text(), nullable=False, comment="The value of that parameter."),
        sa.Column(
            "format", sa.Text(), nullable=False, comment="The form in which the rows are downloaded: json or csv."
        ),
        sa.Column(
            "state",
            sa.Text(),
            nullable=False,
            comment="requested, pending, ready; at the end loaded, failed or given_up.",
        ),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False, comment="When the job was written down."),
        sa.Column("give_up_after", sa.Interval(), nullable=False, comment="How long one attempt may take."),
        sa.Column("attempt", sa.Integer(), nullable=False, comment="How often the upstream was asked for the report."),
        sa.Column(
            "attempted_at", sa.DateTime(timezone=True), nullable=False, comment="When the present attempt began."
        ),
        sa.Column("report_id", sa.Text(), comment="The upstream's number of the report; null until it is known."),
        sa.Column("polls", sa.Integer(), nullable=False, comment="Requests about the present attempt so far."),
        sa.Column("next_poll_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("upstream_status", sa.Text(), comment="The word with which the upstream last described the report."),
        sa.Column("upstream_message", sa.Text(), comment="What it said with it, or why it could not be asked."),
        sa.Column(
            "problem", sa.Text(), comment="Why there are no rows, in a sentence; null unless failed or given_up."
        ),
        sa.Column(
            "runs", sa.Integer(), nullable=False, comment="How many Dagster runs were asked to load or report it."
        ),
        sa.Column("run_key", sa.Text(), comment="The run that was asked last."),
        sa.Column("run_asked_at", sa.DateTime(timezone=True)),
        sa.Column("load_id", sa.BigInteger(), comment="The load that stored the rows: platform.loads.id."),
        sa.Column("told_at", sa.DateTime(timezone=True), comment="When a run failed to tell of the problem."),
        sa.ForeignKeyConstraint(
            ["account"], ["platform.accounts.key"], name=op.f("fk_report_jobs_account"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_report_jobs")),
        schema="platform",
        comment="Asynchronous reports: one row for each that was requested.",
    )
    op.create_index(
        "uq_report_jobs_open",
        "report_jobs",
        ["account", "selector", "value"],
        unique=True,
        schema="platform",
        postgresql_where=sa.text("state IN ('requested', 'pending', 'ready')"),
    )
    op.create_index(
        "ix_report_jobs_due",
        "report_jobs",
        ["next_poll_at"],
        schema="platform",
        postgresql_where=sa.text("state IN ('requested', 'pending')"),
    )
    op.create_index("ix_report_jobs_account", "report_jobs", ["account", "state"], schema="platform")
