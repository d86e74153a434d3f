"""Every dataset of the API, one module per area, each declared once.

- `user`: accounts
- `sales`: orders, daily sales, transactions and statistics
- `stock`: stock in the marketplace's network and in the seller's warehouses, and shipments
- `notifications`: alerts on stock and prices
- `costs`: cost periods
- `reports`: rows of reports
"""

from seller_platform.contract.dataset import Dataset, Source
from seller_platform.contract.datasets.costs import COSTS
from seller_platform.contract.datasets.notifications import NOTIFICATIONS_AREA
from seller_platform.contract.datasets.reports import REPORTS
from seller_platform.contract.datasets.sales import SALES
from seller_platform.contract.datasets.stock import STOCK
from seller_platform.contract.datasets.user import USER

DATASETS: tuple[Dataset, ...] = (*USER, *SALES, *STOCK, *NOTIFICATIONS_AREA, *COSTS, *REPORTS)
"""Every dataset, in the order of tables and documents."""

LISTS: tuple[Dataset, ...] = tuple(dataset for dataset in DATASETS if dataset.source is Source.LIST)
"""The datasets that are read page by page."""

REFRESHED: tuple[Dataset, ...] = tuple(
    dataset for dataset in DATASETS if dataset.source in (Source.LIST, Source.PRODUCT_LOOKUP)
)
"""The datasets that schedules and `sync` load for each account."""


def dataset_named(name: str) -> Dataset:
    """Return the dataset of that name.

    Raises:
        KeyError: No dataset has that name; the message lists all names.
    """
    for dataset in DATASETS:
        if dataset.name == name:
            return dataset
    names = ", ".join(dataset.name for dataset in DATASETS)
    raise KeyError(f"there is no dataset {name!r}; the datasets are {names}")
