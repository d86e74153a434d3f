"""The dataset of product costs, period by period."""

from dataclasses import replace

from seller_platform.contract.cost_periods import COST_ELEMENTS, FROM_DATE, SKU, TO_DATE
from seller_platform.contract.dataset import Column, Dataset, Kind, Slicing, Source

COST_PERIODS = Dataset(
    name="cost_periods",
    path="/cogs/cost-periods",
    doc="The cost elements of one SKU that are valid from one day to another.",
    area="costs",
    slicing=Slicing.SNAPSHOT,
    source=Source.PRODUCT_LOOKUP,
    announces_total=False,
    order=(SKU, FROM_DATE),
    columns=(
        Column(SKU, Kind.TEXT, "Seller SKU.", key=True, example="MUG-BLUE-350"),
        Column(FROM_DATE, Kind.DATE, "First day on which the costs hold.", key=True),
        Column(TO_DATE, Kind.DATE, "Last day on which the costs hold."),
        Column(COST_ELEMENTS, Kind.JSON, "The elements: cost_element, amount, currency, provider and notes of each."),
    ),
)

COSTS = (COST_PERIODS,)

# A request names its SKU, so the answer need not repeat it.
PERIODS_OF_ONE_SKU = replace(
    COST_PERIODS,
    columns=tuple(replace(column, key=False) if column.name == SKU else column for column in COST_PERIODS.columns),
)
"""The same rows, as the endpoint sends them for one product."""
