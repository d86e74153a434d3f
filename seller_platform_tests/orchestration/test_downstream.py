"""Another code location takes our partitions by key alone, as DataFrames and as Arrow."""

from decimal import Decimal
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest

from seller_platform.contract import dataset_named
from seller_platform.errors import ReadOnlyAssetError, UnknownRelationError
from seller_platform.orchestration.downstream import IO_MANAGER_KEY, WarehouseIOManager, seller_asset_specs
from seller_platform.orchestration.partitions import partition_key
from seller_platform_tests.journeys import foreign
from seller_platform_tests.orchestration.conftest import HISTORY_START, MONTHS, Platform

ORDERS, TRANSACTIONS, INVENTORY = map(dataset_named, ("orders", "transactions", "inventory"))
KEYS = sorted(foreign.KEYS.values())
FEBRUARY = str(partition_key(KEYS[0], MONTHS[1]))


@pytest.fixture
def landed(platform: Platform, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A platform whose orders, ledger, stock and accounts are stored, and whose database another location finds."""
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database_url)
    monkeypatch.setenv("SELLER_PLATFORM_HISTORY_START", HISTORY_START.isoformat())
    platform.discover()
    assert platform.months(ORDERS).success
    assert platform.months(TRANSACTIONS).success
    assert platform.run([INVENTORY], KEYS[0], KEYS[-1]).success
    return platform


def _materialize(platform: Platform, name: str, partition: str) -> dict[str, Any]:
    from seller_platform_tests.downstream_location import definitions

    result = dg.materialize(
        definitions.defs.assets or (),
        selection=[f"finance/{name}"],
        instance=platform.instance,
        resources={IO_MANAGER_KEY: WarehouseIOManager()},
        partition_key=partition,
    )
    (event,) = result.asset_materializations_for_node(f"finance__{name}")
    return {key: value.value for key, value in event.metadata.items()}


def test_an_asset_of_another_location_reads_the_same_partition(landed: Platform) -> None:
    told = _materialize(landed, "monthly_revenue", FEBRUARY)

    assert told["orders"] == 703
    rows = [row for channel in ("platform", "non-platform") for row in _orders(channel)]
    assert told["EUR"] == str(sum(Decimal(row["order_total"].replace(",", "")) for row in rows))


def _orders(channel: str) -> list[dict[str, Any]]:
    seller = next(seller for seller, key in foreign.KEYS.items() if key == KEYS[0])
    return foreign.order_rows(seller, channel, foreign.MONTHS[1])
