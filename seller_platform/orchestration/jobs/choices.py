"""Config fields of jobs: the datasets and their descriptions."""

from collections.abc import Sequence
from enum import Enum

from seller_platform.contract import DATASETS, REFRESHED, Dataset, dataset_named

# mypy knows only enumerations whose names are literals.
RefreshedName = Enum("RefreshedName", {each.name: each.name for each in REFRESHED})  # type: ignore[misc]
"""The name of a dataset that is refreshed, as the Launchpad offers it."""

DatasetName = Enum("DatasetName", {each.name: each.name for each in DATASETS})  # type: ignore[misc]
"""The name of any dataset, as the Launchpad offers it."""

# The Launchpad refuses other values with this name: it lists those that are allowed, as for a `Literal`.
for _names in (RefreshedName, DatasetName):
    _names.__name__ = f"Literal{[name.value for name in _names]}"


def chosen_datasets(names: Sequence[Enum]) -> tuple[Dataset, ...]:
    """Return the datasets of these names; without names, all that are refreshed."""
    return tuple(dataset_named(name.value) for name in names) or REFRESHED
