"""Tests that each cause is reported once with its next step, without losing messages."""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from seller_platform.contract import Account, dataset_named
from seller_platform.errors import (
    InputProblemError,
    ListChangedError,
    ReauthorizationRequiredError,
    SellerPlatformError,
    UpstreamUnavailableError,
)
from seller_platform.orchestration.alerting.sensors import alert_definitions
from seller_platform.orchestration.assets.authorization import AUTHORIZED_CHECK
from seller_platform.orchestration.assets.events import judged
from seller_platform.orchestration.partitions import ACCOUNT_PARTITIONS, add_accounts
from seller_platform.orchestration.tags import EXIT_CODE
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.platform import Platform
from seller_platform_tests.support.receiver import Receiver, webhook_receiver

pytestmark = [pytest.mark.slow, pytest.mark.dagster_tables]

KEYS = [f"SELLER{number:02}.MARKET" for number in range(30)]
Failures = dict[str, SellerPlatformError]


@dataclass
class Shop:
    """An instance with failing assets, the sensors, and their webhook.

    Attributes:
        failures: The error of each failing partition.
        checks: The failing checks.
    """

    instance: dg.DagsterInstance
    receiver: Receiver
    failures: Failures = field(default_factory=dict)
    checks: dict[str, str] = field(default_factory=dict)
    examples: list[dict[str, str]] = field(default_factory=list)
    crashes: bool = False
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
    passed: timedelta = timedelta()
    cursors: dict[str, str | None] = field(default_factory=dict)

    def run(self, name: str, keys: list[str], tags: Mapping[str, str] = {}) -> dg.ExecuteInProcessResult:
        """Execute a run over a range of accounts."""
        tags = {
            **tags,
            "dagster/asset_partition_range_start": keys[0],
            "dagster/asset_partition_range_end": keys[-1],
        }
        return dg.materialize([self._asset(name)], instance=self.instance, tags=tags, raise_on_error=False)

    def tick(self, sensor: str, *, later: timedelta = timedelta(seconds=30)) -> str | None:
        """Evaluate a sensor some time after the last tick, and return its skip message."""
        self.passed += later
        definitions = alert_definitions(clock=lambda: datetime.now(UTC) + self.passed)
        definition = definitions.resolve_sensor_def(sensor)
        with dg.build_sensor_context(
            self.instance, cursor=self.cursors.get(sensor), resources=dict(definitions.resources or {})
        ) as context:
            result = definition.evaluate_tick(context)
        self.cursors[sensor] = result.cursor
        return result.skip_message

    def judge_connections(self, *refusals: SellerPlatformError) -> None:
        """Store an evaluation of the connections' check, as the discovery sensor does."""
        accounts = dg.AssetKey(["seller", "accounts"])
        self.instance.report_runless_asset_event(dg.AssetMaterialization(accounts))
        self.instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=accounts,
                check_name=AUTHORIZED_CHECK,
                passed=not refusals,
                description=" ".join(f"{refusal}." for refusal in refusals),
                target_materialization_data=judged(self.instance, accounts, None),
            )
        )

    def _asset(self, name: str) -> dg.AssetsDefinition:
        @dg.asset(
            key=["seller", name],
            partitions_def=ACCOUNT_PARTITIONS,
            check_specs=[dg.AssetCheckSpec("rows", asset=["seller", name], partitions_def=ACCOUNT_PARTITIONS)],
            backfill_policy=dg.BackfillPolicy.multi_run(100),
            output_required=False,
        )
        def land(context: dg.AssetExecutionContext) -> Iterator[object]:
            if self.crashes:
                raise ValueError("no")
            failed = {key: self.failures[key] for key in context.partition_keys if key in self.failures}
            for key in context.partition_keys:
                if key not in failed:
                    yield dg.AssetMaterialization(["seller", name], partition=key)
                yield dg.AssetCheckEvaluation(
                    asset_key=dg.AssetKey(["seller", name]),
                    check_name="rows",
                    passed=key not in self.checks and key not in failed,
                    partition=key,
                    severity=self.severity,
                    description=str(failed.get(key) or self.checks.get(key)),
                    metadata={"examples": self.examples} if key in self.checks else {},
                    target_materialization_data=None
                    if key in failed
                    else judged(context.instance, dg.AssetKey(["seller", name]), key),
                )
            yield dg.Output(None, output_name=f"seller__{name}_rows")
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
        opened.tick("check_failures")
        yield opened


