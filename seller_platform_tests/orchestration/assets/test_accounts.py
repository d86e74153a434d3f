"""Tests discovery over several connections, accounts that go and return, and the check."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract import Dataset, dataset_named
from seller_platform.contract.datasets.user import ACCOUNTS as ACCOUNT_DATASET
from seller_platform.contract.tokens import TokenPair
from seller_platform.ingest.connections.upstream import open_keeper, store_upstream
from seller_platform.orchestration.assets.accounts import accounts_asset, discovery_definitions
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.assets.events import ROW_COUNT_CHECK
from seller_platform.orchestration.partitions import asset_key
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.warehouse.connections.accounts import account_of, accounts
from seller_platform.warehouse.connections.secrets import SecretBox, key_file, new_key, secret_box, write_keys
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.slices import doubt_of
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.processes import environment, free_port
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

ORDERS = dataset_named("orders")
GERMAN, AUSTRALIAN = independent_upstream.ACCOUNTS
OF_ANA, OF_BEN = independent_upstream.KEYS["A1FOREIGN"], independent_upstream.KEYS["A.2|FOREIGN"]
KEY = asset_key(ACCOUNT_DATASET)


@dataclass
class Installation:
    """Two users of two upstreams, a warehouse, a Dagster instance, and a clock."""

    upstreams: dict[str, independent_upstream.IndependentUpstream]
    database: Database
    box: SecretBox
    home: Path
    instance: dg.DagsterInstance
    defs: dg.Definitions
    resources: dict[str, Any]
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    cursor: str | None = None

    def connect(self, name: str) -> None:
        upstream = self.upstreams[name]
        settings = upstream.application
        tokens = upstream.issue()
        pair = TokenPair(tokens["access_token"], tokens["refresh_token"], self.now, int(tokens["expires_in"]))
        open_keeper(settings, name, self.database, self.box, self.home).adopt(
            pair, register=lambda: store_upstream(settings, name, self.database, self.box)
        )

    def revoke(self, name: str) -> None:
        self.upstreams[name].access.clear()
        self.upstreams[name].refresh.clear()

    def tick(self, *, minutes: float = 0) -> dg.SensorResult:
        """Evaluate the sensor some minutes later, and add the partitions that it requests."""
        self.now += timedelta(minutes=minutes)
        sensor = self.defs.resolve_sensor_def("discover_accounts")
        with dg.build_sensor_context(
            instance=self.instance, resources=self.resources, cursor=self.cursor, definitions=self.defs
        ) as context:
            result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        for request in result.dynamic_partitions_requests or ():
            assert isinstance(request, dg.AddDynamicPartitionsRequest)
            self.instance.add_dynamic_partitions(request.partitions_def_name, request.partition_keys)
        return result

    def discover(self) -> dg.ExecuteInProcessResult:
        return self.run(ACCOUNT_DATASET)

    def run(self, dataset: Dataset, **tags: str) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance, asset_selection=[asset_key(dataset)], tags=tags, raise_on_error=False
        )

    def run_january(self, dataset: Dataset) -> dg.ExecuteInProcessResult:
        keys = sorted([OF_ANA, OF_BEN])
        first, last = (dg.MultiPartitionKey({"account": key, "month": "2026-01-01"}) for key in keys)
        return self.run(
            dataset, **{"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        )

    def evaluations(self, check: str = "connection_authorized") -> list[dg.AssetCheckEvaluation]:
        """Return the evaluations of a check, the newest first."""
        history = self.instance.event_log_storage.get_asset_check_execution_history(
            dg.AssetCheckKey(KEY, check), limit=100
        )
        return [record.evaluation for record in history if record.evaluation is not None]

    def partitions(self) -> list[str]:
        return sorted(self.instance.get_dynamic_partitions("accounts"))

    def keys(self) -> list[str]:
        return [account.key for account in accounts(self.database)]


@contextmanager
def _serving(
    stack: ExitStack, listed: dict[str, list[dict[str, Any]]]
) -> Iterator[dict[str, independent_upstream.IndependentUpstream]]:
    upstreams = {}
    for name, rows in listed.items():
        upstreams[name] = stack.enter_context(
            independent_upstream.open_independent_upstream(f"http://127.0.0.1:{free_port()}/back")
        )
        upstreams[name].accounts = rows
    yield upstreams


@pytest.fixture
def installed(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    for name in ("BASE_URL", "AUTH_URL", "CLIENT_ID", "CLIENT_SECRET", "REDIRECT_URI"):
        monkeypatch.delenv(f"SELLER_API_{name}", raising=False)
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    monkeypatch.setenv("SELLER_PLATFORM_SECOND_READING_SECONDS", "0")
    monkeypatch.delenv("SELLER_PLATFORM_SECRET_KEY", raising=False)
    warehouse = WarehouseResource(database_url=database.url)
    resources = {"warehouse": warehouse, "seller_api": SellerApiResource(warehouse=warehouse)}
    with (
        ExitStack() as stack,
        _serving(stack, {"ana": [GERMAN], "ben": [AUSTRALIAN]}) as upstreams,
        dg.DagsterInstance.ephemeral() as instance,
    ):
        defs = dg.Definitions.merge(
            discovery_definitions(clock=lambda: installation.now, tick_seconds=PATIENCE_SECONDS),
            dg.Definitions(
                assets=[asset_for(ORDERS, date(2026, 1, 1))], resources=resources, executor=dg.in_process_executor
            ),
        )
        box = secret_box(tmp_path, None)
        installation = Installation(upstreams, database, box, tmp_path, instance, defs, resources)
        for name in upstreams:
            installation.connect(name)
        yield installation


def test_each_connection_uses_its_own_upstream_without_settings(
    installed: Installation,
) -> None:
    result = installed.discover()

    assert result.success
    assert installed.partitions() == sorted([OF_ANA, OF_BEN])
    assert {key: account_of(installed.database, key).connection for key in (OF_ANA, OF_BEN)} == {
        OF_ANA: "ana",
        OF_BEN: "ben",
    }
    assert installed.run_january(ORDERS).success
    upstreams = {
        record.partition_key: record.asset_materialization.metadata["upstream"].value
        for record in installed.instance.fetch_materializations(asset_key(ORDERS), limit=10).records
        if record.asset_materialization is not None
    }
    assert upstreams == {
        f"{OF_ANA}|2026-01-01": f"{installed.upstreams['ana'].url}/api",
        f"{OF_BEN}|2026-01-01": f"{installed.upstreams['ben'].url}/api",
    }
    assert installed.evaluations()[0].passed


def accounts_with_a_grant(database: Database) -> list[str]:
    """Return the keys of listed accounts whose connection has a valid grant."""
    statement = """
        SELECT accounts.key FROM platform.accounts JOIN platform.grants USING (connection)
        WHERE accounts.retired_at IS NULL AND grants.refused IS NULL ORDER BY accounts.key
    """
    with database.begin() as connection:
        return list(connection.execute(text(statement)).scalars())


def test_a_revoked_connection_is_named_and_the_other_still_loads(installed: Installation) -> None:
    installed.discover()
    installed.revoke("ben")

    discovered, loaded = installed.discover(), installed.run_january(ORDERS)

    assert not discovered.success
    evaluation = installed.evaluations()[0]
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert evaluation.description is not None
    assert "invalid_grant" in evaluation.description
    assert "`seller-platform connect --connection ben`" in evaluation.description
    assert "ana" not in evaluation.description
    assert not loaded.success
    materialized = installed.instance.get_materialized_partitions(asset_key(ORDERS))
    assert materialized == {f"{OF_ANA}|2026-01-01"}
    assert accounts_with_a_grant(installed.database) == [OF_ANA]
    assert installed.keys() == sorted([OF_ANA, OF_BEN])

    installed.connect("ben")

    assert installed.discover().success
    assert installed.evaluations()[0].passed
    assert accounts_with_a_grant(installed.database) == sorted([OF_ANA, OF_BEN])


def test_a_connection_whose_key_is_gone_fails_the_check_until_it_is_back(installed: Installation) -> None:
    key = key_file(installed.home)
    former = key.read_text()

    write_keys(key, [new_key()])
    installed.tick()
    of_sensor = installed.evaluations()[0]
    discovered = installed.discover()
    of_run = installed.evaluations()[0]
    write_keys(key, [former])
    installed.tick(minutes=6)

    assert not discovered.success
    for each in (of_sensor, of_run):
        assert not each.passed
        assert "SELLER_PLATFORM_SECRET_KEY" in (each.description or "")
    assert installed.evaluations()[0].passed


def test_the_sensor_discovers_without_a_run_and_stores_the_same_events(installed: Installation) -> None:
    result = installed.tick()

    assert installed.partitions() == sorted([OF_ANA, OF_BEN])
    assert not result.run_requests
    assert len(installed.instance.fetch_materializations(KEY, limit=10).records) == 2
    counted = installed.evaluations(ROW_COUNT_CHECK)
    assert [each.passed for each in counted] == [True]
    assert all(each.target_materialization_data is not None for each in counted)
    assert [each.passed for each in installed.evaluations()] == [True]
    with installed.database.begin() as connection:
        stored = connection.execute(text("SELECT connection, account FROM seller.accounts ORDER BY 1")).all()
    assert [tuple(row) for row in stored] == [("ana", OF_ANA), ("ben", OF_BEN)]


@pytest.mark.parametrize("odd", ["ana", "ben"])
def test_a_failed_check_of_one_connection_is_not_hidden_by_the_other(installed: Installation, odd: str) -> None:
    (usual,) = {"ana", "ben"} - {odd}
    account = installed.upstreams[odd].accounts[0]
    installed.upstreams[odd].accounts = [
        {**account, "favourite_colour": "blue"},
        {**account, "id": 99, "seller_id": "X"},
    ]

    installed.tick()
    installed.connect(usual)
    installed.tick(minutes=61)

    evaluation, *_ = installed.evaluations("fields_are_known")
    assert not evaluation.passed
    assert evaluation.description is not None
    assert f"It is {odd}: " in evaluation.description
    assert "favourite_colour" in evaluation.description
    for record in installed.instance.fetch_materializations(KEY, limit=2).records:
        assert record.asset_materialization is not None
        assert record.asset_materialization.metadata["dagster/row_count"].value == 3


@pytest.mark.parametrize(("per_day", "minutes"), [(None, 59), ("96", 599)])
def test_the_sensor_asks_seldom_where_a_day_has_few_requests(
    installed: Installation, monkeypatch: pytest.MonkeyPatch, per_day: str | None, minutes: int
) -> None:
    if per_day is not None:
        monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", per_day)
    installed.tick()

    between = installed.tick(minutes=minutes)
    after = installed.tick(minutes=1)

    assert "0 of 2 connections were asked" in str(between.skip_reason)
    assert "2 of 2 connections were asked" in str(after.skip_reason)


def test_a_connection_put_off_by_a_clock_ahead_is_asked_at_the_right_time(
    installed: Installation,
) -> None:
    installed.tick(minutes=60 * 24 * 400)

    right = installed.tick(minutes=-60 * 24 * 400)
    next_tick = installed.tick(minutes=1)

    assert "2 of 2 connections were asked" in str(right.skip_reason)
    assert "0 of 2 connections were asked" in str(next_tick.skip_reason)


def test_a_missing_account_is_retired_and_returns_with_its_rows(installed: Installation) -> None:
    installed.upstreams["ben"].accounts = [AUSTRALIAN, GERMAN]
    installed.tick()
    installed.run_january(ORDERS)
    rows = "SELECT count(*) FROM seller.orders WHERE account = :account"

    installed.upstreams["ben"].accounts = [GERMAN]
    installed.tick(minutes=60)
    while_gone = installed.keys()
    with installed.database.begin() as connection:
        kept = connection.execute(text(rows), {"account": OF_BEN}).scalar_one()
    installed.upstreams["ben"].accounts = [AUSTRALIAN, GERMAN]
    installed.tick(minutes=60)

    assert while_gone == [OF_ANA]
    assert kept == len(independent_upstream.order_rows("A.2|FOREIGN", "platform", independent_upstream.MONTHS[0])) * 2
    assert installed.keys() == sorted([OF_ANA, OF_BEN])
    assert installed.partitions() == sorted([OF_ANA, OF_BEN])


def test_a_list_that_loses_all_accounts_is_held_and_retires_none(installed: Installation) -> None:
    installed.tick()

    installed.upstreams["ben"].accounts = []
    installed.tick(minutes=60)
    (held,) = open_holds(installed.database)
    installed.upstreams["ben"].accounts = [AUSTRALIAN]
    installed.tick(minutes=60)

    assert doubt_of(held).reason == "no row was read; 1 are stored"
    assert installed.keys() == sorted([OF_ANA, OF_BEN])
    assert open_holds(installed.database) == ()


def test_a_new_account_gets_its_partition_whichever_process_found_it(installed: Installation) -> None:
    installed.upstreams["ana"].accounts = []
    installed.tick()
    before = installed.partitions()

    installed.upstreams["ana"].accounts = [GERMAN]
    with installed.database.begin() as connection:
        connection.execute(
            text("UPDATE platform.accounts SET key = 'found.elsewhere' WHERE key = :key"), {"key": OF_BEN}
        )
    installed.tick(minutes=1)

    assert before == [OF_BEN]
    assert installed.partitions() == sorted([OF_BEN, "found.elsewhere"])


@pytest.mark.slow
def test_a_hanging_connection_does_not_delay_the_other(installed: Installation) -> None:
    patience = discovery_definitions(clock=lambda: installed.now, tick_seconds=10)
    installed.defs = dg.Definitions.merge(patience, dg.Definitions(resources=installed.resources))
    with installed.upstreams["ana"].lock:  # the token endpoint waits for this lock
        installed.upstreams["ana"].access.clear()

        result = installed.tick()

    assert "1 of 2 connections were asked, 1 gave no answer" in str(result.skip_reason)
    assert installed.partitions() == [OF_BEN]
    for thread in threading.enumerate():
        if thread.name.startswith("discover"):
            thread.join(PATIENCE_SECONDS)  # it ends after the upstream's answer
    assert installed.keys() == sorted([OF_ANA, OF_BEN])


def test_an_upstream_that_is_away_does_not_fail_the_check(installed: Installation) -> None:
    installed.tick()
    with installed.database.begin() as connection:
        statement = text("UPDATE platform.connections SET base_url = :url WHERE name = 'ben'")
        connection.execute(statement, {"url": f"http://127.0.0.1:{free_port()}"})

    result = installed.tick(minutes=60)

    assert "1 gave no answer" in str(result.skip_reason)
    assert installed.evaluations()[0].passed
    assert installed.keys() == sorted([OF_ANA, OF_BEN])


def test_a_grant_refused_between_discoveries_is_reported_once_in_a_tick(
    installed: Installation,
) -> None:
    installed.tick()
    installed.revoke("ben")
    installed.run_january(ORDERS)

    installed.tick(minutes=1)
    installed.tick(minutes=1)

    evaluations = installed.evaluations()
    assert [each.passed for each in evaluations] == [False, True]
    assert "connect --connection ben" in str(evaluations[0].description)

    installed.connect("ben")
    installed.tick(minutes=1)

    assert installed.evaluations()[0].passed


def test_an_unknown_application_is_named_until_it_is_fixed(installed: Installation) -> None:
    installed.tick()
    upstream = installed.upstreams["ben"]
    wrong = replace(upstream.application, client_secret="a-secret-of-before")
    store_upstream(wrong, "ben", installed.database, installed.box)
    upstream.access.clear()

    installed.tick(minutes=60)
    asked = installed.evaluations()[0]
    installed.tick(minutes=1)
    after_a_minute = installed.evaluations()[0]
    store_upstream(upstream.application, "ben", installed.database, installed.box)
    installed.tick(minutes=5)

    assert not asked.passed
    assert "invalid_client" in str(asked.description)
    assert "a-secret-of-before" not in str(asked.description)
    assert not after_a_minute.passed
    assert installed.evaluations()[0].passed


def test_a_grant_that_was_not_used_for_weeks_is_warned_of(installed: Installation) -> None:
    with installed.database.begin() as connection:
        connection.execute(
            text("UPDATE platform.grants SET issued_at = now() - interval '26 days' WHERE connection = 'ben'")
        )
        statement = text("UPDATE platform.connections SET base_url = :url WHERE name = 'ben'")
        connection.execute(statement, {"url": f"http://127.0.0.1:{free_port()}"})

    installed.tick()

    evaluation = installed.evaluations()[0]
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "connect --connection ben" in str(evaluation.description)


def test_an_account_of_two_connections_stays_with_the_one_that_reads_it(installed: Installation) -> None:
    installed.tick()

    installed.upstreams["ben"].accounts = [GERMAN, AUSTRALIAN]
    installed.tick(minutes=60)
    while_both = account_of(installed.database, OF_ANA).connection
    installed.revoke("ana")
    installed.tick(minutes=60)
    installed.tick(minutes=60)
    after_revocation = account_of(installed.database, OF_ANA).connection

    assert while_both == "ana"
    assert after_revocation == "ben"
    assert installed.keys() == sorted([OF_ANA, OF_BEN])


def test_one_connection_that_is_slowed_down_does_not_slow_down_the_other(installed: Installation) -> None:
    installed.discover()
    installed.upstreams["ben"].too_many = 1

    allowed = {}
    with dg.build_resources({"warehouse": installed.resources["warehouse"]}) as opened:
        apis = SellerApiResource(warehouse=opened.warehouse)
        for name, seller in {"ana": "A1FOREIGN", "ben": "A.2|FOREIGN"}.items():
            with apis.api(name) as api:
                api.get("/warehouse/list", {"seller_id": seller, "per_page": "20"})
                allowed[name] = (api.budget.allowed, api.budget.limit)

    assert allowed == {"ana": (8, 8), "ben": (4, 8)}


def test_no_secret_is_in_the_cursor_or_in_an_evaluation(installed: Installation) -> None:
    installed.tick()
    installed.revoke("ben")
    installed.tick(minutes=60)

    stored = str(installed.cursor) + str(installed.evaluations())

    assert independent_upstream.CLIENT_SECRET not in stored
    tokens = [*installed.upstreams["ana"].access, *installed.upstreams["ana"].refresh]
    assert not any(token in stored for token in tokens)


def test_the_code_location_loads_with_no_setting_of_an_upstream(database_url: str, tmp_path: Path) -> None:
    program = (
        "import dagster as dg\n"
        "from seller_platform.orchestration.definitions import defs\n"
        "dg.Definitions.validate_loadable(defs)\n"
        "sensor = defs.resolve_sensor_def('discover_accounts')\n"
        "print(sensor.default_status.value, sensor.minimum_interval_seconds)\n"
    )

    loaded = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=database_url),
        capture_output=True,
        text=True,
        check=False,
    )

    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.split() == ["RUNNING", "60"]


def test_without_a_connection_discovery_fails_and_names_the_next_step(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    warehouse = WarehouseResource(database_url=database_url)
    resources = {"warehouse": warehouse, "seller_api": SellerApiResource(warehouse=warehouse)}

    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [accounts_asset(ACCOUNT_DATASET)], instance=instance, resources=resources, raise_on_error=False
        )

    (failure,) = (event.step_failure_data.user_failure_data for event in result.all_events if event.is_step_failure)
    assert failure is not None
    assert "run `seller-platform connect`" in str(failure.metadata["default"].value)
