"""A code location of empty assets, one of each kind, with the freshness policies of the real ones."""

import dagster as dg

from seller_platform.contract import dataset_named
from seller_platform.orchestration.assets.datasets import freshness_for
from seller_platform.orchestration.partitions import asset_key

defs = dg.Definitions(
    [
        dg.AssetSpec(asset_key(dataset), freshness_policy=freshness_for(dataset))
        for dataset in map(dataset_named, ("accounts", "orders", "inventory", "report_rows"))
    ]
)
