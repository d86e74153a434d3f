"""Consents have scopes, accounts and an end; applications have several redirect URIs and two secrets."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment, texts = sa.DateTime(timezone=True), ARRAY(sa.Text())
    columns: dict[str, tuple[sa.Column[Any], ...]] = {
        "applications": (
            sa.Column(
                "further_redirect_uris",
                texts,
                nullable=False,
                server_default="{}",
                comment="Other addresses where users are sent back to.",
            ),
            sa.Column(
                "named_at",
                moment,
                nullable=False,
                server_default=sa.text("now()"),
                comment="When it got its name: an imitation has it later.",
            ),
            sa.Column("verified_at", moment, comment="When an operator verified it as it is now; null: never."),
            sa.Column("secret_created_at", moment, comment="When the secret was created; null: with the client."),
            sa.Column(
                "old_secret_hash",
                sa.LargeBinary(),
                comment="SHA-256 of the secret before, which works until it ends.",
            ),
            sa.Column("old_secret_ends_at", moment, comment="When the secret before ends."),
        ),
        "authorizations": (
            sa.Column(
                "scopes",
                texts,
                nullable=False,
                server_default="{read,costs:write,reports}",
                comment="What its tokens may do.",
            ),
            sa.Column(
                "accounts",
                texts,
                comment="Keys of the accounts it is for; null: all of the user's, also later ones.",
            ),
            # A consent that was given before ends a year after this migration.
            sa.Column(
                "expires_at",
                moment,
                nullable=False,
                server_default=sa.text("now() + '365 days'::interval"),
                comment="The absolute end: no token of it is valid longer.",
            ),
        ),
        "access_tokens": (sa.Column("scopes", texts, comment="What it may do; null: what its consent permits."),),
    }
    for table, added in columns.items():
        for column in added:
            op.add_column(table, column, schema="service")
    op.execute("UPDATE service.applications SET named_at = created_at")
