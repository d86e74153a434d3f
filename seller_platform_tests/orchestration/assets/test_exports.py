"""Tests the assets of Delta tables: one commit for each run, made again after loads."""

from decimal import Decimal
from pathlib import Path

import dagster as dg
from deltalake import DeltaTable

from seller_platform.contract import DATASETS, Dataset, dataset_named
from seller_platform.orchestration.assets.exports import (
    GROUP,
    export_asset,
    export_definitions,
    export_followers,
    export_key,
    exported_partitions,
)
from seller_platform.orchestration.automation.following import following_definitions
from seller_platform.orchestration.partitions import add_accounts, partition_key
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.marts import MARTS, Mart, mart_named
from seller_platform.warehouse.marts.builds import build_partition
from seller_platform.warehouse.marts.due import partition_states
from seller_platform.warehouse.readers.relations import SOURCES, exported_to
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.dagster_instance import newest_metadata
from seller_platform_tests.support.platform import HISTORY_START, MONTHS, Platform
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.ticks import Ticks

ACCOUNTS, ORDERS, INVENTORY = map(dataset_named, ("accounts", "orders", "inventory"))
KEYS = sorted(independent_upstream.KEYS.values())


def _export(
    platform: Platform, folder: Path, source: Dataset | Mart, first: str | None = None, last: str | None = None
) -> dg.ExecuteInProcessResult:
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    return dg.materialize(
        [export_asset(source, HISTORY_START, str(folder))],
        instance=platform.instance,
        resources={"warehouse": platform.resources["warehouse"]},
        raise_on_error=False,
        tags={name: key for name, key in tags.items() if key is not None},
    )


def test_all_months_of_a_run_are_one_commit_and_have_events(platform: Platform, tmp_path: Path) -> None:
    platform.discover()
    platform.months(ORDERS)
    folder = tmp_path / "lake"

    result = _export(platform, folder, ORDERS, partition_key(KEYS[0], MONTHS[0]), partition_key(KEYS[-1], MONTHS[-1]))

    assert result.success
    exported = DeltaTable(folder / "orders")
    assert exported.version() == 1
    assert {(each["account"], each["month"]) for each in exported.partitions()} == {
        (key, str(month.start)) for key in KEYS for month in MONTHS
    }
    table = exported.to_pyarrow_table()
    with platform.database.begin() as connection:
        stored = connection.exec_driver_sql("SELECT count(*), sum(order_total) FROM seller.orders").one()
        load_ids = connection.exec_driver_sql("SELECT DISTINCT load_id FROM seller.orders ORDER BY 1").scalars().all()
    assert (table.num_rows, sum(table["order_total"].to_pylist(), Decimal())) == tuple(stored)
    assert exported.history(1)[0]["load_ids"] == ",".join(map(str, load_ids))
    assert exported.history(1)[0]["run_id"] == result.dagster_run.run_id
    facts = newest_metadata(platform.instance, export_key(ORDERS), str(partition_key(KEYS[0], MONTHS[1])))
    assert (facts["rows"], facts["dagster/partition_row_count"], facts["months_replaced"]) == (703, 703, 1)
    assert facts["table_version"] == "1"
    assert facts["account_title"] == 'Ünïcode & "Sons" [EU]'
    assert len(platform.instance.get_materialized_partitions(export_key(ORDERS))) == len(KEYS) * len(MONTHS)


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
    assert "1 of 3 partitions of orders was not exported" in str(failure.user_failure_data.description)
    assert f"{KEYS[0]}|2026-03-01" in failure.user_failure_data.metadata


def test_the_list_of_accounts_becomes_a_table(platform: Platform, tmp_path: Path) -> None:
    platform.discover()

    result = _export(platform, tmp_path, dataset_named("accounts"))

    assert result.success
    facts = newest_metadata(platform.instance, export_key(dataset_named("accounts")))
    table = DeltaTable(tmp_path / "accounts").to_pyarrow_table()
    assert sorted(table["account"].to_pylist()) == KEYS
    assert facts["rows"] == len(KEYS)


