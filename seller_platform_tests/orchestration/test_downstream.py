"""Tests that another code location reads our partitions as DataFrames and as Arrow."""

from contextlib import nullcontext
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any, Literal

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest

from seller_platform.contract import Window, dataset_named
from seller_platform.dagster import (
    IO_MANAGER_KEY,
    WarehouseIOManager,
    seller_asset_specs,
    seller_month_partitions,
    settled,
)
from seller_platform.errors import CheckFailedError, ListChangedError, RequestError
from seller_platform.orchestration.assets.reporting import report
from seller_platform.orchestration.partitions import add_accounts, partition_key
from seller_platform.settings import read_settings
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform_tests.support.platform import HISTORY_START, KEYS, MONTHS, Platform
from seller_platform_tests.support.receipts import mark_loaded, store_receipt
from seller_platform_tests.support.shop import mart_named

ORDERS = dataset_named("orders")
FEBRUARY = str(partition_key(KEYS[0], MONTHS[1]))


def _materialize(platform: Platform, name: str, partition: str) -> dict[str, Any]:
    from seller_platform_tests.downstream_location import definitions

    result = dg.materialize(
        definitions.ASSETS,
        selection=[f"finance/{name}"],
        instance=platform.instance,
        resources={IO_MANAGER_KEY: WarehouseIOManager()},
        partition_key=partition,
    )
    (event,) = result.asset_materializations_for_node(f"finance__{name}")
    return {key: value.value for key, value in event.metadata.items()}


@pytest.mark.needs("marts")
def test_an_asset_by_account_reads_all_its_months(loaded: Platform) -> None:
    months = Window(MONTHS[-1].end, Window.month_of(datetime.now(UTC).date()).end).months()
    mark_loaded(loaded.database, ORDERS, KEYS[0], *months)

    metadata = _materialize(loaded, "whole_history", KEYS[0])

    assert metadata == {"orders": 723, "first_day": "2026-01-01", "last_day": "2026-03-01"}


def test_months_snapshots_marts_and_unpartitioned_tables_are_read_together(loaded: Platform) -> None:
    profit = mart_named("account_profit_daily")
    built = build_partition(loaded.database, profit, KEYS[0], MONTHS[1], parameters={}, run_id=None)

    metadata = _materialize(loaded, "outlook", FEBRUARY)

    assert built.rows > 0
    assert metadata == {
        "orders": 713,
        "first_day": "2026-01-01",
        "skus": 45,
        "accounts": 2,
        "days_of_profit": built.rows,
    }


def test_a_script_loads_values_by_key_also_of_a_mounted_project(loaded: Platform) -> None:
    resources = {IO_MANAGER_KEY: WarehouseIOManager(database_url=loaded.database.url)}
    defs = dg.Definitions(assets=seller_asset_specs(HISTORY_START), resources=resources)
    specs = seller_asset_specs(database_url=loaded.database.url, same_instance=False, key_prefix=["shop"])
    orders, load = ["seller", "orders"], partial(defs.load_asset_value, instance=loaded.instance)

    frame = load(orders, partition_key=FEBRUARY)
    table = load(orders, python_type=pa.Table, partition_key=FEBRUARY)
    named = defs.get_asset_value_loader(loaded.instance).load_asset_value(
        ["seller", "inventory"], partition_key=KEYS[1], input_definition_metadata={"seller_platform/form": "arrow"}
    )
    with dg.DagsterInstance.ephemeral() as other:
        mounted = dg.Definitions(assets=specs, resources=resources).load_asset_value(
            ["shop", *orders], partition_key=FEBRUARY, instance=other
        )

    assert isinstance(frame, pd.DataFrame)
    assert isinstance(mounted, pd.DataFrame)
    assert isinstance(table, pa.Table)
    assert isinstance(named, pa.Table)
    assert (len(frame), table.num_rows, named.num_rows, len(mounted)) == (703, 703, 45, 703)
    assert set(frame["account"]) == {KEYS[0]}