def away(path: str = "/sales/orders") -> UpstreamUnavailableError:
    return UpstreamUnavailableError(f"GET {path}", "no answer (ConnectError)", attempts=6)


def test_a_mart_that_waits_for_an_input_is_left_to_the_report_of_the_input(shop: Shop) -> None:
    reason = str(UpstreamUnavailableError("GET /sales/orders", "no answer", attempts=6))
    shop.failures = {KEYS[0]: UpstreamUnavailableError("GET /sales/orders", "no answer", attempts=6)}
    shop.run("orders", KEYS[:1])
    shop.failures = {KEYS[0]: InputProblemError("failed", "seller/orders", KEYS[0], reason)}
    shop.run("profit", KEYS[:1])

    shop.tick("run_failures")

    (message,) = shop.receiver.texts
    assert "seller/orders" in message
    assert "seller/profit" not in message


def test_runs_and_checks_that_succeed_send_no_message(shop: Shop) -> None:
    shop.run("orders", KEYS)

    assert (shop.tick("run_failures"), shop.tick("check_failures")) == ("no cause is open", "no cause is open")
    assert shop.receiver.documents == []


def test_a_failed_run_is_reported_with_asset_reason_next_step_and_link(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.failures = {key: away() for key in KEYS[:12]}
    run_id = shop.run("orders", KEYS).run_id

    shop.tick("run_failures")

    (document,) = shop.receiver.documents
    lines = document["text"].splitlines()
    assert lines == [
        f"Run failed: seller/orders ({', '.join(KEYS[:3])} and 9 more)",
        str(away()),
        f"Run: https://dagster.example/runs/{run_id}",
    ]
    assert "try again" in lines[1]
    assert document["blocks"][0]["text"]["text"].startswith("*Run failed: seller/orders")
    assert document["text"] in [record.message for record in caplog.records if record.levelno == logging.ERROR]


def test_one_cause_in_many_assets_and_runs_is_one_message_until_resolved(shop: Shop) -> None:
    for name in ("orders", "transactions"):
        shop.failures = {key: away(f"/sales/{name}") for key in KEYS[:2]}
        shop.run(name, KEYS[:3])
    shop.tick("run_failures")
    for _ in range(2):
        shop.run("transactions", KEYS[:5])
        shop.tick("run_failures", later=timedelta(hours=5))

    (message,) = shop.receiver.texts
    assert message.startswith(f"Run failed: seller/orders ({KEYS[0]}, {KEYS[1]}); seller/transactions ({KEYS[0]}, ")

    shop.failures = {}
    shop.run("orders", KEYS[:2])
    shop.run("transactions", KEYS[:1])
    assert shop.tick("run_failures") == "1 cause is open"
    shop.run("transactions", KEYS[1:2])
    assert shop.tick("run_failures") == "no cause is open"
    assert shop.receiver.texts[1:] == [f"Resolved: seller/orders, seller/transactions\nIt was: {away()}"]

    shop.failures = {KEYS[0]: away()}
    shop.run("orders", KEYS[:1])
    shop.tick("run_failures")
    assert len(shop.receiver.documents) == 3


def test_a_cause_of_many_partitions_is_resolved_once_when_none_is_failed(shop: Shop) -> None:
    shop.failures = {key: away() for key in KEYS[:14]}
    shop.run("orders", KEYS)
    shop.tick("run_failures")

    shop.failures = {KEYS[12]: away(), KEYS[13]: ListChangedError("orders", attempts=3, last="page 4")}
    shop.run("orders", KEYS[:12])
    assert shop.tick("run_failures") == "1 cause is open"
    shop.run("orders", KEYS[12:])
    assert shop.tick("run_failures") == "2 causes are open"
    assert len(shop.receiver.texts) == 2

    del shop.failures[KEYS[12]]
    shop.run("orders", KEYS[12:13])
    assert shop.tick("run_failures") == "2 causes are open"
    shop.failures = {}
    shop.run("orders", KEYS[13:14])
    shop.tick("run_failures")
    shop.tick("run_failures")

    assert sorted(text.splitlines()[0] for text in shop.receiver.texts[2:]) == ["Resolved: seller/orders"] * 2


def test_a_crashed_run_is_resolved_when_its_partitions_are_materialized(shop: Shop) -> None:
    shop.crashes = True
    shop.run("orders", KEYS[:2])
    shop.tick("run_failures")
    assert shop.receiver.texts[0].startswith(f"Run failed: seller/orders ({KEYS[0]}, {KEYS[1]})\nValueError: no")

    shop.crashes = False
    shop.run("orders", KEYS[:1])
    assert shop.tick("run_failures") == "1 cause is open"
    shop.run("orders", KEYS[1:2])
    assert shop.tick("run_failures") == "no cause is open"


def test_a_check_that_failed_is_resolved_when_it_passes_everywhere(shop: Shop) -> None:
    shop.checks = dict.fromkeys(KEYS[:14], "The keys are not unique.")
    shop.run("orders", KEYS)
    shop.tick("check_failures")
    shop.checks = {KEYS[13]: "The keys are not unique."}
    shop.run("orders", KEYS[:13])

    assert shop.tick("check_failures") == "1 cause is open"
    shop.checks = {}
    shop.run("orders", KEYS[13:14])
    assert shop.tick("check_failures") == "no cause is open"
    assert [text.splitlines()[0] for text in shop.receiver.texts[1:]] == ["Resolved: seller/orders, rows"]


def test_an_alert_names_accounts_examples_and_the_run(shop: Shop, database: Database) -> None:
    connection = KnownConnection("default", "https://api.example", "https://api.example", "client")
    save_connection(database, connection)
    account = Account(7, "Möbel Söhne", "DE", "EUR", "Europe/Berlin", "MARKET", "SELLER00")
    save_accounts(database, "default", [(KEYS[0], account)])
    shop.checks = {KEYS[0]: "12 of 340 rows (3.5 %) contradict this: No two rows have the same key."}
    shop.examples = [{"sku": f"SKU {number}", "units": "2"} for number in range(5)]
    run_id = shop.run("orders", KEYS[:2]).run_id

    shop.tick("check_failures")

    assert shop.receiver.texts[0].splitlines() == [
        f"Check failed: seller/orders, rows ({KEYS[0]})",
        "12 of 340 rows (3.5 %) contradict this: No two rows have the same key.",
        f"Accounts: {KEYS[0]} is Möbel Söhne, DE, EUR",
        "Examples: sku SKU 0, units 2; sku SKU 1, units 2; sku SKU 2, units 2",
        f"Run: https://dagster.example/runs/{run_id}",
    ]


def test_an_alert_without_a_run_leads_to_the_checks(shop: Shop) -> None:
    shop.judge_connections(ReauthorizationRequiredError("default", "it was revoked"))

    shop.tick("check_failures")

    assert (
        shop.receiver.texts[0].splitlines()[-1] == "Checks: https://dagster.example/assets/seller/accounts?view=checks"
    )


def test_a_clock_that_was_ahead_delays_no_failure_and_no_message(shop: Shop) -> None:
    shop.failures = {KEYS[0]: away()}
    shop.run("orders", KEYS[:1])
    shop.receiver.answers = [500]

    shop.tick("run_failures")
    shop.tick("run_failures", later=timedelta(days=-2))
    changed = ListChangedError(f"orders of {KEYS[0]}", attempts=3, last="page 4")
    shop.failures = {KEYS[0]: changed}
    shop.run("orders", KEYS[:1])
    shop.tick("run_failures", later=timedelta(days=-2))

    assert [text.splitlines()[1] for text in shop.receiver.texts] == [str(away()), str(changed)]


def test_different_causes_are_different_messages(shop: Shop) -> None:
    shop.failures = {
        KEYS[0]: away(),
        KEYS[1]: ReauthorizationRequiredError("default", "it was revoked"),
        KEYS[2]: ListChangedError(f"orders of {KEYS[2]}", attempts=3, last="page 4"),
        KEYS[3]: ListChangedError(f"orders of {KEYS[3]}", attempts=3, last="page 17"),
    }
    shop.run("orders", KEYS)

    shop.tick("run_failures", later=timedelta(minutes=4))

    assert len(shop.receiver.documents) == 3
    assert any("Run `seller-platform connect`" in text for text in shop.receiver.texts)
    assert any(f"({KEYS[2]}, {KEYS[3]})" in text for text in shop.receiver.texts)


def test_many_causes_at_once_are_summed_up_in_the_last_message(shop: Shop) -> None:
    causes = [f"the {chr(ord('a') + number)}-field is missing. Tell the upstream" for number in range(14)]
    shop.failures = {key: SellerPlatformError(cause) for key, cause in zip(KEYS, causes, strict=False)}
    shop.run("orders", KEYS)

    assert shop.tick("run_failures") == "14 causes are open"
    assert len(shop.receiver.documents) == 11
    assert shop.receiver.texts[-1].startswith("4 more causes, the first: Run failed: seller/orders (SELLER10.MARKET)")


def test_a_run_is_reported_only_when_dagster_gives_up_starting_it_again(shop: Shop) -> None:
    shop.failures = {KEYS[0]: away()}
    made_good = shop.run("orders", KEYS, {"dagster/will_retry": "true"}).run_id
    given_up = shop.run("orders", KEYS, {"dagster/will_retry": "true"}).run_id

    assert shop.tick("run_failures") == "no cause is open"
    shop.instance.add_run_tags(made_good, {"dagster/auto_retry_run_id": "another"})
    assert shop.tick("run_failures") == "no cause is open"
    shop.instance.add_run_tags(given_up, {"dagster/will_retry": "false"})
    assert shop.tick("run_failures") == "1 cause is open"
    (message,) = shop.receiver.texts
    assert message.endswith(given_up)


def test_a_bug_is_reported_with_where_its_traceback_is_and_without_secrets(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_API_CLIENT_SECRET", "canary-client-secret")

    @dg.asset(key=["seller", "broken"])
    def broken() -> None:
        raise ValueError("postgresql://me:canary-password@db/x said canary-client-secret, Bearer canary-token")

    dg.materialize([broken], instance=shop.instance, raise_on_error=False)
    shop.tick("run_failures")

    (message,) = shop.receiver.texts
    assert message.startswith("Run failed: seller/broken\nValueError: postgresql://***@db/x said ***, Bearer ***")
    assert "Open the run in the Dagster UI" in message
    assert "canary" not in json.dumps(shop.receiver.documents) + json.dumps(shop.cursors)


def test_a_job_that_failed_is_resolved_by_a_later_success(shop: Shop) -> None:
    broken = [True]

    @dg.op
    def request() -> None:
        if broken:
            raise ValueError("no")

    @dg.job
    def request_reports() -> None:
        request()

    request_reports.execute_in_process(instance=shop.instance, raise_on_error=False)
    shop.tick("run_failures")
    broken.clear()
    request_reports.execute_in_process(instance=shop.instance)
    shop.tick("run_failures")

    assert [text.splitlines()[0] for text in shop.receiver.texts] == [
        "Run failed: job request_reports",
        "Resolved: job request_reports",
    ]


def test_a_job_that_failed_with_facts_is_reported_by_its_reason(shop: Shop) -> None:
    @dg.op
    def write() -> None:
        raise dg.Failure(
            "SKU A was refused", metadata={"plan": 7, "proof": "plan 7", EXIT_CODE: 4}, allow_retries=False
        )

    @dg.job
    def write_costs() -> None:
        write()

    write_costs.execute_in_process(instance=shop.instance, raise_on_error=False)
    shop.tick("run_failures")

    assert [text.splitlines()[:2] for text in shop.receiver.texts] == [
        ["Run failed: job write_costs", "SKU A was refused"]
    ]


def test_a_failed_check_is_reported_once_until_it_passes(shop: Shop) -> None:
    shop.checks = {KEYS[0]: "mismatch: 12 rows were stored, the list announced 13. Read the month again."}
    for rows in (12, 14):
        shop.checks = {KEYS[0]: f"mismatch: {rows} rows were stored, the list announced 13. Read the month again."}
        shop.run("orders", KEYS)
        shop.tick("check_failures")
    (message,) = shop.receiver.texts
    assert message.startswith(f"Check failed: seller/orders, rows ({KEYS[0]})\nmismatch: 12 rows were stored")

    shop.checks = {}
    shop.run("orders", KEYS[1:])
    assert shop.tick("check_failures") == "1 cause is open"
    shop.run("orders", KEYS[:1])
    assert shop.tick("check_failures") == "no cause is open"
    assert shop.receiver.texts[1].startswith("Resolved: seller/orders, rows\n")


def test_the_message_of_a_failed_warning_says_warning(shop: Shop) -> None:
    shop.severity = dg.AssetCheckSeverity.WARN
    shop.checks = {KEYS[0]: "The upstream sent fields that are not declared: colour."}
    shop.run("orders", KEYS)
    shop.tick("check_failures")
    shop.checks = {KEYS[0]: "The upstream sent fields that are not declared: colour, size."}
    shop.run("orders", KEYS)
    shop.tick("check_failures")

    assert [text.splitlines()[0] for text in shop.receiver.texts] == [
        f"Warning: check failed: seller/orders, rows ({KEYS[0]})"
    ] * 2


def test_a_slice_that_could_not_be_stored_is_reported_by_its_run_alone(shop: Shop) -> None:
    shop.failures = {KEYS[0]: ListChangedError("orders", attempts=3, last="page 4")}
    shop.run("orders", KEYS)

    assert (shop.tick("check_failures"), shop.tick("run_failures")) == ("no cause is open", "1 cause is open")


@pytest.mark.parametrize("first", ["run_failures", "check_failures"])
def test_a_refused_grant_is_reported_by_the_check_of_the_connections_alone(shop: Shop, first: str) -> None:
    refused = ReauthorizationRequiredError("default", "it was revoked")
    shop.failures = {KEYS[0]: refused, KEYS[1]: away()}
    shop.run("orders", KEYS[:3])
    shop.tick(first)
    shop.judge_connections(refused)
    for sensor in ("run_failures", "check_failures") * 2:
        shop.tick(sensor, later=timedelta(minutes=2))

    assert sorted(text.splitlines()[0] for text in shop.receiver.texts) == [
        "Check failed: seller/accounts, connection_authorized",
        f"Run failed: seller/orders ({KEYS[1]})",
    ]
    assert sum(str(refused) in text for text in shop.receiver.texts) == 1

    shop.judge_connections()
    shop.tick("check_failures")
    assert shop.receiver.texts[-1].startswith("Resolved: seller/accounts, connection_authorized\n")


def test_a_refused_grant_that_no_check_names_is_reported_by_its_run(shop: Shop) -> None:
    shop.judge_connections(ReauthorizationRequiredError("another", "it was revoked"))
    shop.failures = {KEYS[0]: ReauthorizationRequiredError("default", "it was revoked")}
    shop.run("orders", KEYS[:1])

    assert shop.tick("run_failures") == "no cause is open"
    assert shop.tick("run_failures", later=timedelta(minutes=4)) == "1 cause is open"


def test_a_webhook_that_is_away_delays_a_message_and_loses_none(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.failures = {KEYS[0]: away()}
    shop.run("orders", KEYS)
    shop.receiver.answers = [404, 404]

    summary = shop.tick("run_failures")
    assert summary is not None
    assert summary.startswith("1 cause is open; 1 message waits for the webhook: the webhook at 127.0.0.1 took no")
    shop.tick("run_failures", later=timedelta(seconds=5))
    assert shop.receiver.refused == 1
    shop.tick("run_failures", later=timedelta(seconds=30))
    assert shop.receiver.refused == 2
    shop.tick("run_failures", later=timedelta(minutes=2))

    assert len(shop.receiver.documents) == 1
    assert "canary-secret" not in caplog.text + json.dumps(shop.cursors)


def test_without_a_webhook_failures_are_logged(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("SELLER_PLATFORM_ALERT_WEBHOOK_URL")
    shop.failures = {KEYS[0]: away()}
    shop.run("orders", KEYS)

    assert shop.tick("run_failures") == "1 cause is open"
    assert any(str(away()) in record.message for record in caplog.records if record.levelno == logging.ERROR)
    assert shop.receiver.documents == []


def test_failures_before_the_first_tick_or_a_broken_cursor_are_no_alerts(shop: Shop) -> None:
    shop.failures = {KEYS[0]: away()}
    shop.run("orders", KEYS)

    for cursor in (None, "not ours"):
        shop.cursors["run_failures"] = cursor
        assert shop.tick("run_failures") == "no cause is open"


def test_a_month_that_a_real_run_could_not_load_is_reported_and_resolved(
    shop: Shop, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.instance, transactions, honest = (
        shop.instance,
        dataset_named("transactions"),
        independent_upstream.transaction_rows,
    )
    platform.discover()
    broken = {**honest(independent_upstream.MONTHS[1])[0], "posted_date": "2020-01-01T00:00:00"}
    monkeypatch.setattr(
        independent_upstream,
        "transaction_rows",
        lambda month: [broken] if month == independent_upstream.MONTHS[1] else honest(month),
    )
    platform.months(transactions)
    shop.tick("run_failures")
    shop.tick("check_failures")
    monkeypatch.setattr(independent_upstream, "transaction_rows", honest)
    platform.months(transactions)
    shop.tick("run_failures")

    february = [f"{key}|2026-02-01" for key in sorted(independent_upstream.KEYS.values())]
    message, resolved = shop.receiver.texts
    assert message.startswith(f"Run failed: seller/transactions ({', '.join(february)})\n")
    assert "report it to the upstream" in message
    assert resolved.startswith("Resolved: seller/transactions\n")
