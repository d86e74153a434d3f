"""Tests the assets of Parquet files: one file for each partition, made again after loads."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
from pyarrow import dataset as arrow_dataset
from pyarrow import parquet

from seller_platform.contract import DATASETS, Dataset, dataset_named
from seller_platform.orchestration.assets.events import partition_tags
from seller_platform.orchestration.assets.exports import (
    GROUP,
    SENSOR,
    export_asset,
    export_definitions,
    export_key,
    exported_partitions,
)
from seller_platform.orchestration.partitions import asset_key, partition_key
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.marts import MARTS, Mart, mart_named
from seller_platform.warehouse.marts.builds import build_partition
from seller_platform.warehouse.readers.relations import SOURCES
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.platform import HISTORY_START, MONTHS, Platform
from seller_platform_tests.support.ticks import evaluate_conditions

ORDERS, INVENTORY = dataset_named("orders"), dataset_named("inventory")
KEYS = sorted(independent_upstream.KEYS.values())


def _export(
    platform: Platform, folder: Path, source: Dataset | Mart, first: str | None = None, last: str | None = None
) -> dg.ExecuteInProcessResult:
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    return dg.materialize(
        [export_asset(source, HISTORY_START, folder)],
        instance=platform.instance,
        resources={"warehouse": platform.resources["warehouse"]},
        raise_on_error=False,
        tags={name: key for name, key in tags.items() if key is not None},
    )


def _facts(platform: Platform, source: Dataset | Mart, partition: str | None = None) -> dict[str, Any]:
    newest = platform.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=export_key(source), asset_partitions=[partition] if partition else None),
        limit=1,
    )
    materialization = newest.records[0].asset_materialization
    assert materialization is not None
    return {name: value.value for name, value in materialization.metadata.items()}


def test_every_month_becomes_a_file_and_an_event_of_its_own(platform: Platform, tmp_path: Path) -> None:
    platform.discover()
    platform.months(ORDERS)
    folder = tmp_path / "lake"

    result = _export(platform, folder, ORDERS, partition_key(KEYS[0], MONTHS[0]), partition_key(KEYS[-1], MONTHS[-1]))

    assert result.success
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet"))
    assert files == [f"orders/account={key}/month={month.start:%Y-%m}/part.parquet" for key in KEYS for month in MONTHS]
    table = arrow_dataset.dataset(folder / "orders", partitioning="hive").to_table()
    with platform.database.begin() as connection:
        stored = connection.exec_driver_sql("SELECT count(*), sum(order_total) FROM seller.orders").one()
    assert (table.num_rows, sum(table["order_total"].to_pylist(), Decimal())) == tuple(stored)
    facts = _facts(platform, ORDERS, str(partition_key(KEYS[0], MONTHS[1])))
    assert (facts["rows"], facts["dagster/partition_row_count"], facts["files_replaced"]) == (703, 703, 1)
    assert facts["path"].startswith("month=2026-02")
    assert facts["account_title"] == 'Ünïcode & "Sons" [EU]'
    assert len(platform.instance.get_materialized_partitions(export_key(ORDERS))) == len(files)


def test_a_month_that_was_never_loaded_is_named_and_stops_no_other(platform: Platform, tmp_path: Path) -> None:
    platform.discover()
    platform.months(ORDERS, last=MONTHS[1])

    result = _export(
        platform, tmp_path / "lake", ORDERS, partition_key(KEYS[0], MONTHS[0]), partition_key(KEYS[0], MONTHS[2])
    )

    assert not result.success
    assert platform.instance.get_materialized_partitions(export_key(ORDERS)) == {
        str(partition_key(KEYS[0], month)) for month in MONTHS[:2]
    }
    failure = result.failure_data_for_node("export__orders")
    assert failure is not None
    assert failure.user_failure_data is not None
    assert "1 partition of orders was not exported" in str(failure.user_failure_data.description)
    assert f"{KEYS[0]}|2026-03-01" in failure.user_failure_data.metadata


def test_a_snapshot_becomes_a_file_of_its_day(platform: Platform, tmp_path: Path) -> None:
    platform.discover()
    platform.run([INVENTORY], KEYS[0], KEYS[-1])

    result = _export(platform, tmp_path / "lake", INVENTORY, KEYS[0], KEYS[-1])

    assert result.success
    facts = _facts(platform, INVENTORY, KEYS[0])
    assert (facts["rows"], facts["files"]) == (45, 1)
    assert Path(facts["path"]).parent.name.startswith("day=20")


def test_the_list_of_accounts_becomes_one_file(platform: Platform, tmp_path: Path) -> None:
    platform.discover()

    result = _export(platform, tmp_path, dataset_named("accounts"))

    assert result.success
    facts = _facts(platform, dataset_named("accounts"))
    assert facts["path"] == "accounts/part.parquet"
    table = parquet.read_table(tmp_path / facts["path"])
    assert sorted(table["account"].to_pylist()) == KEYS
    assert facts["rows"] == len(KEYS)


def test_marts_become_files_of_months_and_of_accounts(platform: Platform, tmp_path: Path) -> None:
    platform.discover()
    for name in ("daily_product_sales", "transactions", "orders"):
        platform.months(dataset_named(name), last=MONTHS[0])
    platform.run([INVENTORY], KEYS[0], KEYS[-1])
    monthly, of_accounts = mart_named("account_profit_daily"), mart_named("inventory_health")
    partition = partition_key(KEYS[0], MONTHS[0])
    built = build_partition(platform.database, monthly, KEYS[0], MONTHS[0])
    build_partition(platform.database, of_accounts, KEYS[0], None)

    results = [
        _export(platform, tmp_path, monthly, partition, partition),
        _export(platform, tmp_path, of_accounts, KEYS[0], KEYS[0]),
    ]
    build_partition(platform.database, monthly, KEYS[0], MONTHS[0])
    again = _export(platform, tmp_path, monthly, partition, partition)
    never_built = _export(platform, tmp_path, of_accounts, KEYS[1], KEYS[1])

    assert all(result.success for result in (*results, again))
    assert not never_built.success
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")) == [
        f"account_profit_daily/account={KEYS[0]}/month={MONTHS[0].start:%Y-%m}/part.parquet",
        f"inventory_health/account={KEYS[0]}/part.parquet",
    ]
    facts = _facts(platform, monthly, str(partition))
    folder = tmp_path / "account_profit_daily" / f"account={KEYS[0]}"
    assert built.rows > 0
    assert (facts["rows"], facts["files_replaced"]) == (built.rows, 0)
    with platform.database.begin() as connection:
        stored = connection.exec_driver_sql("SELECT sum(product_sales) FROM marts.account_profit_daily").scalar_one()
    assert sum(parquet.read_table(folder / facts["path"])["product_sales"].to_pylist(), Decimal()) == stored


def test_an_export_follows_its_input_and_not_a_load_that_changed_nothing(platform: Platform, tmp_path: Path) -> None:
    platform.discover()
    exports = export_definitions(HISTORY_START, tmp_path / "lake").assets or ()
    assets = [*platform.assets.values(), *exports]
    defs = dg.Definitions(assets=assets, resources=platform.resources)

    def requested(cursor: Any) -> tuple[set[str], Any]:
        result = evaluate_conditions(
            defs, platform.instance, dg.AssetSelection.assets(export_key(ORDERS)), cursor=cursor
        )
        return set(map(str, result.get_requested_partitions(export_key(ORDERS)))), result.cursor

    before, cursor = requested(None)
    platform.months(ORDERS, last=MONTHS[0])
    loaded, cursor = requested(cursor)
    for key in KEYS:
        partition = partition_key(key, MONTHS[0])
        assert _export(platform, tmp_path / "lake", ORDERS, partition, partition).success
    exported, cursor = requested(cursor)
    platform.months(ORDERS, last=MONTHS[0])
    again, cursor = requested(cursor)
    first = partition_key(KEYS[0], MONTHS[0])
    tags = {"dagster/data_version": "another", **partition_tags(first)}
    platform.instance.report_runless_asset_event(dg.AssetMaterialization(asset_key(ORDERS), partition=first, tags=tags))
    restated, cursor = requested(cursor)

    assert before == set()
    assert loaded == {str(partition_key(key, MONTHS[0])) for key in KEYS}
    assert exported == again == set()
    assert restated == {str(first)}


def test_exports_exist_for_every_dataset_and_mart_if_a_folder_is_set(tmp_path: Path) -> None:
    resources = dg.Definitions(resources={"warehouse": WarehouseResource()})
    defs = dg.Definitions.merge(export_definitions(HISTORY_START, tmp_path), resources)
    specs = {spec.key: spec for spec in defs.resolve_all_asset_specs() if spec.group_name == GROUP}

    assert set(specs) == {export_key(dataset) for dataset in SOURCES}
    assert all(specs[export_key(each)].partitions_def == exported_partitions(each, HISTORY_START) for each in SOURCES)
    assert {each.table for each in SOURCES} == {*(each.table for each in DATASETS), *(each.table for each in MARTS)}
    assert [sensor.name for sensor in defs.sensors or ()] == [SENSOR]
    assert not export_definitions(HISTORY_START, None).assets
