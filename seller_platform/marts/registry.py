"""Every mart of this folder, each declared in a module of its own."""

from seller_platform.marts.account_profit_daily import ACCOUNT_PROFIT_DAILY
from seller_platform.marts.cost_coverage import COST_COVERAGE
from seller_platform.marts.inventory_health import INVENTORY_HEALTH
from seller_platform.marts.product_performance_monthly import PRODUCT_PERFORMANCE_MONTHLY
from seller_platform.marts.profit_bridge_monthly import PROFIT_BRIDGE_MONTHLY, bridge_of
from seller_platform.marts.restock_plan import RESTOCK_PLAN
from seller_platform.marts.rules.formulas import STANDARD, read_formula
from seller_platform.marts.settings import MartsSettings
from seller_platform.marts.settlement_reconciliation import SETTLEMENT_RECONCILIATION
from seller_platform.settings import Settings
from seller_platform.warehouse.derived.declaration import Mart


def declared(settings: Settings | None) -> tuple[Mart, ...]:
    """Return the marts, with the formula of profit that the settings name a file of.

    Raises:
        SettingsError: The file cannot be used.
    """
    formula = settings and settings.of(MartsSettings).profit_formula
    return (
        ACCOUNT_PROFIT_DAILY,
        bridge_of(STANDARD, read_formula(formula)) if formula else PROFIT_BRIDGE_MONTHLY,
        PRODUCT_PERFORMANCE_MONTHLY,
        INVENTORY_HEALTH,
        RESTOCK_PLAN,
        SETTLEMENT_RECONCILIATION,
        COST_COVERAGE,
    )
