"""A shop with fixed values, for the tests of the contract's fields and parameters."""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from seller_platform.contract import Window, dataset_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.served import Served
from seller_platform_tests.support.stored_rows import LAST_DAY, add_rows

US = {"account_title": "Shop US"}
MUG, BOWL = "MUG", "BOWL"
LONG_DAY = date(2026, 1, 15)
"""A day with so many rows that every list of it has two pages of the smallest size."""
YEARS_END = date(2025, 12, 29)
"""A Monday in December that begins the first week of the next year (ISO 8601)."""

Values = Mapping[str, Any]

ORDER: Values = {
    "platform_order_id": "305-1",
    "purchase_date": "2026-03-05T10:15:00-08:00",
    "order_status": "Shipped",
    "order_total": Decimal("24.90"),
    "currency_code": "USD",
    "quantity_ordered": 2,
    "sku": MUG,
    "asin": "B0MUG",
    "product_name": "Mug, blue",
}
DAILY: Values = {
    "date": "2026-03-05",
    "sku": MUG,
    "product_name": "Mug, blue",
    "asin": "B0MUG",
    "units_ordered": 4,
    "product_sales": Decimal("40.00"),
    "taxes": Decimal("3.30"),
    "shipping_credits": Decimal("5.00"),
    "rebates": Decimal("-1.25"),
}
TRANSACTION: Values = {
    "posted_date": "2026-03-05T12:00:00-08:00",
    "transaction_type": "Fee",
    "order_id": "305-1",
    "sku": MUG,
    "description": "Commission",
    "quantity": 1,
    "amount": Decimal("-2.50"),
    "currency": "USD",
    "marketplace_name": "marketplace.example",
}
INVENTORY: Values = {
    "sku": MUG,
    "product_name": "Mug, blue",
    "asin": "B0MUG",
    "fnsku": "X0MUG",
    "afn_fulfillable_quantity": 60,
    "afn_reserved_quantity": 3,
    "afn_inbound_quantity": 20,
    "afn_total_quantity": 83,
    "velocity_30_days": Decimal("1.5"),
    "days_of_stock": 40,
    "restock_date": "2026-04-08",
    "restock_quantity_suggested": 30,
}
NOTIFICATION: Values = {
    "id": 1,
    "type": "inventory_alerts",
    "title": "Low stock",
    "message": "MUG lasts for 5 days.",
    "severity": "low",
    "sku": MUG,
    "created_at": "2026-03-08T08:00:00-07:00",
    "read": False,
}
STOCK: Values = {
    "sku": MUG,
    "warehouse_name": "Reno",
    "quantity": 12,
    "location": "A-1",
    "status": "available",
    "last_updated": "2026-03-08T09:00:00-07:00",
}
SHIPMENT: Values = {
    "shipment_id": "FBA1",
    "shipment_name": "Spring",
    "status": "WORKING",
    "destination_fulfillment_center": "RNO4",
    "total_items": 100,
    "total_skus": 2,
    "estimated_arrival_date": "2026-03-20",
    "created_date": "2026-03-01",
}
COST_PERIOD: dict[str, Any] = {
    "sku": MUG,
    "data": [
        {
            "dates": {"from_date": "2026-01-01", "to_date": "2026-12-31"},
            "cost_elements": [
                {"cost_element": "Manufacturing", "amount": 3, "currency": "USD", "provider": "Pottery", "notes": "net"}
            ],
        }
    ],
}


