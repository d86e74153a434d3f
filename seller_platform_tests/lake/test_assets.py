"""Tests the assets of Delta tables: one commit for each run, made again after loads."""

from decimal import Decimal
from pathlib import Path

import dagster as dg
from deltalake import DeltaTable

from seller_platform.contract import DATASETS, Dataset, dataset_named
from seller_platform.lake.assets import export_asset, export_follower, export_key
from seller_platform.orchestration.automation.following import following_definitions
from seller_platform.orchestration.component import SellerPlatformComponent
from seller_platform.orchestration.partitions import partition_key, partitions_for
from seller_platform.settings import read_settings
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.readers.relations import SOURCES
from seller_platform_tests.support.dagster_instance import newest_metadata
from seller_platform_tests.support.platform import HISTORY_START, KEYS, MONTHS, Platform, failure_of
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.ticks import Ticks

ACCOUNTS, ORDERS, BY_DATE = map(dataset_named, ("accounts", "orders", "sales_by_date"))
JANUARY = partition_key(KEYS[0], MONTHS[0])


def _export(
    platform: Platform, folder: Path, source: Dataset | Mart, first: str | None = None, last: str | None = None
) -> dg.ExecuteInProcessResult:
    """Export a range of partitions, or one, or a table without partitions."""
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last or first}
    return dg.materialize(
        [export_asset(source, HISTORY_START, str(folder))],
        instance=platform.instance,
        resources={"warehouse": platform.resources["warehouse"]},
        raise_on_error=False,
        tags={name: key for name, key in tags.items() if key is not None},
    )


def test_all_months_of_a_run_are_one_commit_and_have_events(loaded: Platform, tmp_path: Path) -> None:
    result = _export(loaded, tmp_path, ORDERS, JANUARY, partition_key(KEYS[-1], MONTHS[-1]))
    of_accounts = _export(loaded, tmp_path, ACCOUNTS)

    exported = DeltaTable(tmp_path / "orders")
    table, months = exported.to_pyarrow_table(), {(key, str(month.start)) for key in KEYS for month in MONTHS}
    assert (result.success, of_accounts.success, exported.version()) == (True, True, 1)
    assert {(each["account"], each["month"]) for each in exported.partitions()} == months
    with loaded.database.begin() as connection:
        stored = connection.exec_driver_sql("SELECT count(*), sum(order_total) FROM seller.orders").one()
        load_ids = connection.exec_driver_sql("SELECT DISTINCT load_id FROM seller.orders ORDER BY 1").scalars().all()
    assert (table.num_rows, sum(table["order_total"].to_pylist(), Decimal())) == tuple(stored)
    assert exported.history(1)[0]["load_ids"] == ",".join(map(str, load_ids))
    assert exported.history(1)[0]["run_id"] == result.dagster_run.run_id
    facts = newest_metadata(loaded.instance, export_key(ORDERS), str(partition_key(KEYS[0], MONTHS[1])))
    assert (facts["rows"], facts["dagster/partition_row_count"], facts["months_replaced"]) == (703, 703, 1)
    assert (facts["table_version"], facts["account_title"]) == ("1", 'Ünïcode & "Sons" [EU]')
    assert loaded.instance.get_materialized_partitions(export_key(ORDERS)) == {"|".join(each) for each in months}
    assert sorted(DeltaTable(tmp_path / "accounts").to_pyarrow_table()["account"].to_pylist()) == KEYS
    assert newest_metadata(loaded.instance, export_key(ACCOUNTS))["rows"] == len(KEYS)


def test_a_month_that_was_never_loaded_is_named_and_stops_no_other(loaded: Platform, tmp_path: Path) -> None:
    april = f"{KEYS[1]}|2026-04-01"

    result = _export(loaded, tmp_path, ORDERS, partition_key(KEYS[1], MONTHS[2]), april)

    sentence, reasons = failure_of(result)
    assert len(result.get_asset_materialization_events()) == 1
    assert "1 of 2 partitions of orders was not exported" in sentence
    assert april in reasons


def test_an_export_follows_its_input_and_not_a_load_that_changed_nothing(platform: Platform, tmp_path: Path) -> None:
    platform.discover()
    defs = dg.Definitions.merge(
        dg.Definitions(
            [
                *platform.assets.values(),
                *(export_asset(each, HISTORY_START, str(tmp_path)) for each in (ORDERS, ACCOUNTS)),
            ],
            resources=platform.resources,
        ),
        following_definitions([export_follower(each, str(tmp_path)) for each in (ORDERS, ACCOUNTS)], HISTORY_START),
    )
    ticks = Ticks(defs, platform.instance, platform.database.url)

    before = ticks.tick()
    assert _export(platform, tmp_path, ACCOUNTS).success
    platform.months(ORDERS, last=MONTHS[0])
    after_a_load = ticks.tick()
    for key in KEYS:
        assert _export(platform, tmp_path, ORDERS, partition_key(key, MONTHS[0])).success
    exported = ticks.tick()
    platform.months(ORDERS, last=MONTHS[0])
    again = ticks.tick()
    mark_loaded(platform.database, ORDERS, KEYS[0], MONTHS[0])
    changed = ticks.tick()

    assert before == {"export/accounts": {"all"}}
    assert after_a_load == {"export/orders": {str(partition_key(key, MONTHS[0])) for key in KEYS}}
    assert exported == again == {}
    assert changed == {"export/orders": {str(JANUARY)}}


def test_what_is_not_offered_is_exported_as_nothing_with_its_reason(platform: Platform, tmp_path: Path) -> None:
    platform.discover()
    platform.upstream.missing = (BY_DATE.path,)
    platform.months(BY_DATE, last=MONTHS[0])

    assert _export(platform, tmp_path, BY_DATE, JANUARY).success
    facts = newest_metadata(platform.instance, export_key(BY_DATE), str(JANUARY))
    assert facts["nothing_stored"].startswith("sales_by_date: the upstream does not offer /sales/statistics-dashboard")
    assert facts["rows"] == 0


def test_exports_exist_for_every_dataset_and_mart_if_a_folder_is_set(tmp_path: Path) -> None:
    component, settings = SellerPlatformComponent(history_start=HISTORY_START), read_settings()
    defs = component.definitions(settings.model_copy(update={"export_dir": str(tmp_path)}))
    specs = {spec.key: spec for spec in defs.resolve_all_asset_specs() if spec.group_name == "exports"}

    assert set(specs) == {export_key(dataset) for dataset in SOURCES}
    assert all(specs[export_key(each)].partitions_def == partitions_for(each, HISTORY_START) for each in SOURCES)
    assert {each.table for each in SOURCES} == {*(each.table for each in DATASETS), *(each.table for each in MARTS)}
    without = component.definitions(settings.model_copy(update={"export_dir": None}))
    assert "exports" not in {spec.group_name for spec in without.resolve_all_asset_specs()}
