"""Orders are gifts or not, and have their total in cents; receipts say who asked for them."""

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Text

from seller_platform.warehouse.migrations.operations import create_index, fill_column

revision = "1002"
down_revision = "1001"


def upgrade() -> None:
    for schema in ("history", "seller"):
        gift = Column("is_gift", Boolean, comment="Whether the order is a gift.")
        cents = Column("total_cents", BigInteger, comment="Total of this order line in cents.")
        op.add_column("orders", gift, schema=schema, if_not_exists=True)
        op.add_column("orders", cents, schema=schema, if_not_exists=True)
    asked = Column("asked_by", Text, server_default="schedule", comment="Who asked for the load.")
    op.add_column("loads", asked, schema="platform", if_not_exists=True)
    create_index("ix_orders_asin", "seller.orders", "(account, asin)")
    for schema in ("history", "seller"):
        fill_column(f"{schema}.orders", "total_cents", "(order_total * 100)::bigint", "local_day")
