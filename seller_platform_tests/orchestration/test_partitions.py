"""Tests of the mapping from a mart's month to the months of its inputs."""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap
from hypothesis import given, settings
from hypothesis import strategies as st

from seller_platform.orchestration.assets.marts import mart_definitions
from seller_platform.orchestration.partitions import (
    ACCOUNT,
    ALL_ACCOUNTS,
    MONTH,
    MonthsAround,
    account_months,
)

PARTITIONS = account_months(date(2026, 1, 1))
NOW = datetime(2026, 5, 10, tzinfo=UTC)  # The months are January to May.


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(ALL_ACCOUNTS, ["S1.US", "S2.DE"])
        yield instance


@given(st.randoms(use_true_random=False), st.integers(0, 2), st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_months_around_are_those_of_dagsters_own_mapping(
    store: Any, rng: random.Random, before: int, after: int
) -> None:
    with dg.partition_loading_context(NOW, store):
        keys = [key for key in PARTITIONS.get_partition_keys() if rng.random() < 0.4]
        subset = PARTITIONS.empty_subset().with_partition_keys(keys)
    months = dg.TimeWindowPartitionMapping(
        start_offset=-before, end_offset=after, allow_nonexistent_upstream_partitions=True
    )
    dagsters = dg.MultiPartitionMapping(
        {
            ACCOUNT: dg.DimensionPartitionMapping(ACCOUNT, dg.IdentityPartitionMapping()),
            MONTH: dg.DimensionPartitionMapping(MONTH, months),
        }
    )

    ours, expected = (
        (
            set(upstream.partitions_subset.get_partition_keys()),
            set(upstream.required_but_nonexistent_subset.get_partition_keys()),
            set(downstream.get_partition_keys()),
        )
        for mapping in (MonthsAround(before, after), dagsters)
        for upstream, downstream in [
            (
                mapping.get_upstream_mapped_partitions_result_for_partitions(
                    subset, PARTITIONS, PARTITIONS, NOW, store
                ),
                mapping.get_downstream_partitions_for_partitions(subset, PARTITIONS, PARTITIONS, NOW, store),
            )
        ]
    )

    assert ours == expected


def test_the_web_server_gets_no_mapping_computed_by_partition() -> None:
    warehouse = dg.Definitions(resources={"warehouse": dg.ResourceDefinition.none_resource()})
    definitions = dg.Definitions.merge(mart_definitions(date(2026, 1, 1)), warehouse)
    marts = RepositorySnap.from_def(definitions.get_repository_def())

    mappings = {type(edge.partition_mapping) for node in marts.asset_nodes for edge in node.parent_edges}

    assert mappings == {type(None), dg.MultiToSingleDimensionPartitionMapping}
