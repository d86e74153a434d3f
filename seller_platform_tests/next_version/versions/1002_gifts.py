"""Orders are gifts or not; receipts say who asked for them."""

from alembic import op
from sqlalchemy import Boolean, Column, Text

from seller_platform.warehouse.migrations.operations import create_index

revision = "1002"
down_revision = "1001"


def upgrade() -> None:
    for schema in ("history", "seller"):
        gift = Column("is_gift", Boolean, comment="Whether the order is a gift.")
        op.add_column("orders", gift, schema=schema, if_not_exists=True)
    asked = Column("asked_by", Text, server_default="schedule", comment="Who asked for the load.")
    op.add_column("loads", asked, schema="platform", if_not_exists=True)
    create_index("ix_orders_asin", "seller.orders", "(account, asin)")
