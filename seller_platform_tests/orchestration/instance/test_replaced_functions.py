"""Compares the functions that replace those of Dagster with Dagster's own."""

import hashlib
import inspect
import random
from enum import Enum
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.partitions.subset import DefaultPartitionsSubset
from dagster._core.instance import DynamicPartitionsStore
from dagster._core.storage import partition_status_cache
from dagster_graphql.implementation import partition_status_utils
from hypothesis import given, settings
from hypothesis import strategies as st

from seller_platform.orchestration.instance.replaced_functions import (
    RANGES,
    VALIDATED,
    multi_partition_ranges,
    validated_partition_keys,
)

DAGSTERS_RANGES = getattr(partition_status_utils, RANGES)


class Status(Enum):
    GOOD = "good"
    BAD = "bad"


@pytest.fixture(scope="module")
def store() -> Any:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("shops", ["a", "b", "c"])
        yield instance


DEFINITIONS = (
    dg.MultiPartitionsDefinition(
        {
            "account": dg.DynamicPartitionsDefinition(name="shops"),
            "month": dg.MonthlyPartitionsDefinition("2026-01-01", end_date="2026-05-01"),
        }
    ),
    dg.MultiPartitionsDefinition(
        {"b": dg.StaticPartitionsDefinition(["x", "y"]), "a": dg.StaticPartitionsDefinition(["1", "2", "3"])}
    ),
    dg.MultiPartitionsDefinition(
        {
            "day": dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-05"),
            "month": dg.MonthlyPartitionsDefinition("2026-01-01", end_date="2026-05-01"),
        }
    ),
)


@given(st.randoms(use_true_random=False), st.sampled_from(DEFINITIONS))
@settings(max_examples=60, deadline=None)
def test_ranges_are_those_of_dagster(
    store: DynamicPartitionsStore, rng: random.Random, partitions: dg.MultiPartitionsDefinition
) -> None:
    keys = [str(key) for key in partitions.get_partition_keys(dynamic_partitions_store=store)]
    share = rng.random()
    strays = [] if "day" in partitions.partition_dimension_names else ["gone", "a|b|c", "z|2026-01-01"]
    subsets = {
        status: DefaultPartitionsSubset(frozenset(key for key in [*keys, *strays] if rng.random() < share))
        for status in Status
    } | ({} if rng.random() < 0.8 else {Status.BAD: None})

    def secondary(of_status: Any) -> Any:
        return {status: sorted(subset.get_partition_keys()) for status, subset in of_status.items()}

    expected = DAGSTERS_RANGES(subsets, partitions, store, secondary)

    assert multi_partition_ranges(subsets, partitions, store, secondary) == expected


@given(st.sets(st.sampled_from(["a|2026-01-01", "a|2026-04-01", "a|2026-05-01", "d|2026-01-01", "a", "a|b|c", "|"])))
def test_keys_are_validated_as_by_dagster(store: DynamicPartitionsStore, keys: set[str]) -> None:
    for partitions in (DEFINITIONS[0], dg.StaticPartitionsDefinition(["a", "d|2026-01-01"])):
        with dg.partition_loading_context(dynamic_partitions_store=store):
            expected = partitions.filter_valid_partition_keys(keys)

            assert validated_partition_keys(partitions, keys) == expected


@pytest.mark.parametrize(
    ("function", "digest"),
    [
        (DAGSTERS_RANGES, "75fc6bca28eb93da"),
        (dg.MultiPartitionsDefinition.filter_valid_partition_keys, "4d9573815f8f3cea"),
        (partition_status_cache._build_status_cache, "bb95c041897a4f09"),
    ],
)
def test_the_replaced_functions_of_dagster_have_not_changed(function: Any, digest: str) -> None:
    found = hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]

    assert found == digest, (
        f"{function.__qualname__} changed in Dagster {dg.__version__}: look whether {RANGES} and {VALIDATED} still "
        "need to be replaced, and write the new digest here"
    )
