"""Tests that runs report the same, whether their slices are loaded in loading processes or not."""

import logging
from typing import Any

import dagster as dg
import pytest

from seller_platform.contract import dataset_named
from seller_platform.ingest.workers.pool import loading_processes
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.platform import MONTHS, Platform

pytestmark = pytest.mark.nightly  # `ingest/workers/test_pool.py` loads in processes

TRANSACTIONS = dataset_named("transactions")
_OF_ONE_LOAD = {"seconds", "load_id", "receipt"}


def _reported(result: dg.ExecuteInProcessResult) -> list[tuple[Any, ...]]:
    """Return the materializations, checks and failures of a run, without what differs from load to load."""
    found: list[tuple[Any, ...]] = []
    for event in result.all_events:
        if event.is_step_materialization:
            each = event.step_materialization_data.materialization
            facts = {name: value.value for name, value in each.metadata.items() if name not in _OF_ONE_LOAD}
            found.append((str(each.asset_key), each.partition, facts, each.tags))
        elif event.is_step_failure:
            failure = event.step_failure_data.user_failure_data
            assert failure is not None
            found.append((failure.description, {name: value.value for name, value in failure.metadata.items()}))
    found += [
        (each.check_name, each.partition, each.passed, each.severity, each.description)
        for each in result.get_asset_check_evaluations()
    ]
    return found


def test_loading_processes_change_nothing_of_what_a_run_reports(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    platform.discover()
    broken = {**independent_upstream.transaction_rows(MONTHS[1].start)[0], "posted_date": "2020-01-01T00:00:00"}
    honest = independent_upstream.transaction_rows
    monkeypatch.setattr(
        independent_upstream,
        "transaction_rows",
        lambda month: [broken] if month == MONTHS[1].start else honest(month),
    )
    platform.months(TRANSACTIONS)
    alone = platform.months(TRANSACTIONS)

    with (
        loading_processes(platform.resources["seller_api"]._settings, platform.database.url),
        caplog.at_level(logging.INFO, "seller_platform"),
    ):
        together = platform.months(TRANSACTIONS)

    assert _reported(together) == _reported(alone)
    assert "another calendar" in str(_reported(together))
    assert len(_reported(together)) > len(MONTHS) * 2
    assert "its loading process has died" not in caplog.text
