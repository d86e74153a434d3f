"""Tests that the pool of `dagster.yaml` limits how many runs call the API, whoever starts them."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

# The daemon decides by this class which queued runs may start; there is no public way to ask.
from dagster._core.op_concurrency_limits_counter import GlobalOpConcurrencyLimitsCounter

from seller_platform.orchestration.component import SellerPlatformComponent
from seller_platform.settings import read_settings

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """An instance with the limits of our `dagster.yaml`."""
    folder = tmp_path_factory.mktemp("dagster")
    _, _, limits = (TOP / "dagster.yaml").read_text().partition("run_queue:")
    (folder / "dagster.yaml").write_text(f"run_queue:{limits}")
    with dg.DagsterInstance.from_config(str(folder)) as opened:
        yield opened


def test_no_more_runs_call_the_api_than_the_pool_allows(instance: dg.DagsterInstance) -> None:
    definitions = SellerPlatformComponent().definitions(read_settings(), date(2026, 1, 1))
    job = definitions.resolve_implicit_global_asset_job_def()
    limits = instance.get_concurrency_config()

    def created(asset: str) -> dg.DagsterRun:
        key = dg.AssetKey(asset.split("/"))
        return instance.create_run_for_job(job.get_subset(asset_selection={key}), asset_selection=frozenset({key}))

    runs = [created("seller/orders") for _ in range(6)]
    mart = created("marts/account_profit_daily")
    instance.event_log_storage.initialize_concurrency_limit_to_default("seller_api")
    counter = GlobalOpConcurrencyLimitsCounter(
        instance,
        [*runs, mart],
        [],
        concurrency_keys=instance.event_log_storage.get_concurrency_keys(),
        pool_limits=instance.event_log_storage.get_pool_limits(),
        pool_granularity=limits.pool_config.pool_granularity,
    )

    started = []
    for run in [*runs, mart]:
        if not counter.is_blocked(run):
            counter.update_counters_with_launched_item(run)
            started.append(run.run_id)

    assert started == [*(run.run_id for run in runs[:4]), mart.run_id]
    assert limits.run_queue_config is not None
    assert limits.run_queue_config.max_concurrent_runs == 5


def test_one_account_has_one_run_at_a_time(instance: dg.DagsterInstance) -> None:
    queue = instance.get_concurrency_config().run_queue_config

    assert queue is not None
    assert queue.tag_concurrency_limits == [
        {"key": "seller_platform/account", "value": {"applyLimitPerUniqueValue": True}, "limit": 1}
    ]
