"""Tests discovery over several connections, accounts that go and return, and the check."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
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
from seller_platform.warehouse.connections.secrets import SecretBox, secret_box
from seller_platform.warehouse.loads.receipts import doubt_of, open_holds
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.platform import failure_of
from seller_platform_tests.support.processes import free_port
from seller_platform_tests.support.ticks import tick

ORDERS = dataset_named("orders")
GERMAN, AUSTRALIAN = independent_upstream.ACCOUNTS
OF_ANA, OF_BEN = "at-41.ana", "au-42.ben"
BOTH = sorted([OF_ANA, OF_BEN])
KEY = asset_key(ACCOUNT_DATASET)


@dataclass
class Installation:
    """Two users of two upstreams, a warehouse and a Dagster instance."""

    upstreams: dict[str, independent_upstream.IndependentUpstream]
    database: Database
    box: SecretBox
    home: Path
    instance: dg.DagsterInstance
    defs: dg.Definitions
    resources: dict[str, Any]

    def connect(self, name: str) -> None:
        settings, tokens = self.upstreams[name].application, self.upstreams[name].issue()
        pair = TokenPair(tokens["access_token"], tokens["refresh_token"], datetime.now(UTC), int(tokens["expires_in"]))
        open_keeper(settings, name, self.database, self.box, self.home).adopt(
            pair, register=lambda: store_upstream(settings, name, self.database, self.box)
        )

    def revoke(self, name: str) -> None:
        self.upstreams[name].access.clear()
        self.upstreams[name].refresh.clear()

    def tick(self, *, minutes: float = 0) -> dg.ExecuteInProcessResult | None:
        """Evaluate the sensor some minutes later, and return the run that it requests, if any."""
        later = "UPDATE platform.slices SET read_at = read_at - :ago, failed_at = failed_at - :ago"
        self.execute(later, ago=timedelta(minutes=minutes))
        requests = tick(self.defs, "discover_accounts", self.instance, resources=self.resources).run_requests or []
        ran = [self._run(ACCOUNT_DATASET, **each.tags) for each in requests]
        return ran[0] if ran else None

    def discover(self) -> dg.ExecuteInProcessResult:
        return self._run(ACCOUNT_DATASET)

    def run_january(self) -> dg.ExecuteInProcessResult:
        """Load the orders of January of both accounts."""
        first, last = (dg.MultiPartitionKey({"account": key, "month": "2026-01-01"}) for key in BOTH)
        ends = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        return self._run(ORDERS, **ends)

    def evaluations(self, check: str = "connection_authorized") -> list[dg.AssetCheckEvaluation]:
        """Return the evaluations of a check, the newest first."""
        asked = dg.AssetCheckKey(KEY, check)
        history = self.instance.event_log_storage.get_asset_check_execution_history(asked, limit=100)
        return [record.evaluation for record in history if record.evaluation is not None]

    def partitions(self) -> list[str]:
        return sorted(self.instance.get_dynamic_partitions("accounts"))

    def keys(self) -> list[str]:
        return [account.key for account in accounts(self.database)]

    def execute(self, statement: str, **values: object) -> list[Any]:
        """Execute a statement, and return its rows, if any."""
        with self.database.begin() as connection:
            result = connection.execute(text(statement), values)
            return [tuple(row) for row in result] if result.returns_rows else []

    def _run(self, dataset: Dataset, **tags: str) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance, asset_selection=[asset_key(dataset)], tags=tags, raise_on_error=False
        )


@pytest.fixture
def installed(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    warehouse = WarehouseResource(database_url=database.url)
    resources = {"warehouse": warehouse, "seller_api": SellerApiResource(warehouse=warehouse)}
    with ExitStack() as stack, dg.DagsterInstance.ephemeral() as instance:
        upstreams = {}
        for name, account in {"ana": GERMAN, "ben": AUSTRALIAN}.items():
            callback = f"http://127.0.0.1:{free_port()}/back"
            upstreams[name] = stack.enter_context(independent_upstream.open_independent_upstream(callback))
            upstreams[name].accounts = [account]
        defs = dg.Definitions.merge(
            discovery_definitions(),
            dg.Definitions(
                assets=[asset_for(ORDERS, date(2026, 1, 1))], resources=resources, executor=dg.in_process_executor
            ),
        )
        box = secret_box(tmp_path, None)
        installation = Installation(upstreams, database, box, tmp_path, instance, defs, resources)
        for name in upstreams:
            installation.connect(name)
        yield installation


def test_each_connection_uses_its_own_upstream_in_runs_and_in_the_sensor(installed: Installation) -> None:
    installed.tick()
    of_sensor = installed.instance.fetch_materializations(KEY, limit=10).records
    counted, authorized = installed.evaluations(ROW_COUNT_CHECK), installed.evaluations()
    runs = [installed.discover().success, installed.run_january().success]

    assert installed.partitions() == BOTH
    assert (len(of_sensor), runs) == (2, [True, True])
    assert [each.passed for each in (*counted, *authorized, installed.evaluations()[0])] == [True] * 3
    assert all(each.target_materialization_data is not None for each in counted)
    newest = of_sensor[0].asset_materialization
    assert newest is not None
    assert newest.metadata["dagster/row_count"].value == 2, "the rows of both connections"
    stored = installed.execute("SELECT connection, account FROM seller.accounts ORDER BY 1")
    assert stored == [("ana", OF_ANA), ("ben", OF_BEN)]
    assert {key: account_of(installed.database, key).connection for key in BOTH} == {OF_ANA: "ana", OF_BEN: "ben"}
    upstreams = {
        record.partition_key: record.asset_materialization.metadata["upstream"].value
        for record in installed.instance.fetch_materializations(asset_key(ORDERS), limit=10).records
        if record.asset_materialization is not None
    }
    assert upstreams == {
        f"{key}|2026-01-01": f"{installed.upstreams[name].url}/api" for key, name in ((OF_ANA, "ana"), (OF_BEN, "ben"))
    }


def test_a_revoked_connection_is_named_once_and_the_other_still_loads(installed: Installation) -> None:
    tokens = [*installed.upstreams["ana"].access, *installed.upstreams["ana"].refresh]
    installed.tick()
    installed.revoke("ben")

    loads = installed.run_january().success
    installed.tick(minutes=1)
    installed.tick(minutes=1)
    after_ticks = installed.evaluations()
    installed.connect("ben")
    installed.tick(minutes=1)
    connected = installed.evaluations()[0].passed
    installed.revoke("ben")
    discovered = installed.discover().success

    assert (loads, connected, discovered) == (False, True, False)
    assert [each.passed for each in after_ticks] == [False, True], "reported once"
    evaluation = installed.evaluations()[0]
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "invalid_grant" in str(evaluation.description)
    assert "`seller-platform connect --connection ben`" in str(evaluation.description)
    assert "ana" not in str(evaluation.description)
    assert installed.instance.get_materialized_partitions(asset_key(ORDERS)) == {f"{OF_ANA}|2026-01-01"}
    assert installed.keys() == BOTH
    kept = str(installed.evaluations())
    assert not any(secret in kept for secret in (independent_upstream.CLIENT_SECRET, *tokens))

    installed.connect("ben")
    assert installed.discover().success
    assert installed.evaluations()[0].passed


@pytest.mark.parametrize(("per_day", "minutes"), [(None, 59), ("96", 599)])
def test_the_sensor_asks_seldom_where_a_day_has_few_requests(
    installed: Installation, monkeypatch: pytest.MonkeyPatch, per_day: str | None, minutes: int
) -> None:
    if per_day is not None:
        monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", per_day)

    installed.tick()
    clock_put_right = installed.tick(minutes=-60 * 24 * 400)
    installed.instance.delete_dynamic_partition("accounts", OF_ANA)  # as one that a command has discovered
    between, added = installed.tick(minutes=minutes), installed.partitions()
    after = installed.tick(minutes=1)

    assert [ran and len(ran.get_asset_materialization_events()) for ran in (clock_put_right, between, after)] == [
        2,
        None,
        2,
    ]
    assert added == BOTH


def test_a_missing_account_is_retired_until_it_returns_and_none_are_held(installed: Installation) -> None:
    installed.tick()
    installed.upstreams["ben"].accounts = [AUSTRALIAN, GERMAN]
    installed.tick(minutes=60)
    installed.run_january()

    installed.upstreams["ben"].accounts = [GERMAN]
    installed.tick(minutes=60)
    while_gone = installed.keys()
    kept = installed.execute("SELECT count(*) FROM seller.orders WHERE account = :account", account=OF_BEN)
    installed.upstreams["ben"].accounts = [AUSTRALIAN, GERMAN]
    installed.tick(minutes=60)
    back = installed.keys()
    installed.upstreams["ana"].accounts = []
    installed.tick(minutes=60)
    (held,) = open_holds(installed.database)
    while_held = installed.keys()
    installed.upstreams["ana"].accounts = [GERMAN]
    installed.instance.delete_dynamic_partition("accounts", OF_BEN)  # another process has discovered it
    installed.tick(minutes=60)

    orders = independent_upstream.order_rows("A.2|FOREIGN", "platform", independent_upstream.MONTHS[0])
    assert (while_gone, kept) == ([OF_ANA], [(len(orders) * 2,)])
    assert doubt_of(held).reason == "none of 1 stored rows was read (in all 1 of 1 row)"
    assert back == while_held == installed.keys() == installed.partitions() == BOTH
    assert open_holds(installed.database) == ()


def test_a_connection_that_is_away_keeps_the_other_out_of_nothing(installed: Installation) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    installed.execute("UPDATE platform.connections SET base_url = :url WHERE name = 'ana'", url=url)

    ran = installed.tick()

    assert ran is not None
    assert (ran.success, installed.partitions(), installed.keys()) == (True, [OF_BEN], [OF_BEN])
    assert installed.evaluations()[0].passed


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
    assert installed.keys() == BOTH


def test_a_connection_with_a_wrong_secret_fails_the_check_until_repaired(installed: Installation) -> None:
    installed.tick()
    application, secret = installed.upstreams["ben"].application, "a-secret-of-before"
    store_upstream(replace(application, client_secret=secret), "ben", installed.database, installed.box)
    installed.upstreams["ben"].access.clear()
    installed.tick(minutes=60)
    of_sensor, discovered, of_run = installed.evaluations()[0], installed.discover().success, installed.evaluations()[0]
    store_upstream(application, "ben", installed.database, installed.box)
    installed.tick(minutes=6)

    assert not discovered
    for each in (of_sensor, of_run):
        assert (each.passed, "invalid_client" in str(each.description)) == (False, True)
        assert secret not in str(each.description)
    assert installed.evaluations()[0].passed


def test_without_a_connection_discovery_names_the_command(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    warehouse = WarehouseResource(database_url=database_url)
    resources = {"warehouse": warehouse, "seller_api": SellerApiResource(warehouse=warehouse)}
    (sensor,) = discovery_definitions().sensors or ()

    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize([accounts_asset()], instance=instance, resources=resources, raise_on_error=False)

    assert isinstance(sensor, dg.SensorDefinition)
    assert (sensor.default_status, sensor.minimum_interval_seconds) == (dg.DefaultSensorStatus.RUNNING, 60)
    assert "Run `seller-platform connect`" in failure_of(result)[1]["default"]
