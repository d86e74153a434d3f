"""Stock in the seller's own warehouses, and shipments on their way to the marketplace."""

from seller_platform.contract.columns import Column, Kind
from seller_platform.contract.dataset import Dataset, Slicing
from seller_platform.contract.datasets.inventory import UNDATED_PAGE_SIZES

WAREHOUSE_STOCK = Dataset(
    name="warehouse_stock",
    path="/warehouse/list",
    doc="Units of one SKU at one place of one warehouse.",
    area="warehouse",
    slicing=Slicing.SNAPSHOT,
    page_sizes=UNDATED_PAGE_SIZES,
    order=("sku", "warehouse_name", "location", "status"),
    columns=(
        Column("sku", Kind.TEXT, "Seller SKU.", key=True, example="MUG-BLUE-350"),
        Column("warehouse_name", Kind.TEXT, "Where the units lie.", key=True, example="Leipzig"),
        Column("quantity", Kind.INTEGER, "Units there."),
        Column("location", Kind.TEXT, "Place inside the warehouse.", example="A-01-3"),
        Column(
            "status", Kind.TEXT, "What may be done with the units, such as available or reserved.", example="available"
        ),
        Column("last_updated", Kind.TIMESTAMP, "When the quantity was last written."),
    ),
)

INBOUND_SHIPMENTS = Dataset(
    name="inbound_shipments",
    path="/warehouse/inbound-shipments",
    doc="One shipment to a fulfilment centre.",
    area="warehouse",
    slicing=Slicing.SNAPSHOT,
    page_sizes=UNDATED_PAGE_SIZES,
    order=("created_date", "shipment_id"),
    columns=(
        Column("shipment_id", Kind.TEXT, "Shipment identifier.", key=True, example="SH1EXAMPLE"),
        Column("shipment_name", Kind.TEXT, "The name the seller gave it.", example="Spring mugs"),
        Column(
            "status",
            Kind.TEXT,
            "Stage of the shipment: WORKING, SHIPPED, IN_TRANSIT, DELIVERED, CHECKED_IN, RECEIVING or CLOSED.",
            example="IN_TRANSIT",
        ),
        Column("destination_fulfillment_center", Kind.TEXT, "Code of the fulfilment centre.", example="LEJ1"),
        Column("total_items", Kind.INTEGER, "Units in the shipment."),
        Column("total_skus", Kind.INTEGER, "Distinct SKUs in the shipment."),
        Column("estimated_arrival_date", Kind.DATE, "The day it should arrive."),
        Column("created_date", Kind.DATE, "The day it was created."),
    ),
)

WAREHOUSE = (WAREHOUSE_STOCK, INBOUND_SHIPMENTS)
