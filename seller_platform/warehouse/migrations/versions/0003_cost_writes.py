"""What was written to the upstream's cost periods, with the proof."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cost_plans",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("uid", sa.Uuid(), nullable=False, comment="Names the plan wherever its file is carried."),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False, comment="Who made it."),
        sa.Column("source", sa.Text(), nullable=False, comment="The file or the table that says what is wanted."),
        sa.Column("undo_of", sa.BigInteger(), comment="The plan that this one takes back."),
        sa.ForeignKeyConstraint(["undo_of"], ["platform.cost_plans.id"], name=op.f("fk_cost_plans_undo_of")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cost_plans")),
        sa.UniqueConstraint("uid", name=op.f("uq_cost_plans_uid")),
        schema="platform",
        comment="Plans of costs to write to the upstream; they never change.",
    )
    op.create_table(
        "cost_writes",
        sa.Column("plan", sa.BigInteger(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False, comment="Key of the account."),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("before", postgresql.JSONB(), nullable=False, comment="The cost periods when the plan was made."),
        sa.Column("wanted", postgresql.JSONB(), nullable=False, comment="All cost periods that it is to have."),
        sa.Column(
            "state",
            sa.Text(),
            nullable=False,
            comment="planned, begun, holds, unconfirmed, restored or lost.",
        ),
        sa.Column("problem", sa.Text(), comment="Why what was wanted does not hold, in a sentence."),
        sa.Column("read_back", postgresql.JSONB(), comment="What the upstream said last."),
        sa.Column("read_back_at", sa.DateTime(timezone=True)),
        sa.Column("written_at", sa.DateTime(timezone=True), comment="When the first request was sent."),
        sa.Column("written_by", sa.Text(), comment="Who applied the plan."),
        sa.Column("run_id", sa.Text(), comment="The Dagster run that did."),
        sa.ForeignKeyConstraint(
            ["plan"], ["platform.cost_plans.id"], name=op.f("fk_cost_writes_plan"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("plan", "account", "sku", name=op.f("pk_cost_writes")),
        schema="platform",
        comment="What was written to the upstream for one SKU of a plan, with the proof.",
    )
