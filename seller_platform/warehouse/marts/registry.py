"""Every mart, each declared in a module of its own."""

from seller_platform.warehouse.marts.account_profit_daily import ACCOUNT_PROFIT_DAILY
from seller_platform.warehouse.marts.cost_coverage import COST_COVERAGE
from seller_platform.warehouse.marts.declaration import Mart
from seller_platform.warehouse.marts.formulas import STANDARD, Formula
from seller_platform.warehouse.marts.inventory_health import INVENTORY_HEALTH
from seller_platform.warehouse.marts.product_performance_monthly import PRODUCT_PERFORMANCE_MONTHLY
from seller_platform.warehouse.marts.profit_bridge_monthly import PROFIT_BRIDGE_MONTHLY, bridge_of
from seller_platform.warehouse.marts.restock_plan import RESTOCK_PLAN
from seller_platform.warehouse.marts.settlement_reconciliation import SETTLEMENT_RECONCILIATION

MARTS: tuple[Mart, ...] = (
    ACCOUNT_PROFIT_DAILY,
    PROFIT_BRIDGE_MONTHLY,
    PRODUCT_PERFORMANCE_MONTHLY,
    INVENTORY_HEALTH,
    RESTOCK_PLAN,
    SETTLEMENT_RECONCILIATION,
    COST_COVERAGE,
)
"""Every mart, in the order in which they are listed."""


def marts_with(own: Formula | None) -> tuple[Mart, ...]:
    """Return every mart, with the lines of one's own formula beside the standard one."""
    if own is None:
        return MARTS
    return tuple(bridge_of(STANDARD, own) if mart is PROFIT_BRIDGE_MONTHLY else mart for mart in MARTS)


def mart_named(name: str) -> Mart:
    """Return the mart of that name.

    Raises:
        KeyError: There is none; the message lists those there are.
    """
    for mart in MARTS:
        if mart.name == name:
            return mart
    raise KeyError(f"there is no mart {name!r}; the marts are {', '.join(mart.name for mart in MARTS)}")
