"""The definitions that Dagster loads."""

import os
import warnings
from datetime import date

import dagster as dg

from seller_platform.commands import use_start
from seller_platform.contract import DATASETS, LISTS
from seller_platform.logs import write_json_logs
from seller_platform.orchestration.alerting.sensors import alert_definitions
from seller_platform.orchestration.assets.accounts import discovery_definitions
from seller_platform.orchestration.assets.cost_periods import cost_definitions
from seller_platform.orchestration.assets.datasets import asset_for, freshness_for
from seller_platform.orchestration.assets.exports import export_definitions
from seller_platform.orchestration.assets.marts import mart_definitions
from seller_platform.orchestration.assets.reports import report_definitions
from seller_platform.orchestration.automation.schedules import schedule_definitions
from seller_platform.orchestration.jobs.holds import accept_job
from seller_platform.orchestration.jobs.loading import loading_jobs
from seller_platform.orchestration.partitions import asset_key
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.settings import Settings, read_settings
from seller_platform.traces import send_traces
from seller_platform.warehouse.loads.history_start import history_start_of

_TAGS = {
    asset_key(dataset): {
        "seller_platform/slicing": dataset.slicing.name.lower(),
        "seller_platform/source": dataset.source.name.lower(),
    }
    for dataset in DATASETS
}
_FRESHNESS = {asset_key(dataset): freshness_for(dataset) for dataset in DATASETS}


def _optional(name: str) -> "dg.EnvVar | None":
    return dg.EnvVar(name) if os.environ.get(name) else None


def _resources() -> dg.Definitions:
    warehouse = WarehouseResource(database_url=_optional("SELLER_PLATFORM_DATABASE_URL"))
    return dg.Definitions(
        resources={
            "warehouse": warehouse,
            "seller_api": SellerApiResource(
                warehouse=warehouse,
                base_url=_optional("SELLER_API_BASE_URL"),
                auth_url=_optional("SELLER_API_AUTH_URL"),
                client_id=_optional("SELLER_API_CLIENT_ID"),
                client_secret=_optional("SELLER_API_CLIENT_SECRET"),
                redirect_uri=_optional("SELLER_API_REDIRECT_URI"),
            ),
        },
        executor=dg.in_process_executor,
    )


def definitions_for(settings: Settings) -> dg.Definitions:
    """Return all definitions of the code location with these settings."""

    def completed(spec: dg.AssetSpec) -> dg.AssetSpec:
        """Return an asset's spec with its owner, its tags and its freshness policy."""
        owned = spec.merge_attributes(owners=[settings.owner], tags=_TAGS.get(spec.key, {}))
        freshness = _FRESHNESS.get(spec.key)
        return owned if freshness is None else owned.replace_attributes(freshness_policy=freshness)

    def asset_job(history_start: date) -> dg.JobDefinition:
        """Return the job of all assets, with the partitions of a history that begins with a day."""
        changed = settings.model_copy(update={"history_start": history_start})
        return definitions_for(changed).resolve_implicit_global_asset_job_def()

    since = settings.history_start
    with warnings.catch_warnings():
        # Backfill policies are in beta and partitioned checks a preview; the tests of this package fail if they change.
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        parts = (
            dg.Definitions(assets=[asset_for(dataset, since) for dataset in LISTS]),
            discovery_definitions(),
            cost_definitions(),
            report_definitions(since),
            mart_definitions(since),
            export_definitions(since, settings.export_dir),
            schedule_definitions(since),
            dg.Definitions(jobs=[*loading_jobs(since, asset_job), accept_job()]),
            alert_definitions(),
            _resources(),
        )
        return dg.Definitions.merge(*parts).map_asset_specs(func=completed)


_SETTINGS = read_settings()
use_start(_SETTINGS.home)
_STORED = {"history_start": history_start_of(_SETTINGS)}
if _SETTINGS.log_format == "json":
    write_json_logs()
send_traces("seller-platform", os.environ)

defs = definitions_for(_SETTINGS.model_copy(update=_STORED))
