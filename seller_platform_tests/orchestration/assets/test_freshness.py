"""Tests that scheduled assets have a freshness policy, and that Dagster evaluates it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
import time_machine
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.freshness import FreshnessDaemon

from seller_platform.contract import DATASETS, Dataset, Source, dataset_named
from seller_platform.orchestration.assets.events import freshness_for
from seller_platform.orchestration.partitions import asset_key
from seller_platform_tests.support.dagster_instance import postgres_instance

_ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("dataset", DATASETS, ids=lambda dataset: str(dataset.name))
def test_scheduled_assets_have_a_policy(dataset: Dataset) -> None:
    assert (freshness_for(dataset) is None) == (dataset.source is Source.REPORT)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
def test_the_daemon_reports_late_assets(database_url: str, tmp_path: Path) -> None:
    names = ("accounts", "orders", "inventory", "report_rows")
    target = ModuleTarget("seller_platform_tests.orchestration.assets.fresh_location", None, str(_ROOT), "fresh")
    with (
        postgres_instance(database_url, tmp_path) as instance,
        create_test_daemon_workspace_context(target, instance) as workspace,
    ):
        for name in names:
            instance.report_runless_asset_event(dg.AssetMaterialization(asset_key(dataset_named(name))))

        def states(after: timedelta) -> Mapping[str, str]:
            with time_machine.travel(datetime.now(UTC) + after):
                assert instance.freshness_enabled
                list(FreshnessDaemon().run_iteration(workspace))
            keys = {asset_key(dataset_named(name)): name for name in names}
            states = instance.get_freshness_state_records(list(keys))
            return {keys[key]: record.freshness_state.value for key, record in states.items()}

        assert states(timedelta(hours=1)) == dict(zip(names, ["PASS", "PASS", "PASS", "NOT_APPLICABLE"], strict=True))
        assert states(timedelta(hours=27)) == dict(zip(names, ["FAIL", "WARN", "WARN", "NOT_APPLICABLE"], strict=True))
        assert states(timedelta(hours=51)) == dict(zip(names, ["FAIL", "FAIL", "FAIL", "NOT_APPLICABLE"], strict=True))
