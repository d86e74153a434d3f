"""A code location of empty assets of each kind, with the platform's freshness policies."""

import dagster as dg

from seller_platform.contract import dataset_named
from seller_platform.orchestration.assets.events import freshness_for
from seller_platform.orchestration.partitions import asset_key

defs = dg.Definitions(
    [
        dg.AssetSpec(asset_key(dataset), freshness_policy=freshness_for(dataset))
        for dataset in map(dataset_named, ("accounts", "orders", "inventory", "report_rows"))
    ]
)
