"""What is known of products beside their rows."""

from sqlalchemy import select

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.service_tables import PRODUCTS


def accounts_with_products(database: Database) -> frozenset[str]:
    """Return the keys of the accounts whose products are known by themselves; those of a replica are not."""
    with database.begin() as connection:
        return frozenset(connection.execute(select(PRODUCTS.c.account).distinct()).scalars())
