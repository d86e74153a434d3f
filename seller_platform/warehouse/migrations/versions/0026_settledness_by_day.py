"""The view `platform.settledness` divides changes by the size of their day; after an upgrade it is created anew."""

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table."""
