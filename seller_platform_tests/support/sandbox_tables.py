"""The tables that the sandbox fills, and digests of their rows."""

from datetime import date
from typing import Any

from sqlalchemy import text

from seller_platform.warehouse.postgres.database import Database

TODAY = date(2026, 4, 15)
"""The day of the fixture `sandbox`. Before it lie the days on which clocks change in all three zones."""

TABLES = (
    "seller.accounts",
    "seller.orders",
    "seller.daily_product_sales",
    "seller.transactions",
    "seller.inventory",
    "seller.warehouse_stock",
    "seller.inbound_shipments",
    "seller.notifications",
    "seller.cost_periods",
    "service.products",
    "service.exchange_rates",
)


def contents(database: Database) -> dict[str, tuple[int, str]]:
    """Return the rows of each table and a digest of all their values."""
    with database.begin() as connection:
        connection.execute(text("SET LOCAL TIME ZONE 'UTC'"))
        return {
            table: tuple(
                connection.execute(
                    text(f"SELECT count(*), md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM {table} t")
                ).one()
            )
            for table in TABLES
        }


def rows(database: Database, query: str, **values: object) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    return [tuple(row) for row in database.execute(text(query), values)]
