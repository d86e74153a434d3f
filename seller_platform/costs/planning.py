"""Makes cost plans: compares target costs with the upstream's, and stores the difference."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from seller_platform.contract.cost_periods import periods_agree
from seller_platform.costs.endpoints import Apis, CostUpstream
from seller_platform.costs.plans import CostPlan, PlannedCosts, invalid_cost_plan, save_plan
from seller_platform.costs.sheets import Product, ProductCosts
from seller_platform.errors import RequestError, first_few
from seller_platform.warehouse.postgres.database import Database


@dataclass(frozen=True)
class Planned:
    """The result of planning.

    Attributes:
        plan: None where the upstream has the target costs already.
        unchanged: Products that have the target costs already.
        unknown: Products that the upstream does not know; writing them may be refused.
    """

    plan: CostPlan | None
    unchanged: tuple[Product, ...]
    unknown: tuple[Product, ...]


def make_plan(
    apis: Apis, database: Database, costs: ProductCosts, *, source: str, made_by: str, undo_of: int | None = None
) -> Planned:
    """Compare target costs with the upstream's, and store the difference as a plan.

    Nothing is written upstream.

    Raises:
        RequestError: The plan would delete a period that the API cannot write back.
        UnknownAccountError: An account is not known.
        SellerPlatformError: A product's costs could not be read.
    """
    now, upstream = datetime.now(UTC), CostUpstream(apis, database)
    current = upstream.read(costs)
    writes, unchanged, open_periods = [], [], []
    for (account, sku), periods in costs.items():
        before = current[account, sku].periods
        if periods_agree(before, periods):
            unchanged.append((account, sku))
        elif any(period.to_date is None for period in before):
            open_periods.append(f"{sku!r} of {account}")
        else:
            writes.append(PlannedCosts(account, sku, before, periods))
    if open_periods:
        raise RequestError(
            f"the upstream has a cost period without a last day for SKU {first_few(open_periods)}, which could not be "
            "put back if writing failed",
            code="OpenCostPeriodError",
            step="Give the period a last day where it was made, then run `seller-platform costs plan SHEET` again.",
        )
    unknown = tuple(product for product in costs if not current[product].is_known)
    plan = None
    if writes:
        plan = save_plan(database, writes, uid=uuid4(), made_at=now, made_by=made_by, source=source, undo_of=undo_of)
    return Planned(plan, tuple(unchanged), unknown)


def plan_undo(apis: Apis, database: Database, plan: CostPlan, *, made_by: str) -> Planned:
    """Make the plan that restores the costs that products had before a plan.

    Raises:
        RequestError: Nothing of the plan was written.
    """
    written = [write for write in plan.writes if write.written_at is not None]
    if not written:
        raise invalid_cost_plan(str(plan.id), "nothing of it was written, so there is nothing to undo")
    costs = {write.product: write.before for write in written}
    return make_plan(apis, database, costs, source=f"undo of plan {plan.id}", made_by=made_by, undo_of=plan.id)
