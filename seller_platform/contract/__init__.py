"""The promises of the API: datasets, columns, endpoints, accounts and windows.

It has no input or output and needs the standard library only; every other floor reads it.

- `dataset`: what a dataset is
- `datasets`: every dataset
- `columns`: the columns of a dataset
- `accounts`: accounts and their keys
- `window`: half-open ranges of days
- `currencies`: currency codes of ISO 4217
- `wire`: paths and limits, the envelope of a page, and bodies of refusals
- `statistics_views`: the views of the statistics dashboard
- `cost_periods`: cost periods and their arithmetic
- `list_query`: the query parameters of one page of a list
- `loads`: how a slice was read, and the verdict on its row count
- `reports`: how reports are requested, followed and written
- `tokens`: the token pair of a grant
"""

from seller_platform.contract.accounts import Account, account_key
from seller_platform.contract.columns import Column, Kind
from seller_platform.contract.dataset import LOCAL_DAY, Dataset, Slicing, Source, SplitFilter
from seller_platform.contract.datasets import DATASETS, LISTS, dataset_named
from seller_platform.contract.window import Window

__all__ = [
    "DATASETS",
    "LISTS",
    "LOCAL_DAY",
    "Account",
    "Column",
    "Dataset",
    "Kind",
    "Slicing",
    "Source",
    "SplitFilter",
    "Window",
    "account_key",
    "dataset_named",
]
