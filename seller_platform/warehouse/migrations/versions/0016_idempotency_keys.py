"""Answers that a repeated request gets again."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False, comment="Method and path."),
        sa.Column("key", sa.Text(), nullable=False, comment="The value of the header Idempotency-Key."),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False, comment="SHA-256 of the query and the body."),
        sa.Column("status", sa.Integer(), nullable=False, comment="The HTTP status of the answer."),
        sa.Column("media_type", sa.Text(), nullable=True, comment="The type of its body."),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["service.users.id"], name="fk_idempotency_keys_user_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("user_id", "endpoint", "key", name="pk_idempotency_keys"),
        schema="service",
        comment="Answers that a repeated request gets again, for a day.",
    )
    op.create_index("ix_idempotency_keys_stored_at", "idempotency_keys", ["stored_at"], schema="service")
