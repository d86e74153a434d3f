"""Tests the jobs of the Launchpad over an independent upstream and PostgreSQL."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import dagster as dg
import pytest

from seller_platform.contract import LISTS, dataset_named
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.assets.reporting import report_checks
from seller_platform.orchestration.jobs.acceptance import accept_job
from seller_platform.orchestration.jobs.run_requests import loading_jobs
from seller_platform.orchestration.partitions import partition_key
from seller_platform.orchestration.placement import WHOLE
from seller_platform.orchestration.tags import EXIT_CODE
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.platform import (
    HISTORY_START,
    MONTHS,
    Platform,
    failure_of,
    hold_february,
    lent_platform,
    newest_checks,
)
from seller_platform_tests.support.postgres import Databases

ORDERS = dataset_named("orders")
ACCOUNT = independent_upstream.KEYS["A1FOREIGN"]
FEBRUARY = MONTHS[1]


@dataclass
class Desk:
    """The jobs and a platform whose accounts are discovered."""

    platform: Platform
    definitions: dg.Definitions

    def launch(self, job: str, op: str, **config: Any) -> dg.ExecuteInProcessResult:
        return self.definitions.resolve_job_def(job).execute_in_process(
            instance=self.platform.instance,
            run_config={"ops": {op: {"config": config}}},
            raise_on_error=False,
        )

    def backfill(self, **config: Any) -> dg.ExecuteInProcessResult:
        return self.launch("backfill_history", "load_months", **config)

    def failure(self, result: dg.ExecuteInProcessResult, op: str) -> tuple[str, dict[str, Any]]:
        """Return the sentence of a failed step and its metadata. The UI shows no stack trace."""
        data = result.failure_data_for_node(op)
        assert data is not None
        assert data.error is not None
        assert (data.error.stack, data.error.cause, data.error.context) == ([], None, None)
        return data.error.message, failure_of(result)[1]


@pytest.fixture(scope="module")
def desk(postgres: EmbeddedServer, databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    variables = {"SELLER_PLATFORM_HISTORY_START": str(HISTORY_START)}
    with lent_platform(postgres, databases, tmp_path_factory.mktemp("desk"), variables) as platform:

        def asset_job(since: date) -> dg.JobDefinition:
            assets = [asset_for(dataset, since) for dataset in LISTS]
            return dg.Definitions(assets, resources=platform.resources).resolve_implicit_global_asset_job_def()

        jobs = [*loading_jobs(HISTORY_START, asset_job), accept_job()]
        platform.discover()
        yield Desk(platform, dg.Definitions(jobs=jobs, resources=platform.resources, executor=dg.in_process_executor))


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"from_month": "March"}, "from_month: 'March' is not a month; write it as 2026-03"),
        ({"from_month": "2026-13"}, "from_month: '2026-13' is not a month"),
        ({"from_month": "1999-01"}, "history cannot begin with 1999-01"),
        ({"from_month": "2026-03", "to_month": "2026-02"}, "there are no months from 2026-03 to 2026-02"),
        ({"from_month": "2026-02", "accounts": ["Down"]}, "there is no account 'Down'; the accounts are: "),
    ],
)
def test_a_backfill_that_cannot_be_made_ends_with_a_sentence(desk: Desk, config: dict[str, Any], problem: str) -> None:
    sentence, metadata = desk.failure(desk.backfill(**config), "load_months")

    assert problem in sentence
    assert metadata[EXIT_CODE] == 2


def test_a_run_of_no_code_location_cannot_request_others(desk: Desk) -> None:
    sentence, _ = desk.failure(desk.launch("refresh_now", "refresh", accounts=[ACCOUNT]), "refresh")

    assert "needs a code location, and an instance with a QueuedRunCoordinator" in sentence


@pytest.mark.parametrize(
    ("job", "op", "config"),
    [
        ("backfill_history", "load_months", {"from_month": "2026-02", "datasets": ["order"]}),
        ("backfill_history", "load_months", {"datasets": ["orders"]}),
        ("refresh_now", "refresh", {"datasets": ["accounts"]}),
        ("accept_held", "accept", {"load": "first"}),
    ],
)
def test_the_launchpad_refuses_unknown_names_and_other_types(
    desk: Desk, job: str, op: str, config: dict[str, Any]
) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.validate_run_config(desk.definitions.resolve_job_def(job), {"ops": {op: {"config": config}}})


def test_every_field_of_the_launchpad_has_a_description(desk: Desk) -> None:
    for job, op in (("backfill_history", "load_months"), ("refresh_now", "refresh"), ("accept_held", "accept")):
        config: Any = desk.definitions.resolve_job_def(job).get_node_named(op).definition
        assert all(field.description for field in config.config_field.config_type.fields.values()), job


def test_held_readings_fail_their_check_until_they_are_accepted(desk: Desk) -> None:
    hold_february(desk.platform, ACCOUNT)
    (held,) = open_holds(desk.platform.database)
    report_checks(desk.platform.instance, desk.platform.database, WHOLE, [ORDERS])
    while_held = newest_checks(desk.platform.instance, ORDERS)["reading_is_plausible"]

    wrong, _ = desk.failure(desk.launch("accept_held", "accept", load=1), "accept")
    nothing, _ = desk.failure(desk.launch("accept_held", "accept"), "accept")
    result = desk.launch(
        "accept_held", "accept", accounts=[ACCOUNT], datasets=["orders"], accepted_by="ann", reason="they were tests"
    )

    assert not while_held.passed
    assert f"the reading of load 1 is not held; those held are: {held.id}" in wrong
    assert "the config names nothing to accept" in nothing
    assert result.success
    assert open_holds(desk.platform.database) == ()
    (event,) = result.get_asset_materialization_events()
    assert event.partition == partition_key(ACCOUNT, FEBRUARY)
    notes = event.materialization.metadata["notes"].value
    assert isinstance(notes, dict)
    assert (notes["accepted"]["by"], notes["accepted"]["why"]) == ("ann", "they were tests")
    assert newest_checks(desk.platform.instance, ORDERS)["reading_is_plausible"].passed
