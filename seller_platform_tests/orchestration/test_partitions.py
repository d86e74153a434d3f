"""Tests of the mappings from partitions of marts to those of their inputs."""

from datetime import date

import dagster as dg
from dagster._core.remote_representation.external_data import RepositorySnap

from seller_platform.orchestration.assets.marts import mart_definitions


def test_the_web_server_gets_no_mapping_computed_by_partition() -> None:
    warehouse = dg.Definitions(resources={"warehouse": dg.ResourceDefinition.none_resource()})
    definitions = dg.Definitions.merge(mart_definitions(date(2026, 1, 1)), warehouse)
    marts = RepositorySnap.from_def(definitions.get_repository_def())

    mappings = {type(edge.partition_mapping) for node in marts.asset_nodes for edge in node.parent_edges}

    assert mappings == {type(None), dg.MultiToSingleDimensionPartitionMapping}
