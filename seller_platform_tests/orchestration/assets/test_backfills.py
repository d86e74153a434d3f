"""Tests backfills of all assets together (lists, reports, costs, marts, exports), and what is requested after them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster_graphql.test.utils import execute_dagster_graphql

from seller_platform.contract import Window, dataset_named
from seller_platform.orchestration.assets.exports import export_key
from seller_platform.orchestration.partitions import asset_key, partition_key
from seller_platform.settings import read_settings
from seller_platform.warehouse.marts import mart_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.orchestration.assets.backfills import Backfill, Backfills, backfills
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.platform import Platform, open_platform
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.ticks import Ticks

pytestmark = [
    # The set-up materializes every partition of every asset; `journeys/test_ui.py` does so in the UI.
    pytest.mark.nightly,
    # Dagster reads a deprecated property of its own schedules, and executes a run within its daemon's event loop.
    pytest.mark.filterwarnings("ignore:Property .ScheduleDefinition.environment_vars"),
    pytest.mark.filterwarnings("ignore:coroutine .BaseEventLoop.shutdown_asyncgens. was never awaited"),
]

THIS_MONTH = Window.month_of(datetime.now(UTC).date())
LAST_MONTH = Window.month_of(THIS_MONTH.start - timedelta(days=1))
KEYS = sorted(independent_upstream.KEYS.values())
PROFIT, TRANSACTIONS = mart_named("account_profit_daily"), dataset_named("transactions")
_STALE = """
query ($asset: AssetKeyInput!, $partition: String!) {
  assetNodeOrError(assetKey: $asset) {
    ... on AssetNode {
      staleStatus(partition: $partition)
      staleCauses(partition: $partition) { category reason }
    }
  }
}
"""


@dataclass
class Desk:
    """An installation whose assets are all in one code location.

    Attributes:
        first: The end of its first backfill, of everything.
        requested: What the sensors requested after it.
    """

    platform: Platform
    backfills: Backfills
    first: Backfill
    requested: dict[str, set[str]]
    ticks: Ticks

    @property
    def instance(self) -> dg.DagsterInstance:
        return self.backfills.instance

    def partitions(self) -> dict[str, list[str | None]]:
        """Return the partitions of each asset, sorted; a single None for an asset without partitions."""
        graph = self.backfills.workspace.create_request_context().asset_graph
        return {
            key.to_user_string(): [*sorted(definition.get_partition_keys(dynamic_partitions_store=self.instance))]
            if (definition := graph.get(key).partitions_def)
            else [None]
            for key in graph.executable_asset_keys
        }

    def materialized(self) -> dict[str, list[str | None]]:
        """Return the partition of each materialization of each asset, sorted."""
        graph = self.backfills.workspace.create_request_context().asset_graph
        return {
            key.to_user_string(): sorted(
                (record.partition_key for record in self.instance.fetch_materializations(key, limit=1_000).records),
                key=str,
            )
            for key in graph.executable_asset_keys
        }

    def tick(self) -> dict[str, set[str]]:
        """Return what the sensor of marts and exports requests."""
        return self.ticks.tick()

    def stale(self, partition: str) -> tuple[str, set[str]]:
        """Return what the UI says about a partition of a mart: whether it is stale, and why."""
        variables = {"asset": {"path": asset_key(PROFIT).path}, "partition": partition}
        answer = execute_dagster_graphql(self.backfills.workspace.create_request_context(), _STALE, variables).data
        node = answer["assetNodeOrError"]
        return node["staleStatus"], {cause["category"] for cause in node["staleCauses"]}

    def newest(self, key: dg.AssetKey, partition: str) -> dg.AssetMaterialization:
        """Return the newest materialization of a partition."""
        of = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition])
        event = self.instance.fetch_materializations(of, limit=1).records[0].asset_materialization
        assert event is not None
        return event


@pytest.fixture(scope="module")
def desk(postgres: EmbeddedServer, databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    home, name = tmp_path_factory.mktemp("desk"), databases.lend()
    url = postgres.url(name)
    from seller_platform.orchestration.definitions import definitions_for

    with pytest.MonkeyPatch.context() as variables, Database(url) as database:
        variables.setenv("SELLER_PLATFORM_HOME", str(home))
        variables.setenv("SELLER_PLATFORM_DATABASE_URL", url)
        variables.setenv("SELLER_PLATFORM_HISTORY_START", LAST_MONTH.start.isoformat())
        variables.setenv("SELLER_PLATFORM_EXPORT_DIR", str(home / "lake"))
        variables.setenv("SELLER_API_CLIENT_ID", independent_upstream.CLIENT_ID)
        variables.setenv("SELLER_API_CLIENT_SECRET", independent_upstream.CLIENT_SECRET)
        with backfills(url, home) as launched, open_platform(database, url, home, launched.instance) as platform:
            platform.upstream.issue_lasting_tokens()
            platform.upstream.missing = ("/sales/statistics-dashboard",)
            platform.discover()
            desk = Desk(
                platform,
                launched,
                Backfill("", {}),
                {},
                Ticks(definitions_for(read_settings()), launched.instance, url),
            )
            assert desk.tick() == {"export/accounts": {"all"}}  # only the accounts are stored
            desk.first = launched.run()
            desk.requested = desk.tick()
            yield desk
    databases.take_back(name)


def test_a_backfill_of_everything_succeeds_and_reports_each_partition_once(desk: Desk) -> None:
    assert desk.first == Backfill("COMPLETED_SUCCESS", {})
    assert desk.materialized() == {**desk.partitions(), "seller/accounts": [None, None]}  # it was discovered before


def test_a_backfill_that_built_marts_and_exports_is_followed_by_no_run(desk: Desk) -> None:
    assert desk.requested == {}


def test_a_partition_that_is_not_offered_says_so_and_has_no_file(desk: Desk, tmp_path: Path) -> None:
    dataset, partition = dataset_named("sales_by_date"), partition_key(KEYS[0], LAST_MONTH)

    stored, exported = (desk.newest(key(dataset), partition).metadata for key in (asset_key, export_key))

    sentence = "sales_by_date: the upstream does not offer /sales/statistics-dashboard"
    assert str(stored["not_offered"].value).startswith(sentence)
    assert str(exported["nothing_stored"].value).startswith(sentence)
    assert exported["rows"].value == 0


def test_a_partition_of_another_definition_is_stale(desk: Desk) -> None:
    partition, other = (str(partition_key(key, LAST_MONTH)) for key in KEYS)
    built = desk.newest(asset_key(PROFIT), partition)
    tags = {
        **(built.tags or {}),
        "dagster/code_version": "before",
        "dagster/data_version": f"{(built.tags or {})['dagster/data_version'].partition('.')[0]}.before",
    }
    desk.instance.report_runless_asset_event(
        dg.AssetMaterialization(asset_key(PROFIT), partition=built.partition, tags=tags)
    )
    assert (desk.stale(partition), desk.stale(other)) == (("STALE", {"CODE"}), ("FRESH", set()))
