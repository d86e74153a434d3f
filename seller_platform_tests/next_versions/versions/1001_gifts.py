"""Orders say whether they are a gift, receipts who asked for them, and orders of an ASIN have an index."""

from seller_platform.warehouse.migrations.steps import AddColumn, AddIndex

COMPATIBLE_FROM = "1000"
STEPS = (
    AddColumn("history.orders", "is_gift", "boolean", "Whether the order is a gift."),
    AddColumn("seller.orders", "is_gift", "boolean", "Whether the order is a gift."),
    AddColumn("platform.loads", "asked_by", "text DEFAULT 'schedule'", "Who asked for the load."),
    AddIndex("seller.orders", "ix_orders_asin", "(account, asin)"),
)
