"""Makes cost plans: compares target costs with the upstream's, and stores the difference."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from uuid import uuid4

from seller_platform.client.endpoints.cost_periods import LOOK_AHEAD
from seller_platform.client.http.api import SellerApi
from seller_platform.client.http.concurrency import in_threads
from seller_platform.contract.cost_periods import CostPeriod, Periods, periods_agree
from seller_platform.costs.endpoints import LookedUp, delete_periods, find_cost_periods, write_periods
from seller_platform.costs.plans import CostPlan, CostWrite, PlannedCosts, save_plan
from seller_platform.costs.sheets import Product, ProductCosts
from seller_platform.errors import RequestError, first_few, invalid_cost_plan
from seller_platform.warehouse.connections.accounts import account_of
from seller_platform.warehouse.postgres.database import Database

Apis = Callable[[str], SellerApi]
"""Returns the API of a connection."""


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
            step="Give the period a last day where it was made, then run `seller-platform costs plan` again.",
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


class CostUpstream:
    """Reads and writes the costs of products at the upstreams of their accounts."""

    def __init__(self, apis: Apis, database: Database) -> None:
        self._apis = apis
        self._account = cache(lambda key: account_of(database, key))

    def read(self, products: Iterable[Product]) -> dict[Product, LookedUp]:
        """Return the present costs of products."""
        asked = list(products)
        registered = {account: self._account(account) for account, _ in asked}
        apis = {each.connection: self._apis(each.connection) for each in registered.values()}

        def find(product: Product) -> LookedUp:
            account = registered[product[0]]
            return find_cost_periods(apis[account.connection], account.account, product[1])

        return dict(zip(asked, in_threads(find, asked, LOOK_AHEAD), strict=True))

    def read_one(self, write: CostWrite) -> Periods:
        """Return the present costs of a product."""
        return self.read([write.product])[write.product].periods

    def store(self, write: CostWrite, periods: Periods) -> None:
        """Store a product's periods upstream."""
        account = self._account(write.account)
        write_periods(self._apis(account.connection), account.account, write.sku, periods)

    def delete(self, write: CostWrite, period: CostPeriod | None = None) -> bool:
        """Delete one period of a product upstream, or all; return whether there was any."""
        account = self._account(write.account)
        return delete_periods(self._apis(account.connection), account.account, write.sku, period)
