"""The dataset of rows of asynchronous reports, once downloaded."""

from seller_platform.contract.dataset import Column, Dataset, Kind, Slicing, Source

REPORT_ROWS = Dataset(
    name="report_rows",
    path="/reports/download",
    doc="One row of a completed report; columns that differ by report are kept in `extra`.",
    area="reports",
    slicing=Slicing.SNAPSHOT,
    source=Source.REPORT,
    announces_total=False,
    order=("report_id", "position"),
    columns=(
        Column("report_id", Kind.TEXT, "The report the row belongs to.", key=True, example="1"),
        Column("position", Kind.INTEGER, "Place of the row in the report, from 1.", key=True),
        Column("sku", Kind.TEXT, "Seller SKU.", example="MUG-BLUE-350"),
        Column("product_name", Kind.TEXT, "Name of the product.", example="Mug, blue, 350 ml"),
        Column("units_ordered", Kind.INTEGER, "Units ordered."),
        Column("product_sales", Kind.MONEY, "Revenue from the product."),
    ),
)

REPORTS = (REPORT_ROWS,)
