"""Stock in the marketplace's fulfilment network."""

from seller_platform.contract.columns import Column, Kind
from seller_platform.contract.dataset import Dataset, Slicing

UNDATED_PAGE_SIZES = (20, 50, 100, 250, 500, 1000, 2000)

INVENTORY = Dataset(
    name="inventory",
    path="/inventory/list",
    doc="Stock, velocity and restock advice of one SKU.",
    area="inventory",
    slicing=Slicing.SNAPSHOT,
    page_sizes=UNDATED_PAGE_SIZES,
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

INVENTORY_AREA = (INVENTORY,)
