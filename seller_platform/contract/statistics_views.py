"""Views of the statistics dashboard with periods, as lists of their own.

The views that the warehouse stores are datasets in `datasets.sales`.
"""

from dataclasses import replace

from seller_platform.contract.columns import Column, Kind
from seller_platform.contract.dataset import Dataset
from seller_platform.contract.datasets.sales import SALES_BY_PRODUCT, TREND

PRODUCT_GROUPS = ("sku", "asin", "parent_asin")
DATE_GROUPS = ("day", "week", "month", "year")
PERIODS = ("Date", "Week", "Month", "Quarter", "Semester", "Year")

STOCK_COLUMNS = (
    Column("velocity", Kind.NUMBER, "Units ordered per day."),
    Column("out_of_stock_days", Kind.INTEGER, "Days on which nothing could be sold."),
    Column("inventory", Kind.INTEGER, "Units in the fulfilment network that can be sold now."),
    Column("local_inventory", Kind.INTEGER, "Units in the seller's own warehouses now."),
    Column("buybox_price", Kind.MONEY, "Price of the featured offer now."),
    Column("sales_rank", Kind.INTEGER, "Sales rank now."),
)

_COMMON = tuple(replace(column, key=False) for column in SALES_BY_PRODUCT.columns if column.name not in PRODUCT_GROUPS)
_PARENT = Column("parent_asin", Kind.TEXT, "The listing of which the product is a variant.", example="B000PARENT")


def _view(parameters: dict[str, str], columns: tuple[Column, ...], order: tuple[str, ...]) -> Dataset:
    return replace(
        SALES_BY_PRODUCT,
        name="statistics",
        doc="Sales, cost, fees and profit of a product, a period, or both.",
        parameters=tuple(parameters.items()),
        columns=columns,
        order=order,
    )


def _of_products(group: str, period: str) -> Dataset:
    identity = tuple(
        replace(column, key=column.name == group)
        for column in (*SALES_BY_PRODUCT.columns, _PARENT)
        if column.name in PRODUCT_GROUPS
    )
    parameters = {"view_by": "product", "group_by": group, "period_by": period}
    return _view(parameters, (*identity, *_COMMON), ("date", group))


COMBINED_VIEWS = tuple(_of_products(group, period) for group in PRODUCT_GROUPS for period in PERIODS)
"""One row for each product and period."""

DATE_VIEWS = tuple(_view({"view_by": "date", "group_by": group}, (*_COMMON, TREND), ("date",)) for group in DATE_GROUPS)
"""One row for each period."""
