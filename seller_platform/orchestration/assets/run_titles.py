"""The run tag with the name of the account, for runs that the Dagster UI or a sensor started without it."""

import dagster as dg

from seller_platform.orchestration.account_names import account_of_all, title_tags
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.orchestration.tags import ACCOUNT_TITLE_TAG


def tag_with_title(context: dg.AssetExecutionContext, warehouse: WarehouseResource) -> None:
    """Tag the run of a step with the name of its account, unless it has the tag or reads several accounts."""
    is_partitioned = context.has_partition_key or context.has_partition_key_range
    if ACCOUNT_TITLE_TAG in context.run.tags or not is_partitioned:
        return
    tags = title_tags(account_of_all(context.partition_keys, warehouse.names))
    if tags:
        context.instance.add_run_tags(context.run.run_id, tags)
