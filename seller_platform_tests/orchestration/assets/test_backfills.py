"""Tests backfills of all assets together: lists, reports, costs, marts and exports."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from seller_platform.contract import Window
from seller_platform.orchestration.partitions import partition_key
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.backfills import Backfill, Backfills, backfills
from seller_platform_tests.support.platform import Platform, open_platform
from seller_platform_tests.support.postgres import Databases

pytestmark = [
    pytest.mark.slow,
    # Dagster reads a deprecated property of its own schedules, and executes a run within its daemon's event loop.
    pytest.mark.filterwarnings("ignore:Property .ScheduleDefinition.environment_vars"),
    pytest.mark.filterwarnings("ignore:coroutine .BaseEventLoop.shutdown_asyncgens. was never awaited"),
]

THIS_MONTH = Window.month_of(datetime.now(UTC).date())
LAST_MONTH = Window.month_of(THIS_MONTH.start - timedelta(days=1))
KEYS = sorted(independent_upstream.KEYS.values())
MONTHS = {str(partition_key(key, month)) for key in KEYS for month in (LAST_MONTH, THIS_MONTH)}


@dataclass
class Desk:
    """An installation whose assets are all in one code location."""

    platform: Platform
    backfills: Backfills

    @property
    def instance(self) -> dg.DagsterInstance:
        return self.backfills.instance

    def partitions(self) -> dict[str, list[str | None]]:
        """Return the partitions of each asset, sorted; a single None for an asset without partitions."""
        graph = self.backfills.workspace.create_request_context().asset_graph
        return {
            key.to_user_string(): sorted(definition.get_partition_keys(dynamic_partitions_store=self.instance))
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


@pytest.fixture(scope="module")
def desk(postgres: EmbeddedServer, databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    home, name = tmp_path_factory.mktemp("desk"), databases.lend()
    url = postgres.url(name)
    with pytest.MonkeyPatch.context() as variables, Database(url) as database:
        variables.setenv("SELLER_PLATFORM_HOME", str(home))
        variables.setenv("SELLER_PLATFORM_DATABASE_URL", url)
        variables.setenv("SELLER_PLATFORM_HISTORY_START", LAST_MONTH.start.isoformat())
        variables.setenv("SELLER_PLATFORM_EXPORT_DIR", str(home / "lake"))
        variables.setenv("SELLER_API_CLIENT_ID", independent_upstream.CLIENT_ID)
        variables.setenv("SELLER_API_CLIENT_SECRET", independent_upstream.CLIENT_SECRET)
        with backfills(url, home) as launched, open_platform(database, url, home, launched.instance) as platform:
            platform.upstream.issue_lasting_tokens()
            platform.discover()
            yield Desk(platform, launched)
    databases.take_back(name)


def test_a_backfill_of_everything_succeeds_and_reports_each_partition_once(desk: Desk) -> None:
    desk.platform.upstream.missing = ("/sales/statistics-dashboard",)

    result = desk.backfills.run()

    assert result == Backfill("COMPLETED_SUCCESS", {})
    assert desk.materialized() == {**desk.partitions(), "seller/accounts": [None, None]}  # it was discovered before
