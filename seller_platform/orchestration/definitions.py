"""The definitions that Dagster loads."""

import dagster as dg

from seller_platform.commands import use_start
from seller_platform.logs import write_json_logs
from seller_platform.orchestration.automation.lost_retries import lost_retry_definitions
from seller_platform.orchestration.automation.schedules import PRUNE, delete_old
from seller_platform.orchestration.component import EXECUTOR, SellerPlatformComponent
from seller_platform.orchestration.instance.run_launcher import fork_run_workers
from seller_platform.settings import Settings, read_settings


def definitions_for(settings: Settings) -> dg.Definitions:
    """Return all definitions of the code location with these settings."""
    component = SellerPlatformComponent()
    return dg.Definitions.merge(
        # What is deleted is not of the component: runs and events of another project are not ours.
        component.definitions(settings, daily=[delete_old]),
        lost_retry_definitions(),
        dg.Definitions(jobs=[PRUNE], executor=EXECUTOR),
    )


_SETTINGS = read_settings()
use_start(_SETTINGS.home)
fork_run_workers()
if _SETTINGS.log_format == "json":
    write_json_logs()

defs = definitions_for(_SETTINGS)
