"""Tests that loads which no step of Dagster has reported are reported once, without a run."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest
from sqlalchemy import text

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.ingest.loads.loading import SliceLoader, load_each
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.assets.exports import export_asset, export_key
from seller_platform.orchestration.assets.marts import mart_asset
from seller_platform.orchestration.assets.reporting import SENSOR, check_definitions, report
from seller_platform.orchestration.partitions import asset_key, partition_key
from seller_platform.warehouse.marts import MARTS
from seller_platform_tests.support.platform import KEYS, MONTHS, Platform
from seller_platform_tests.support.shop import mart_named
from seller_platform_tests.support.ticks import tick

ORDERS, DAILY = map(dataset_named, ("orders", "daily_product_sales"))

pytestmark = pytest.mark.filterwarnings("ignore::dagster.PreviewWarning", "ignore::dagster.BetaWarning")


def _load(platform: Platform, run_id: str | None = None, dataset: Dataset = ORDERS) -> Sequence[int]:
    """Load the first month of both accounts as a command does, and return the numbers of the loads."""
    requests = [SliceRequest(dataset, key, MONTHS[0]) for key in KEYS]
    with dg.build_resources(platform.resources) as resources:
        loader = SliceLoader(platform.database, resources.seller_api.api, utc_now(), run_id)
        return [result.receipt.id for result in load_each(requests, loader) if result.receipt]


def _materializations(platform: Platform) -> list[tuple[str, str, str | None]]:
    records = platform.instance.fetch_materializations(asset_key(ORDERS), limit=100).records
    return [
        (record.run_id, str(event.metadata["load_id"].value), event.partition)
        for record in records
        if (event := record.asset_materialization)
    ]


def test_loads_are_reported_once_those_of_a_step_by_the_step(platform: Platform) -> None:
    platform.discover()
    loads = _load(platform)

    with ThreadPoolExecutor(2) as reporters:
        running = [reporters.submit(report, platform.instance, platform.database) for _ in range(2)]
        counts = [each.result() for each in running]
    reported = _materializations(platform)
    result = platform.months(ORDERS, first=MONTHS[1], last=MONTHS[1])

    assert sorted(counts) == [0, len(KEYS)]
    assert sorted(reported) == sorted(
        ("", str(load), str(partition_key(key, MONTHS[0]))) for load, key in zip(loads, KEYS, strict=True)
    )
    assert report(platform.instance, platform.database) == 0
    assert {run_id for run_id, _, _ in _materializations(platform)} == {"", result.run_id}


def test_what_is_made_of_a_load_that_was_not_reported_is_not_outdated(platform: Platform, tmp_path: Path) -> None:
    platform.discover()
    _load(platform, dataset=DAILY)
    assets = [
        *platform.assets.values(),
        asset_for(COST_PERIODS, MONTHS[0].start),
        export_asset(DAILY, MONTHS[0].start, str(tmp_path)),
    ]
    marts = dg.Definitions([mart_asset(each, MONTHS[0].start) for each in MARTS])
    definitions = dg.Definitions.merge(dg.Definitions(assets=assets, resources=platform.resources), marts)
    made, partition = {asset_key(mart_named("cost_coverage")), export_key(DAILY)}, partition_key(KEYS[0], MONTHS[0])

    job = definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection=made)
    result = job.execute_in_process(instance=platform.instance, partition_key=partition)
    left = report(platform.instance, platform.database)

    loading = LoadingContextForTest(platform.instance)
    resolver = CachingStaleStatusResolver(platform.instance, definitions.resolve_asset_graph(), loading)
    statuses = {resolver.get_status(key, str(partition)) for key in made}
    assert (result.success, left, statuses) == (True, len(KEYS) - 1, {StaleStatus.FRESH})


def test_loads_of_a_run_are_left_to_it_until_it_ends(platform: Platform) -> None:
    platform.discover()
    platform.instance.delete_dynamic_partition("accounts", KEYS[0])  # the sensor adds it
    run = dg.DagsterRun("killed", status=dg.DagsterRunStatus.STARTED)
    platform.instance.run_storage.add_run(run)
    _load(platform, run.run_id)
    definitions = dg.Definitions.merge(
        check_definitions([ORDERS]), dg.Definitions([platform.assets["orders"]], resources=platform.resources)
    )

    while_it_runs = report(platform.instance, platform.database)
    platform.instance.report_run_failed(run)
    messages = [str(tick(definitions, SENSOR, platform.instance).skip_message) for _ in range(2)]

    assert while_it_runs == 0
    assert [message.partition(",")[0] for message in messages] == ["2 loads were reported", "0 loads were reported"]
    assert set(platform.instance.get_dynamic_partitions("accounts")) == set(KEYS)
    statement = text("SELECT count(*) FROM platform.slices WHERE load_id IS DISTINCT FROM reported_load_id")
    assert platform.database.execute(statement).scalar_one() == 0
