"""The job that writes the costs of a plan."""

import dagster as dg
from pydantic import Field

from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.costs.applying import WAIT_SECONDS, Patience, apply_plan
from seller_platform.costs.plans import WriteState
from seller_platform.orchestration.failures import CheckedConfig, ForeseenError, foreseen
from seller_platform.orchestration.mounting import Contribution, Mounted
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource

_LARGEST_PLAN = 2**63 - 1


class WriteCosts(CheckedConfig):
    """The plan to write."""

    plan: int = Field(ge=1, le=_LARGEST_PLAN, description="The id of the plan, which the command `costs plan` prints.")
    wait_seconds: float = Field(
        default=WAIT_SECONDS,
        ge=0,
        le=3_600,
        description="How many seconds to wait until the upstream has the written costs, at most an hour.",
    )


def definitions(component: Mounted) -> Contribution:
    """Return the job of a component that reads costs."""
    if COST_PERIODS not in component.datasets:
        return Contribution()
    return Contribution(dg.Definitions(jobs=[cost_job(component.placement)]))


def cost_job(placement: Placement = WHOLE) -> dg.JobDefinition:
    """Return the job; it needs the resources `warehouse` and `seller_api`."""

    @placement.job(
        "write_costs", "write", "Writes the costs of a reviewed plan, and reads them back until the upstream has them."
    )
    def write(
        context: dg.OpExecutionContext, config: WriteCosts, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> None:
        with foreseen(placement):
            written = {"by": "dagster", "run_id": context.run.run_id}
            patience = Patience(config.wait_seconds)
            applied = apply_plan(seller_api.api, warehouse.database, config.plan, **written, patience=patience)
        writes = applied.plan.writes
        metadata: dict[str, int | str] = {
            "plan": applied.plan.id,
            "skus": len(writes),
            "holding": sum(each.state is WriteState.HOLDS for each in writes),
            "proof": f"platform.cost_writes, plan {applied.plan.id}",
        }
        if applied.problem is not None:
            raise ForeseenError(str(applied.problem), metadata, placement)
        context.add_output_metadata(metadata)

    return write
