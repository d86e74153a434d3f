"""Rows without a value in their key are stored, so no column of the contract is NOT NULL any more."""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_KEYS = {
    "accounts": ("id",),
    "orders": ("platform_order_id", "purchase_date", "sku"),
    "daily_product_sales": ("date", "sku"),
    "sales_by_product": ("sku",),
    "sales_by_date": ("date",),
    "inventory": ("sku",),
    "cost_periods": ("sku", "from_date"),
    "report_rows": ("report_id", "position"),
    "notifications": ("id",),
    "warehouse_stock": ("sku", "warehouse_name"),
    "inbound_shipments": ("shipment_id",),
}


def upgrade() -> None:
    for table, columns in _KEYS.items():
        for column in columns:
            for schema in ("seller", "history"):
                op.alter_column(table, column, nullable=True, schema=schema)
