"""The tables of the first release. A new database gets the declared tables, and needs no migration."""

revision = "0100"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change nothing: no database is older."""
