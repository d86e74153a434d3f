"""Tests that a run says for what it waits, while it waits."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest

from seller_platform.contract import dataset_named
from seller_platform.orchestration.assets.waits import WAITS
from seller_platform.orchestration.partitions import asset_key, partition_key
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.platform import MONTHS, Platform
from seller_platform_tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.dagster_tables]

TRANSACTIONS = dataset_named("transactions")
JANUARY = str(partition_key("account-42", MONTHS[0]))


def test_a_run_that_waits_for_a_silent_upstream_reports_it(
    platform: Platform, database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = threading.Event()
    with postgres_instance(database_url, tmp_path) as instance, ThreadPoolExecutor(1) as thread:
        platform.instance = instance
        platform.discover()
        platform.upstream.hangs_until = answers
        running = thread.submit(platform.run, [TRANSACTIONS], JANUARY, JANUARY)
        try:
            wait_for(lambda: bool(_observations(instance)))
            (observed, *_) = _observations(instance)
            (line, *_) = _warnings(instance)
            is_over = running.done()
        finally:
            answers.set()
        result = running.result()

    assert not is_over
    assert result.success
    assert observed.partition == JANUARY
    sentence = str(observed.metadata[WAITS].value)
    assert sentence.startswith(
        f"GET {TRANSACTIONS.path}: no complete answer in 5 s; attempt 1 of 6 goes on, no attempt"
    )
    assert line == f"transactions of account-42, 2026-01 waits: {sentence}"
    assert line in caplog.text


def _observations(instance: dg.DagsterInstance) -> list[dg.AssetObservation]:
    records = instance.fetch_observations(asset_key(TRANSACTIONS), limit=10).records
    return [record.event_log_entry.asset_observation for record in records if record.event_log_entry.asset_observation]


def _warnings(instance: dg.DagsterInstance) -> list[str]:
    (run,) = instance.get_runs(filters=dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    return [entry.user_message for entry in instance.all_logs(run.run_id) if " waits: " in entry.user_message]
