"""The assets with an upstream on a socket, a PostgreSQL database and a Dagster instance."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract import LISTS, Dataset, Window
from seller_platform.ingest.connections.upstream import Upstream
from seller_platform.orchestration.assets.accounts import accounts_asset
from seller_platform.orchestration.assets.checks import checks_of
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.partitions import asset_key, partition_key
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.installation import Site
from seller_platform_tests.support.postgres import Databases

HISTORY_START = date(2026, 1, 1)
MONTHS = [Window.month_of(month) for month in independent_upstream.MONTHS]
KEYS = sorted(independent_upstream.KEYS.values())
ROW_COUNT = "row_count_matches_total"
_WAITS = text(
    "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE "
    "datname = current_database())"
)


@dataclass
class Platform:
    """Everything that a run needs, and the results of runs."""

    upstream: independent_upstream.IndependentUpstream
    database: Database
    instance: dg.DagsterInstance
    resources: dict[str, Any]
    assets: dict[str, dg.AssetsDefinition] = field(default_factory=dict)

    def discover(self) -> dg.ExecuteInProcessResult:
        return dg.materialize([self.assets["accounts"]], instance=self.instance, resources=self.resources)

    def run(self, datasets: list[Dataset], first: str, last: str, **tags: str) -> dg.ExecuteInProcessResult:
        return dg.materialize(
            [self.assets[dataset.name] for dataset in datasets],
            instance=self.instance,
            resources=self.resources,
            raise_on_error=False,
            tags={"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last, **tags},
        )

    def months(self, dataset: Dataset, *, first: Window = MONTHS[0], last: Window = MONTHS[-1]) -> Any:
        return self.run([dataset], partition_key(KEYS[0], first), partition_key(KEYS[-1], last))

    def materialized(self, dataset: Dataset) -> set[str]:
        return self.instance.get_materialized_partitions(asset_key(dataset))

    def is_waiting_for_a_lock(self) -> bool:
        """Return whether a process waits for a lock of the database."""
        return bool(self.database.execute(_WAITS).scalar_one())


def failure_of(result: dg.ExecuteInProcessResult | dg.JobExecutionResult, step: str = "") -> tuple[str, dict[str, Any]]:
    """Return the sentence of the only step that failed, or of a named one, and its metadata."""
    (failure,) = (
        event.step_failure_data.user_failure_data
        for event in result.all_events
        if event.is_step_failure and step in ("", event.step_key)
    )
    assert failure is not None
    return failure.description or "", {name: value.value for name, value in failure.metadata.items()}


def reported_partitions(result: dg.ExecuteInProcessResult) -> set[str | None]:
    """Return the partitions of which a run reported a materialization."""
    return {event.partition for event in result.all_events if event.is_step_materialization}


def newest_checks(
    instance: dg.DagsterInstance, source: Dataset | Mart, placement: Placement = WHOLE
) -> dict[str, dg.AssetCheckEvaluation]:
    """Return the newest evaluation of each check of a dataset or a mart, by name."""
    checks = [dg.AssetCheckKey(placement.asset_key(source), each.name) for each in checks_of(source)]
    newest = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    return {key.name: record.evaluation for key, record in newest.items() if record.evaluation is not None}


def resources_of(database_url: str, application: Upstream) -> dict[str, Any]:
    """Return the resources of assets over a warehouse whose connection is to this upstream."""
    warehouse = WarehouseResource(database_url=database_url)
    seller_api = SellerApiResource(
        warehouse=warehouse,
        base_url=application.base_url,
        client_id=application.client_id,
        client_secret=application.client_secret,
        redirect_uri=application.redirect_uri,
    )
    return {"warehouse": warehouse, "seller_api": seller_api}


@contextmanager
def open_platform(
    database: Database, database_url: str, home: Path, instance: dg.DagsterInstance | None = None
) -> Iterator[Platform]:
    """Connect an independent upstream, and yield everything that its runs need.

    Args:
        instance: By default one in memory.
    """
    with (
        independent_upstream.open_independent_upstream("http://127.0.0.1:1/cb") as upstream,
        nullcontext(instance) if instance else dg.DagsterInstance.ephemeral() as opened,
    ):
        resources = resources_of(database_url, upstream.application)
        Site(database.url, home, upstream.application).connect(upstream.issue())
        assets = {dataset.name: asset_for(dataset, HISTORY_START) for dataset in LISTS}
        built = Platform(upstream, database, opened, resources, {**assets, "accounts": accounts_asset()})
        yield built


@contextmanager
def lent_platform(
    databases: Databases,
    home: Path,
    variables: Mapping[str, str] = MappingProxyType({}),
    instance_of: Callable[[str, Path], AbstractContextManager[dg.DagsterInstance]] | None = None,
) -> Iterator[Platform]:
    """Open a platform over a lent database, for the tests of a module.

    Args:
        variables: Further variables of the environment, beside those of its home and its database.
        instance_of: Opens its instance in that database and the home; by default it is in memory.
    """
    with (
        pytest.MonkeyPatch.context() as patch,
        databases.lent() as database,
        instance_of(database.url, home) if instance_of else nullcontext() as instance,
    ):
        named = {"SELLER_PLATFORM_HOME": str(home), "SELLER_PLATFORM_DATABASE_URL": database.url, **variables}
        for variable, value in named.items():
            patch.setenv(variable, value)
        with open_platform(database, database.url, home, instance) as platform:
            yield platform
