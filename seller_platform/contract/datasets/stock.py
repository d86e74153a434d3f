"""Stock in the fulfilment network of the marketplace and in warehouses of the seller, and shipments to the former."""

from seller_platform.contract.dataset import Column, Dataset, Kind, Slicing

_PAGE_SIZES = (20, 50, 100, 250, 500, 1000, 2000)

INVENTORY = Dataset(
    name="inventory",
    path="/inventory/list",
    doc="Stock, velocity and restock advice of one SKU.",
    area="inventory",
    slicing=Slicing.SNAPSHOT,
    page_sizes=_PAGE_SIZES,
    order=("sku",),
    columns=(
        Column("sku", Kind.TEXT, "Seller SKU.", key=True, example="MUG-BLUE-350"),
        Column("product_name", Kind.TEXT, "Name of the product.", example="Mug, blue, 350 ml"),
        Column("asin", Kind.TEXT, "Product identifier on the marketplace.", example="B000EXAMPL"),
        Column("fnsku", Kind.TEXT, "Identifier of the product in the fulfilment network.", example="X000EXAMPL"),
        Column("afn_fulfillable_quantity", Kind.INTEGER, "Units that can be sold now."),
        Column("afn_reserved_quantity", Kind.INTEGER, "Units reserved for open orders."),
        Column("afn_inbound_quantity", Kind.INTEGER, "Units on their way in."),
        Column("afn_total_quantity", Kind.INTEGER, "Fulfillable, reserved and inbound units together."),
        Column("velocity_30_days", Kind.NUMBER, "Units sold per day, over 30 days unless others were asked for."),
        Column("days_of_stock", Kind.INTEGER, "Days the fulfillable units last at that velocity."),
        Column("restock_date", Kind.DATE, "The day by which new stock should be sent."),
        Column("restock_quantity_suggested", Kind.INTEGER, "Units to send by then."),
    ),
)

WAREHOUSE_STOCK = Dataset(
    name="warehouse_stock",
    path="/warehouse/list",
    doc="Units of one SKU at one place of one warehouse.",
    area="warehouse",
    slicing=Slicing.SNAPSHOT,
    page_sizes=_PAGE_SIZES,
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
    page_sizes=_PAGE_SIZES,
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

STOCK = (INVENTORY, WAREHOUSE_STOCK, INBOUND_SHIPMENTS)
