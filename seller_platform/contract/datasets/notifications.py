"""What the service wants the seller to know about stock and prices."""

from seller_platform.contract.dataset import Column, Dataset, Kind, Slicing, SplitFilter

NOTIFICATIONS = Dataset(
    name="notifications",
    path="/notifications/list",
    doc="One notification about stock, prices or restocking.",
    area="notifications",
    slicing=Slicing.SNAPSHOT,
    fixed_page_size=100,
    announces_total=False,
    split_by=SplitFilter(
        parameter="notification_type",
        values=("inventory_alerts", "price_alerts", "restock_alerts"),
        required=True,
        field="type",
    ),
    order=("created_at", "id"),
    columns=(
        Column("id", Kind.INTEGER, "Number of the notification.", key=True),
        Column("type", Kind.TEXT, "inventory_alerts, price_alerts or restock_alerts.", example="restock_alerts"),
        Column("title", Kind.TEXT, "What happened, in a few words.", example="Send new stock"),
        Column("message", Kind.TEXT, "What happened, in a sentence."),
        Column("severity", Kind.TEXT, "low, medium or high.", example="high"),
        Column("sku", Kind.TEXT, "The SKU it concerns, if any.", example="MUG-BLUE-350"),
        Column("created_at", Kind.TIMESTAMP, "When it was raised."),
        Column("read", Kind.BOOLEAN, "Whether somebody has read it."),
    ),
)

NOTIFICATIONS_AREA = (NOTIFICATIONS,)
