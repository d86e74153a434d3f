"""Tests that failed runs are reported once, unless they failed for a problem of a slice."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
import time_machine

from seller_platform.contract import Window, dataset_named
from seller_platform.errors import (
    InputProblemError,
    ListChangedError,
    SellerPlatformError,
    UpstreamUnavailableError,
)
from seller_platform.orchestration.partitions import ACCOUNT_PARTITIONS, add_accounts
from seller_platform.orchestration.tags import EXIT_CODE
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.alerting import Alerting

pytestmark = pytest.mark.slow

KEYS = [f"us-{100 + number}" for number in range(30)]
ORDERS = ["seller", "orders"]
OWN = ["shop", "orders"]


@dataclass
class Shop(Alerting):
    """Failing assets, and the sensor of runs.

    Attributes:
        failures: The error of each failing partition.
    """

    failures: dict[str, SellerPlatformError] = field(default_factory=dict)
    crashes: bool = False

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
                metadata: dict[str, str | int] = {**{key: str(error) for key, error in failed.items()}, EXIT_CODE: 4}
                raise dg.Failure("some failed", metadata=metadata, allow_retries=False)

        return land


@pytest.fixture
def shop(alerting: Alerting) -> Shop:
    add_accounts(alerting.instance, KEYS)
    opened = Shop(**vars(alerting) | {"sensor": "run_failures"})
    opened.tick()
    return opened


def away() -> UpstreamUnavailableError:
    return UpstreamUnavailableError("GET /sales/orders", "no answer (ConnectError)", attempts=6)


def test_what_succeeds_or_failed_before_the_first_tick_sends_no_message(shop: Shop) -> None:
    shop.run(OWN, KEYS)
    succeeded = shop.tick()
    shop.failures = {KEYS[0]: away()}
    shop.run(ORDERS, KEYS[:1])
    an_hour_ago = json.dumps({"read_to": datetime.now(UTC).timestamp() - 3600})
    before = []
    for cursor in (None, "not ours", an_hour_ago):
        shop.cursor = cursor
        before.append(shop.tick())
    sent = len(shop.receiver.documents)
    shop.run(ORDERS, KEYS[:1])

    assert {succeeded, *before} == {"no cause is open"}
    assert (sent, shop.tick()) == (0, "1 cause is open")


def test_a_failed_run_is_reported_unless_its_reason_is_a_problem(shop: Shop, database: Database) -> None:
    shop.failures = {KEYS[0]: away(), KEYS[1]: ListChangedError("orders", attempts=3, last="page 4")}
    march = Window.month_of(datetime(2026, 3, 1, tzinfo=UTC).date())
    keep_refusal(database, dataset_named("orders"), KEYS[0], march, away(), run_id=None)
    run_id = shop.run(ORDERS, KEYS[:3]).run_id
    # A mart that waits for an input is left to the report of the input.
    shop.failures[KEYS[3]] = InputProblemError("failed", "seller/orders", KEYS[3], str(away()))
    shop.run(["marts", "profit"], KEYS[3:4])

    shop.tick()

    (message,) = shop.receiver.texts
    title, sentence, since, link = message.splitlines()
    assert title == f"Run failed: seller/orders of {KEYS[1]}"
    assert sentence == str(shop.failures[KEYS[1]])
    assert since.startswith("Since 20")
    assert link == f"Run: https://dagster.example/runs/{run_id}"


def test_a_crashed_run_is_resolved_when_its_partitions_are_materialized(shop: Shop) -> None:
    shop.crashes = True
    shop.run(ORDERS, KEYS[:2])
    shop.tick()
    assert shop.receiver.texts[0].startswith(f"Run failed: seller/orders of {KEYS[0]}; {KEYS[1]}\nValueError: no")

    shop.crashes = False
    shop.run(ORDERS, KEYS[:1])
    assert shop.tick() == "1 cause is open"
    shop.run(ORDERS, KEYS[1:2])
    assert shop.tick() == "no cause is open"
    assert shop.receiver.texts[1].startswith(f"Resolved: Run failed: seller/orders of {KEYS[0]}; {KEYS[1]}\n")


def test_a_run_ended_from_outside_is_reported_and_forgotten_in_two_weeks(shop: Shop) -> None:
    @dg.job
    def idle() -> None:
        pass

    shop.instance.report_run_failed(shop.instance.create_run_for_job(idle, status=dg.DagsterRunStatus.STARTED))

    assert shop.tick() == "1 cause is open"
    assert shop.tick(later=timedelta(days=15)) == "no cause is open"
    (message,) = shop.receiver.texts
    assert message.startswith("Run failed: job idle\nThis run has been marked as failed from outside")


def test_a_clock_behind_or_ahead_loses_no_failed_run_and_no_message(shop: Shop) -> None:
    errors = [ListChangedError(name, attempts=3, last="page 4") for name in ("orders", "inventory", "costs")]
    for error, hours in zip(errors, (4, -4, 0), strict=True):
        shop.failures = {KEYS[0]: error}
        with time_machine.travel(datetime.now(UTC) + timedelta(hours=hours)):
            shop.run(ORDERS, KEYS[:1])
        shop.tick()

    last = ListChangedError("sales", attempts=3, last="page 4")  # whose message a clock that is put back delays not
    shop.failures, shop.receiver.answers = {KEYS[0]: last}, [500]
    shop.run(ORDERS, KEYS[:1])
    shop.tick()
    shop.tick(later=timedelta(days=-2))

    lines = [text.splitlines() for text in shop.receiver.texts]
    sentences = [each[1] for each in lines if each[0].startswith("Run failed")]
    assert sentences == [str(error) for error in (*errors, last)]


def test_a_run_is_reported_only_when_dagster_gives_up_starting_it_again(shop: Shop) -> None:
    shop.failures = {KEYS[0]: away()}
    made_good = shop.run(ORDERS, KEYS, {"dagster/will_retry": "true"}).run_id
    given_up = shop.run(ORDERS, KEYS, {"dagster/will_retry": "true"}).run_id

    assert shop.tick() == "no cause is open"
    shop.instance.add_run_tags(made_good, {"dagster/auto_retry_run_id": "another"})
    assert shop.tick() == "no cause is open"
    shop.instance.add_run_tags(given_up, {"dagster/will_retry": "false"})
    assert shop.tick() == "1 cause is open"
    (message,) = shop.receiver.texts
    assert message.endswith(given_up)


def test_a_run_that_fails_while_the_warehouse_is_away_is_reported_later(
    shop: Shop, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.failures = {KEYS[0]: away()}
    shop.run(ORDERS, KEYS[:1])

    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert str(shop.tick()).startswith("no cause is open: ")
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database_url)
    assert shop.tick() == "1 cause is open"
    assert len(shop.receiver.texts) == 1


def test_a_failure_is_reported_without_secrets_until_asset_or_job_succeeds(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_API_CLIENT_SECRET", "canary-client-secret")
    broken = [True]

    @dg.asset(key=["seller", "broken"])
    def asset() -> None:
        if broken:
            raise ValueError("postgresql://me:canary-password@db/x said canary-client-secret, Bearer canary-token")

    @dg.op
    def request() -> None:
        if broken:
            raise dg.Failure(
                "SKU A was refused", metadata={"plan": 7, "proof": "plan 7", EXIT_CODE: 4}, allow_retries=False
            )

    @dg.job
    def write_costs() -> None:
        request()

    dg.materialize([asset], instance=shop.instance, raise_on_error=False)
    write_costs.execute_in_process(instance=shop.instance, raise_on_error=False)
    shop.tick()
    of_job, of_asset = sorted(shop.receiver.texts)
    still_open = shop.tick()
    broken.clear()
    shop.passed = timedelta()
    dg.materialize([asset], instance=shop.instance)
    write_costs.execute_in_process(instance=shop.instance)
    resolved = shop.tick()

    assert of_asset.startswith("Run failed: seller/broken\nValueError: postgresql://***@db/x said ***, Bearer ***")
    assert "Open the run in the Dagster UI" in of_asset
    assert of_job.splitlines()[:2] == ["Run failed: job write_costs", "SKU A was refused"]
    assert "canary" not in json.dumps(shop.receiver.documents) + str(shop.cursor)
    assert (still_open, resolved) == ("2 causes are open", "no cause is open")
    assert sorted(shop.receiver.texts[2:])[0].splitlines()[:2] == [
        "Resolved: Run failed: job write_costs",
        "It was: SKU A was refused",
    ]
