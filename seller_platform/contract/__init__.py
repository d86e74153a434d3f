"""The promises of the API: datasets, columns, endpoints, accounts and windows.

It has no input or output and imports the standard library only; every other floor imports it.

- `dataset`: the declaration of a dataset and its columns
- `datasets`: every dataset
- `accounts`: accounts and their keys
- `window`: half-open ranges of days
- `currencies`: currency codes of ISO 4217
- `wire`: paths, limits, the envelope of a page, and error bodies
- `cost_periods`: cost periods and their arithmetic
- `list_query`: the query parameters of one page of a list
- `loads`: facts about the reading of a slice, and the verdict on its row count
- `tokens`: the token pair of a grant
"""

from seller_platform.contract.accounts import Account, account_key
from seller_platform.contract.dataset import LOCAL_DAY, Column, Dataset, Kind, Slicing, Source, SplitFilter
from seller_platform.contract.datasets import DATASETS, LISTS, REFRESHED, dataset_named
from seller_platform.contract.window import Window

__all__ = [
    "DATASETS",
    "LISTS",
    "LOCAL_DAY",
    "REFRESHED",
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
