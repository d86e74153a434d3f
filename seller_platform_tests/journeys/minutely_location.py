"""A code location of a shop that mounts our component: its refresh is due every minute, and reads orders alone."""

import dagster as dg

from seller_platform import SellerPlatformComponent
from seller_platform.orchestration.component import EXECUTOR
from seller_platform.orchestration.instance.run_launcher import fork_run_workers
from seller_platform.orchestration.placement import Schedules

fork_run_workers()  # a run takes a second, not three

_SCHEDULES = Schedules.model_validate({"refresh": {"cron": "* * * * *", "datasets": ["orders"]}})


@dg.definitions
def location() -> dg.Definitions:
    """Return the definitions."""
    component = SellerPlatformComponent(datasets=["orders", "transactions", "report_rows"], schedules=_SCHEDULES)
    return dg.Definitions.merge(component.definitions(), dg.Definitions(executor=EXECUTOR))
