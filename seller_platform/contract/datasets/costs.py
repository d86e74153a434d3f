"""What the goods cost the seller, period by period."""

from seller_platform.contract.columns import Column, Kind
from seller_platform.contract.dataset import Dataset, Slicing, Source

COST_PERIODS = Dataset(
    name="cost_periods",
    path="/cogs/cost-periods",
    doc="The cost elements of one SKU that are valid from one day to another.",
    area="costs",
    slicing=Slicing.SNAPSHOT,
    source=Source.PRODUCT_LOOKUP,
    announces_total=False,
    order=("sku", "from_date"),
    columns=(
        Column("sku", Kind.TEXT, "Seller SKU.", key=True),
        Column("from_date", Kind.DATE, "First day on which the costs hold.", key=True),
        Column("to_date", Kind.DATE, "Last day on which the costs hold."),
        Column(
            "cost_elements",
            Kind.JSON,
            "The elements: cost_element, amount, currency, provider and notes of each.",
        ),
    ),
)

COSTS = (COST_PERIODS,)