def test_marts_become_tables_of_months_and_of_accounts(platform: Platform, tmp_path: Path) -> None:
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
    by_month, by_account = (DeltaTable(tmp_path / mart.name) for mart in (monthly, of_accounts))
    assert by_month.partitions() == [{"account": KEYS[0], "month": str(MONTHS[0].start)}]
    assert by_account.partitions() == [{"account": KEYS[0]}]
    facts = newest_metadata(platform.instance, export_key(monthly), str(partition))
    assert built.rows > 0
    assert (facts["rows"], facts["months_replaced"]) == (built.rows, 0)
    with platform.database.begin() as connection:
        stored = connection.exec_driver_sql("SELECT sum(product_sales) FROM marts.account_profit_daily").scalar_one()
    assert sum(by_month.to_pyarrow_table()["product_sales"].to_pylist(), Decimal()) == stored


def test_an_export_follows_its_input_and_not_a_load_that_changed_nothing(platform: Platform, tmp_path: Path) -> None:
    platform.discover()
    folder = tmp_path / "lake"
    defs = dg.Definitions.merge(
        dg.Definitions(assets=[*platform.assets.values()], resources=platform.resources),
        export_definitions(HISTORY_START, str(folder), datasets=[ORDERS, ACCOUNTS]),
        following_definitions(export_followers(str(folder), datasets=[ORDERS, ACCOUNTS]), HISTORY_START),
    )
    ticks = Ticks(defs, platform.instance, platform.database.url)

    before = ticks.tick()
    assert _export(platform, folder, ACCOUNTS).success
    platform.months(ORDERS, last=MONTHS[0])
    loaded = ticks.tick()
    for key in KEYS:
        partition = partition_key(key, MONTHS[0])
        assert _export(platform, folder, ORDERS, partition, partition).success
    exported = ticks.tick()
    platform.months(ORDERS, last=MONTHS[0])
    again = ticks.tick()
    mark_loaded(platform.database, ORDERS, KEYS[0], MONTHS[0])
    changed = ticks.tick()
    ticks.request_backfill(export_key(ORDERS))
    during_a_backfill = ticks.tick()

    assert before == {"export/accounts": {"all"}}
    assert loaded == {"export/orders": {str(partition_key(key, MONTHS[0])) for key in KEYS}}
    assert exported == again == {}
    assert changed == {"export/orders": {str(partition_key(KEYS[0], MONTHS[0]))}}
    assert during_a_backfill == {}, "the backfill writes it"


def test_exports_of_a_mart_follow_builds_that_changed_its_rows(platform: Platform, tmp_path: Path) -> None:
    profit = mart_named("account_profit_daily")
    exported = exported_to(profit, str(tmp_path))
    add_accounts(platform.instance, KEYS)

    def build_and_export() -> list[int]:
        counts = []
        for work in (lambda: build_partition(platform.database, profit, KEYS[0], MONTHS[0], run_id="run"), export):
            work()
            with platform.database.begin() as connection:
                counts.append(len(partition_states(connection, exported, KEYS, MONTHS, only_due=True)))
        return counts

    def export() -> None:
        partition = partition_key(KEYS[0], MONTHS[0])
        assert _export(platform, tmp_path, profit, partition, partition).success

    first, unchanged = build_and_export(), build_and_export()
    with platform.database.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO seller.daily_product_sales (date, sku, units_ordered, product_sales, local_day, account, "
            f"load_id, page) VALUES ('2026-01-01', 'A', 1, 1, '2026-01-01', '{KEYS[0]}', 1, 1)"
        )
    changed = build_and_export()

    assert (first, unchanged, changed) == ([1, 0], [0, 0], [1, 0])


def test_exports_exist_for_every_dataset_and_mart_if_a_folder_is_set(tmp_path: Path) -> None:
    resources = dg.Definitions(resources={"warehouse": WarehouseResource()})
    defs = dg.Definitions.merge(export_definitions(HISTORY_START, str(tmp_path)), resources)
    specs = {spec.key: spec for spec in defs.resolve_all_asset_specs() if spec.group_name == GROUP}

    assert set(specs) == {export_key(dataset) for dataset in SOURCES}
    assert all(specs[export_key(each)].partitions_def == exported_partitions(each, HISTORY_START) for each in SOURCES)
    assert {each.table for each in SOURCES} == {*(each.table for each in DATASETS), *(each.table for each in MARTS)}
    assert {each.key for each in export_followers(str(tmp_path))} == set(specs)
    assert not export_definitions(HISTORY_START, None).assets
