"""Totals of orders are cents, and the number of an order is split. The former columns stay."""

from seller_platform.warehouse.migrations.steps import AddIndex, FillColumns, FilledColumn

_COLUMNS = (
    FilledColumn("total_cents", "bigint", "(order_total * 100)::bigint", "Total of this order line in cents."),
    FilledColumn(
        "order_series", "text", "split_part(platform_order_id, '-', 1)", "First part of the order identifier."
    ),
)

COMPATIBLE_FROM = "1000"
STEPS = (
    FillColumns("history.orders", _COLUMNS),
    FillColumns("seller.orders", _COLUMNS),
    AddIndex("seller.orders", "ix_orders_series", "(account, order_series)"),
)