def fill(service: Served) -> None:
    """Store the rows of Shop US, its products and costs, and exchange rates."""
    for sku, asin, parent, price, rank in ((MUG, "B0MUG", "P0", "12.50", 7), (BOWL, "B0BOWL", "P0", "9.00", 9)):
        service.execute(
            "INSERT INTO service.products VALUES ('us-1', %s, %s, %s, %s, %s, %s, 10)",
            *(sku, asin, parent, "Mug, blue" if sku == MUG else "Bowl", price, rank),
        )
    for day in Window(date(2026, 1, 1), LAST_DAY + timedelta(days=1)).each_day():
        for currency, per_euro in (("EUR", "1"), ("USD", "1.25")):
            service.execute("INSERT INTO service.exchange_rates VALUES (%s, %s, %s)", day, currency, per_euro)
    _fill_sales(service.database)
    _fill_snapshots(service.database)
    with service.client("ann@shop.example") as client:
        assert client.post("/cogs/cost-periods", params=US, json=COST_PERIOD).status_code == 200


def _fill_sales(database: Database) -> None:
    second = {"platform_order_id": "305-2", "order_status": "Pending", "purchase_date": "2026-03-06T10:15:00-08:00"}
    third = {"platform_order_id": "305-3", "order_status": "Cancelled", "purchase_date": "2026-02-10T10:15:00-08:00"}
    _store(database, "orders", [ORDER, {**ORDER, **third}], tag="platform")
    _store(database, "orders", [{**ORDER, **second}], tag="non-platform")
    early = {**ORDER, "purchase_date": f"{LONG_DAY}T10:15:00-08:00"}
    many = [{**early, "platform_order_id": f"306-{number:03}"} for number in range(260)]
    _store(database, "orders", many, tag="platform")

    bowl = {"date": "2026-03-06", "sku": BOWL, "asin": "B0BOWL", "product_name": "Bowl", "units_ordered": 2}
    _store(database, "daily_product_sales", [DAILY], tag="platform")
    _store(database, "daily_product_sales", [{**DAILY, **bowl}], tag="non-platform")
    _store(database, "daily_product_sales", [{**DAILY, **bowl, "date": str(YEARS_END)}], tag="platform")
    early = {**DAILY, "date": str(LONG_DAY), "asin": None, "units_ordered": 1}
    many = [{**early, "sku": f"S-{number:03}", "product_name": f"Thing {number}"} for number in range(510)]
    _store(database, "daily_product_sales", many, tag="platform")

    order = {"transaction_type": "Order", "amount": Decimal("40.00"), "description": "Sale"}
    refund = {"transaction_type": "Refund", "amount": Decimal("-10.00"), "posted_date": "2026-03-06T12:00:00-08:00"}
    _store(database, "transactions", [TRANSACTION, {**TRANSACTION, **order}, {**TRANSACTION, **refund}])
    early = {**TRANSACTION, "posted_date": f"{LONG_DAY}T12:00:00-08:00", "transaction_type": "Order"}
    _store(database, "transactions", [{**early, "sku": f"S-{number:03}"} for number in range(510)])


def _fill_snapshots(database: Database) -> None:
    _store(database, "inventory", [INVENTORY, *({**INVENTORY, "sku": f"S-{number:03}"} for number in range(24))])
    others = ({**STOCK, "sku": f"S-{number:03}"} for number in range(24))
    _store(database, "warehouse_stock", [STOCK, *others])
    others = ({**SHIPMENT, "shipment_id": f"FBB{number:03}"} for number in range(26))
    _store(database, "inbound_shipments", [SHIPMENT, *others])
    prices = ({**NOTIFICATION, "type": "price_alerts", "id": number} for number in range(2, 107))
    _store(database, "notifications", [NOTIFICATION, *prices, {**NOTIFICATION, "id": 200, "type": "restock_alerts"}])


def _store(database: Database, name: str, rows: Iterable[Values], *, tag: str | None = None) -> None:
    """Store dated rows on their own day, and rows of snapshots on the last day."""
    dataset = dataset_named(name)
    day = (lambda row: row[str(dataset.day)][:10]) if dataset.is_dated else lambda row: LAST_DAY
    stored = [(*(row[column.name] for column in dataset.columns), day(row)) for row in rows]
    add_rows(database, dataset, stored, account="us-1", tags=(tag,))
