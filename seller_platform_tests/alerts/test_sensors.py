"""Tests that failed runs are reported once, unless they failed for a problem of a slice."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from seller_platform.alerts.sensors import alert_definitions
from seller_platform.contract import Window, dataset_named
from seller_platform.errors import InputProblemError, ListChangedError, SellerPlatformError, UpstreamUnavailableError
from seller_platform.orchestration.failures import ForeseenError
from seller_platform.orchestration.partitions import ACCOUNT_PARTITIONS, add_accounts
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receiver import Receiver, webhook_receiver
from seller_platform_tests.support.ticks import tick

KEYS = [f"us-{100 + number}" for number in range(30)]
ORDERS = ["seller", "orders"]


@dataclass
class Shop:
    """Failing assets, both sensors, and the webhook.

    Attributes:
        failures: The error of each failing partition.
    """

    receiver: Receiver
    instance: dg.DagsterInstance
    failures: dict[str, SellerPlatformError] = field(default_factory=dict)
    crashes: bool = False
    cursor: str | None = None

    def tick(self) -> None:
        """Evaluate the sensor of failed runs, and then the one that sends what waits."""
        self.cursor = tick(alert_definitions(), "run_failures", self.instance, self.cursor).cursor
        tick(alert_definitions(), "alerts", self.instance)

    def run(self, key: list[str], accounts: list[str], tags: Mapping[str, str] = {}) -> dg.ExecuteInProcessResult:
        """Execute a run over a range of accounts."""
        tags = {
            **tags,
            "dagster/asset_partition_range_start": accounts[0],
            "dagster/asset_partition_range_end": accounts[-1],
        }
        return dg.materialize([self._asset(key)], instance=self.instance, tags=tags, raise_on_error=False)

    def _asset(self, asset_key: list[str]) -> dg.AssetsDefinition:
        @dg.asset(
            key=asset_key,
            partitions_def=ACCOUNT_PARTITIONS,
            backfill_policy=dg.BackfillPolicy.multi_run(100),
            output_required=False,
        )
        def land(context: dg.AssetExecutionContext) -> Iterator[object]:
            if self.crashes:
                raise ValueError("no")
            failed = {key: self.failures[key] for key in context.partition_keys if key in self.failures}
            for key in context.partition_keys:
                if key not in failed:
                    yield dg.AssetMaterialization(asset_key, partition=key)
            if failed:
                raise ForeseenError("some failed", {key: str(error) for key, error in failed.items()})

        return land


@pytest.fixture
def shop(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    with webhook_receiver() as receiver, dg.DagsterInstance.ephemeral() as instance:
        variables = {"HOME": f"{tmp_path}", "DATABASE_URL": database_url, "ALERT_WEBHOOK_URL": receiver.url}
        for name, value in (variables | {"DAGSTER_URL": "https://dagster.example/"}).items():
            monkeypatch.setenv(f"SELLER_PLATFORM_{name}", value)
        add_accounts(instance, KEYS)
        opened = Shop(receiver, instance)
        opened.tick()
        yield opened


def away() -> UpstreamUnavailableError:
    return UpstreamUnavailableError("GET /sales/orders", "no answer (ConnectError)", attempts=6)


def test_a_failed_run_is_reported_once_unless_its_reason_is_a_problem(shop: Shop, database: Database) -> None:
    unlisted = SellerPlatformError("x", step="Load its inventory: `seller-platform sync --dataset inventory`.")
    shop.failures = {KEYS[0]: away(), KEYS[1]: ListChangedError("orders", "the list changed"), KEYS[2]: unlisted}
    march = Window.month_of(datetime(2026, 3, 1, tzinfo=UTC).date())
    for key in (KEYS[0], KEYS[2]):
        keep_refusal(database, dataset_named("orders"), key, march, shop.failures[key], run_id=None)
    run_id = shop.run(ORDERS, KEYS[:3]).run_id
    # A mart that waits for an input is left to the report of the input.
    shop.failures[KEYS[3]] = InputProblemError("failed", "seller/orders", KEYS[3], str(away()))
    shop.run(["marts", "profit"], KEYS[3:4])

    shop.tick()
    shop.run(ORDERS, KEYS[:3])
    shop.tick()

    problem, _, message = sorted(shop.receiver.texts)
    assert problem.startswith(f"Failed: seller/orders of {KEYS[0]}, 2026-03")
    assert message.splitlines() == [
        f"Run failed: seller/orders of {KEYS[1]}",
        str(shop.failures[KEYS[1]]),
        f"Run: https://dagster.example/runs/{run_id}",
    ]


def test_runs_that_crash_or_are_ended_from_outside_are_reported(shop: Shop) -> None:
    @dg.job
    def idle() -> None:
        pass

    shop.crashes = True
    shop.run(ORDERS, KEYS[:2])
    shop.instance.report_run_failed(shop.instance.create_run_for_job(idle, status=dg.DagsterRunStatus.STARTED))
    shop.tick()

    crashed, ended = (text.splitlines() for text in shop.receiver.texts)
    assert crashed[:2] == [
        "Run failed: seller/orders",
        "ValueError: no. Open the run in the Dagster UI for the traceback, fix the cause and launch the run again.",
    ]
    assert ended[0] == "Run failed: job idle"
    assert ended[1].startswith("This run has been marked as failed from outside")


def test_a_run_that_dagster_starts_again_is_left_to_its_retry(shop: Shop) -> None:
    shop.failures = {KEYS[0]: away()}
    shop.run(ORDERS, KEYS, {"dagster/will_retry": "true"})
    shop.run(ORDERS, KEYS, {"dagster/auto_retry_run_id": "another"})
    shop.tick()
    before = [*shop.receiver.texts]
    given_up = shop.run(ORDERS, KEYS, {"dagster/will_retry": "false"}).run_id
    shop.tick()

    assert before == []
    assert [text.rpartition("/")[2] for text in shop.receiver.texts] == [given_up]


def test_a_failure_is_reported_without_secrets(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLER_API_CLIENT_SECRET", "canary-client-secret")

    @dg.asset(key=["seller", "broken"])
    def asset() -> None:
        raise ValueError("postgresql://me:canary-password@db/x said canary-client-secret, Bearer canary-token")

    @dg.op
    def request() -> None:
        facts: dict[str, str | int] = {"plan": 7, "proof": "plan 7"}
        raise dg.Failure("SKU A was refused", metadata=facts, allow_retries=False)

    @dg.job
    def write_costs() -> None:
        request()

    dg.materialize([asset], instance=shop.instance, raise_on_error=False)
    write_costs.execute_in_process(instance=shop.instance, raise_on_error=False)
    shop.tick()

    of_job, of_asset = sorted(shop.receiver.texts)
    assert of_asset.startswith("Run failed: seller/broken\nValueError: postgresql://***@db/x said ***, Bearer ***")
    assert of_job.splitlines()[:2] == ["Run failed: job write_costs", "SKU A was refused"]
