"""Tests that failed runs are reported once, unless they failed for a problem of a slice."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
from seller_platform.orchestration.alerting.sensors import alert_definitions
from seller_platform.orchestration.partitions import ACCOUNT_PARTITIONS, add_accounts
from seller_platform.orchestration.tags import EXIT_CODE
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.receiver import Receiver, webhook_receiver
from seller_platform_tests.support.ticks import tick

pytestmark = [pytest.mark.slow, pytest.mark.dagster_tables]

KEYS = [f"SELLER{number:02}.MARKET" for number in range(30)]
ORDERS = ["seller", "orders"]
OWN = ["shop", "orders"]


@dataclass
class Shop:
    """An instance with failing assets, the sensors, and their webhook.

    Attributes:
        failures: The error of each failing partition.
    """

    instance: dg.DagsterInstance
    receiver: Receiver
    failures: dict[str, SellerPlatformError] = field(default_factory=dict)
    crashes: bool = False
    passed: timedelta = timedelta()
    cursors: dict[str, str | None] = field(default_factory=dict)

    def run(self, key: list[str], accounts: list[str], tags: Mapping[str, str] = {}) -> dg.ExecuteInProcessResult:
        """Execute a run over a range of accounts."""
        tags = {
            **tags,
            "dagster/asset_partition_range_start": accounts[0],
            "dagster/asset_partition_range_end": accounts[-1],
        }
        return dg.materialize([self._asset(key)], instance=self.instance, tags=tags, raise_on_error=False)

    def tick(self, sensor: str, *, later: timedelta = timedelta(seconds=30)) -> str | None:
        """Evaluate a sensor some time after the last tick, and return its skip message."""
        self.passed += later
        definitions = alert_definitions(clock=lambda: datetime.now(UTC) + self.passed, expected=())
        result = tick(definitions, sensor, self.instance, self.cursors.get(sensor))
        self.cursors[sensor] = result.cursor
        return result.skip_message

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
def shop(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database_url)
    monkeypatch.setenv("SELLER_PLATFORM_DAGSTER_URL", "https://dagster.example/")
    with postgres_instance(database_url, tmp_path) as instance, webhook_receiver() as receiver:
        monkeypatch.setenv("SELLER_PLATFORM_ALERT_WEBHOOK_URL", receiver.url)
        add_accounts(instance, KEYS)
        opened = Shop(instance, receiver)
        opened.tick("run_failures")
        yield opened


def away() -> UpstreamUnavailableError:
    return UpstreamUnavailableError("GET /sales/orders", "no answer (ConnectError)", attempts=6)


def test_what_succeeds_or_failed_before_the_first_tick_sends_no_message(shop: Shop) -> None:
    shop.run(OWN, KEYS)
    succeeded = shop.tick("run_failures")
    shop.failures = {KEYS[0]: away()}
    shop.run(ORDERS, KEYS[:1])
    an_hour_ago = json.dumps({"read_to": datetime.now(UTC).timestamp() - 3600})
    before = []
    for cursor in (None, "not ours", an_hour_ago):
        shop.cursors["run_failures"] = cursor
        before.append(shop.tick("run_failures"))
    sent = len(shop.receiver.documents)
    shop.run(ORDERS, KEYS[:1])

    assert {succeeded, *before} == {"no cause is open"}
    assert (sent, shop.tick("run_failures")) == (0, "1 cause is open")


def test_a_failed_run_is_reported_unless_its_reason_is_a_problem(shop: Shop, database: Database) -> None:
    shop.failures = {KEYS[0]: away(), KEYS[1]: ListChangedError("orders", attempts=3, last="page 4")}
    march = Window.month_of(datetime(2026, 3, 1, tzinfo=UTC).date())
    keep_refusal(database, dataset_named("orders"), KEYS[0], march, away(), run_id=None)
    run_id = shop.run(ORDERS, KEYS[:3]).run_id

    shop.tick("run_failures")

    (message,) = shop.receiver.texts
    title, sentence, since, link = message.splitlines()
    assert title == f"Run failed: seller/orders of {KEYS[1]}"
    assert sentence == str(shop.failures[KEYS[1]])
    assert since.startswith("Since 20")
    assert link == f"Run: https://dagster.example/runs/{run_id}"


def test_a_mart_that_waits_for_an_input_is_left_to_the_report_of_the_input(shop: Shop) -> None:
    shop.failures = {KEYS[0]: InputProblemError("failed", "seller/orders", KEYS[0], str(away()))}
    shop.run(["marts", "profit"], KEYS[:1])

    assert shop.tick("run_failures") == "no cause is open"


def test_a_crashed_run_is_resolved_when_its_partitions_are_materialized(shop: Shop) -> None:
    shop.crashes = True
    shop.run(ORDERS, KEYS[:2])
    shop.tick("run_failures")
    assert shop.receiver.texts[0].startswith(f"Run failed: seller/orders of {KEYS[0]}; {KEYS[1]}\nValueError: no")

    shop.crashes = False
    shop.run(ORDERS, KEYS[:1])
    assert shop.tick("run_failures") == "1 cause is open"
    shop.run(ORDERS, KEYS[1:2])
    assert shop.tick("run_failures") == "no cause is open"
    assert shop.receiver.texts[1].startswith(f"Resolved: Run failed: seller/orders of {KEYS[0]}; {KEYS[1]}\n")


def test_a_run_ended_from_outside_is_reported_and_forgotten_in_two_weeks(shop: Shop) -> None:
    @dg.job
    def idle() -> None:
        pass

    shop.instance.report_run_failed(shop.instance.create_run_for_job(idle, status=dg.DagsterRunStatus.STARTED))

    assert shop.tick("run_failures") == "1 cause is open"
    assert shop.tick("run_failures", later=timedelta(days=15)) == "no cause is open"
    (message,) = shop.receiver.texts
    assert message.startswith("Run failed: job idle\nThis run has been marked as failed from outside")


def test_a_clock_behind_or_ahead_loses_no_failed_run_and_no_message(shop: Shop) -> None:
    errors = [ListChangedError(name, attempts=3, last="page 4") for name in ("orders", "inventory", "costs")]
    for error, hours in zip(errors, (4, -4, 0), strict=True):
        shop.failures = {KEYS[0]: error}
        with time_machine.travel(datetime.now(UTC) + timedelta(hours=hours)):
            shop.run(ORDERS, KEYS[:1])
        shop.tick("run_failures")

    last = ListChangedError("sales", attempts=3, last="page 4")  # whose message a clock that is put back delays not
    shop.failures, shop.receiver.answers = {KEYS[0]: last}, [500]
    shop.run(ORDERS, KEYS[:1])
    shop.tick("run_failures")
    shop.tick("run_failures", later=timedelta(days=-2))

    lines = [text.splitlines() for text in shop.receiver.texts]
    sentences = [each[1] for each in lines if each[0].startswith("Run failed")]
    assert sentences == [str(error) for error in (*errors, last)]


def test_a_run_is_reported_only_when_dagster_gives_up_starting_it_again(shop: Shop) -> None:
    shop.failures = {KEYS[0]: away()}
    made_good = shop.run(ORDERS, KEYS, {"dagster/will_retry": "true"}).run_id
    given_up = shop.run(ORDERS, KEYS, {"dagster/will_retry": "true"}).run_id

    assert shop.tick("run_failures") == "no cause is open"
    shop.instance.add_run_tags(made_good, {"dagster/auto_retry_run_id": "another"})
    assert shop.tick("run_failures") == "no cause is open"
    shop.instance.add_run_tags(given_up, {"dagster/will_retry": "false"})
    assert shop.tick("run_failures") == "1 cause is open"
    (message,) = shop.receiver.texts
    assert message.endswith(given_up)


def test_a_run_that_fails_while_the_warehouse_is_away_is_reported_later(
    shop: Shop, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.failures = {KEYS[0]: away()}
    shop.run(ORDERS, KEYS[:1])

    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert str(shop.tick("run_failures")).startswith("no cause is open: ")
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database_url)
    assert shop.tick("run_failures") == "1 cause is open"
    assert len(shop.receiver.texts) == 1


def test_a_bug_is_reported_with_where_its_traceback_is_and_without_secrets(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_API_CLIENT_SECRET", "canary-client-secret")
    broken = [True]

    @dg.asset(key=["seller", "broken"])
    def asset() -> None:
        if broken:
            raise ValueError("postgresql://me:canary-password@db/x said canary-client-secret, Bearer canary-token")

    dg.materialize([asset], instance=shop.instance, raise_on_error=False)
    shop.tick("run_failures")

    (message,) = shop.receiver.texts
    assert message.startswith("Run failed: seller/broken\nValueError: postgresql://***@db/x said ***, Bearer ***")
    assert "Open the run in the Dagster UI" in message
    assert "canary" not in json.dumps(shop.receiver.documents) + json.dumps(shop.cursors)

    assert shop.tick("run_failures") == "1 cause is open"
    broken.clear()
    dg.materialize([asset], instance=shop.instance)
    assert shop.tick("run_failures") == "no cause is open"


def test_a_job_that_failed_is_resolved_by_a_later_success(shop: Shop) -> None:
    broken = [True]

    @dg.op
    def request() -> None:
        if broken:
            raise dg.Failure(
                "SKU A was refused", metadata={"plan": 7, "proof": "plan 7", EXIT_CODE: 4}, allow_retries=False
            )

    @dg.job
    def write_costs() -> None:
        request()

    write_costs.execute_in_process(instance=shop.instance, raise_on_error=False)
    shop.tick("run_failures", later=timedelta())
    assert shop.tick("run_failures") == "1 cause is open"
    broken.clear()
    shop.passed = timedelta()
    write_costs.execute_in_process(instance=shop.instance)
    shop.tick("run_failures")

    assert [text.splitlines()[:2] for text in shop.receiver.texts] == [
        ["Run failed: job write_costs", "SKU A was refused"],
        ["Resolved: Run failed: job write_costs", "It was: SKU A was refused"],
    ]
