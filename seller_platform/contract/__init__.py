"""The API on paper: datasets, columns, endpoints, accounts, windows, the envelope and the errors on the wire.

Standard library only, and no input or output: every other floor reads this one.
"""

from seller_platform.contract.accounts import Account, account_key
from seller_platform.contract.columns import Column, Kind
from seller_platform.contract.dataset import Dataset, Facet, Slicing, Source
from seller_platform.contract.datasets import DATASETS, LISTS, dataset_named
from seller_platform.contract.window import Window

__all__ = [
    "DATASETS",
    "LISTS",
    "Account",
    "Column",
    "Dataset",
    "Facet",
    "Kind",
    "Slicing",
    "Source",
    "Window",
    "account_key",
    "dataset_named",
]