@pytest.mark.needs("reports", "marts", "lake")
def test_our_assets_are_declared_with_their_own_keys_and_partitions() -> None:
    from seller_platform.orchestration.definitions import definitions_for

    settings = read_settings()
    own = {spec.key: spec for spec in definitions_for(settings).resolve_all_asset_specs()}
    external = {spec.key: spec for spec in seller_asset_specs(settings.history_start)}

    assert set(external) == {key for key in own if key.path[0] in ("seller", "marts")}
    assert [key for key in external if external[key].partitions_def != own[key].partitions_def] == []
    assert [key for key in external if external[key].group_name != own[key].group_name] == []


def test_partitions_of_another_instance_are_read_from_the_warehouse(loaded: Platform) -> None:
    specs = {spec.key: spec for spec in seller_asset_specs(database_url=loaded.database.url, same_instance=False)}

    months = specs[dg.AssetKey(["seller", "orders"])].partitions_def
    accounts = specs[dg.AssetKey(["seller", "inventory"])].partitions_def
    assert accounts == dg.StaticPartitionsDefinition(KEYS)
    assert months == seller_month_partitions(database_url=loaded.database.url, same_instance=False)
    assert months is not None
    assert months.get_partition_keys()[0] == f"{KEYS[0]}|{HISTORY_START:%Y-%m-01}"


def test_the_io_manager_refuses_to_write_and_to_read_other_assets(loaded: Platform) -> None:
    manager = WarehouseIOManager(database_url=loaded.database.url)
    output, strange = dg.build_output_context(asset_key=["seller", "orders"]), dg.AssetKey(["seller", "order"])

    with pytest.raises(RequestError, match=r"seller/orders cannot be written.*io_manager_key"):
        manager.handle_output(output, pd.DataFrame())
    with pytest.raises(RequestError, match=r"'seller/order' \(did you mean 'seller/orders' .*seller/accounts, "):
        manager.load_input(dg.build_input_context(asset_key=strange, upstream_output=output))


def test_settled_is_true_once_and_again_after_a_restatement(platform: Platform) -> None:
    platform.discover()
    month, instance = MONTHS[1], platform.instance
    add_accounts(instance, KEYS)

    @dg.asset(
        deps=[dg.AssetKey(["seller", "orders"])],
        partitions_def=seller_month_partitions(database_url=platform.database.url),
        automation_condition=settled(platform.database.url),
    )
    def closing() -> None: ...

    specs = seller_asset_specs(HISTORY_START, database_url=platform.database.url)
    cursors: list[dg.AssetDaemonCursor | None] = [None]

    def requested(days: int, version: bytes, **columns: Any) -> set[str]:
        """Store that the month was loaded some days after its end, and return what one tick requests, of two.

        The second one is after the report of the load, which comes some seconds after the load.
        """
        at = datetime.combine(month.end + timedelta(days=days), time(12), UTC)
        store_receipt(platform.database, ORDERS, KEYS[0], month, at=at, digest=version, **columns)
        return ticked()

    def ticked() -> set[str]:
        ticks = []
        for _ in range(2):
            tick = dg.evaluate_automation_conditions(
                dg.Definitions([*specs, closing], resources={IO_MANAGER_KEY: WarehouseIOManager()}),
                instance=instance,
                cursor=cursors[-1],
            )
            ticks.append(tick.get_requested_partitions(closing.key))
            cursors.append(tick.cursor)
            report(instance, platform.database)
        assert ticks[1] == set()
        return {key for key in ticks[0] if key}

    assert requested(10, b"a") == set()
    assert requested(60, b"a", changed=False) == {FEBRUARY}
    assert requested(61, b"b", verdict="mismatch", announced=5) == set()
    expectations: list[tuple[Literal["warn", "raise"], Any]] = [
        ("warn", nullcontext()),
        ("raise", pytest.raises(CheckFailedError, match="5")),
    ]
    for on_problem, expectation in expectations:
        manager = WarehouseIOManager(database_url=platform.database.url, on_problem=on_problem)
        with expectation:
            dg.Definitions(specs, resources={IO_MANAGER_KEY: manager}).load_asset_value(
                ["seller", "orders"], partition_key=FEBRUARY, instance=instance
            )
    assert requested(62, b"c") == {FEBRUARY}
    assert requested(63, b"d") == {FEBRUARY}
    keep_refusal(platform.database, ORDERS, KEYS[0], month, ListChangedError("orders", "it changed"), run_id=None)
    assert ticked() == set()
    assert requested(64, b"d", changed=False) == set(), "the rows are those of before the failure"
