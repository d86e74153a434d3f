"""Faster functions for the two-dimensional partition statuses of Dagster's UI.

The web server calls `build_multi_partition_ranges_generic` for every partitioned asset of a page, and
`get_validated_partition_keys` for every asset that it has no status of. Dagster's functions make an object of every
key: for 36,000 keys they take 0.24 and 0.63 s of CPU, those here 0.03 and 0.06 s. `use_faster_functions` replaces them.
Only this module and `run_workers` replace code of Dagster. Its tests compare the results with those of Dagster's
functions, and fail when a new version changes these. In a new version, look whether the changes are still needed.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from dagster import (
    MultiPartitionsDefinition,
    PartitionsDefinition,
    TimeWindowPartitionsDefinition,
    partition_loading_context,
)
from dagster._core.storage import partition_status_cache

if TYPE_CHECKING:
    from dagster_graphql.implementation.partition_status_utils import MultiPartitionRange

Subsets = Mapping[Any, Any]
Secondary = Callable[[Subsets], Any]

RANGES = "build_multi_partition_ranges_generic"
VALIDATED = "get_validated_partition_keys"
_ASSETS = "dagster_graphql.implementation.fetch_assets"


def use_faster_functions() -> None:
    """Replace Dagster's functions. Only web servers have imported the module of the ranges."""
    setattr(partition_status_cache, VALIDATED, validated_partition_keys)
    module = sys.modules.get(_ASSETS)
    if module is not None:
        setattr(module, RANGES, multi_partition_ranges)


def validated_partition_keys(partitions_def: PartitionsDefinition[str], partition_keys: set[str]) -> set[str]:
    """Return the keys that are partitions of a definition."""
    if not isinstance(partitions_def, MultiPartitionsDefinition):
        return set(partitions_def.filter_valid_partition_keys(partition_keys))
    split = {key: parts for key in partition_keys if len(parts := key.split("|")) == 2}
    if not split:
        return set()
    first, second = (
        dimension.partitions_def.filter_valid_partition_keys({parts[number] for parts in split.values()})
        for number, dimension in enumerate(partitions_def.partitions_defs)
    )
    return {key for key, parts in split.items() if parts[0] in first and parts[1] in second}


def multi_partition_ranges(
    subsets: Subsets,
    partitions_def: MultiPartitionsDefinition,
    dynamic_partitions_store: Any,
    build_secondary_dim: Secondary,
) -> "Sequence[MultiPartitionRange[Any]]":
    """Return the ranges of primary keys that have equal secondary keys in each status."""
    # Only the web server has the package, and it has imported it.
    from dagster_graphql.implementation.partition_status_utils import MultiPartitionRange

    primary, secondary = partitions_def.primary_dimension, partitions_def.secondary_dimension
    first = partitions_def.partition_dimension_names.index(primary.name)
    with partition_loading_context(dynamic_partitions_store=dynamic_partitions_store):
        of_primary: dict[str, dict[Any, set[str]]] = {}
        for status, subset in subsets.items():
            secondary_keys: dict[str, set[str]] = defaultdict(set)
            for key in subset.get_partition_keys() if subset else ():
                parts = key.split("|")
                if len(parts) == 2:
                    secondary_keys[parts[first]].add(parts[1 - first])
            for primary_key, keys in secondary_keys.items():
                of_primary.setdefault(primary_key, {})[status] = keys
        ranges: list[MultiPartitionRange[Any]] = []
        for of_status, group in groupby(primary.partitions_def.get_partition_keys(), of_primary.get):
            if of_status is None:
                continue
            primary_keys = list(group)
            start = end = None
            if isinstance(primary.partitions_def, TimeWindowPartitionsDefinition):
                window_of = primary.partitions_def.time_window_for_partition_key
                start = window_of(primary_keys[0]).start.timestamp()
                end = window_of(primary_keys[-1]).end.timestamp()
            empty = secondary.partitions_def.empty_subset()
            ranges.append(
                MultiPartitionRange(
                    primary_dim_start_key=primary_keys[0],
                    primary_dim_end_key=primary_keys[-1],
                    primary_dim_start_time=start,
                    primary_dim_end_time=end,
                    secondary_dim=build_secondary_dim(
                        {status: empty.with_partition_keys(keys) for status, keys in of_status.items()}
                    ),
                )
            )
        return ranges
