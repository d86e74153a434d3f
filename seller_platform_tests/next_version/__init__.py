"""A made-up version after this one, whose migration proves what every upgrade relies on.

- `versions`: its migration
"""

from pathlib import Path

from seller_platform.warehouse.migrations.upgrade import upgrade
from seller_platform.warehouse.postgres.database import Database

NEXT = "1002"


def upgrade_to_next(database: Database) -> None:
    """Upgrade a database, and print a line for each migration."""
    upgrade(database, report=print, versions=[Path(__file__).parent / "versions"])
