"""Every mart, each declared in a module of its own."""

from pathlib import Path

from seller_platform.warehouse.marts.account_profit_daily import ACCOUNT_PROFIT_DAILY
from seller_platform.warehouse.marts.cost_coverage import COST_COVERAGE
from seller_platform.warehouse.marts.declaration import Mart
from seller_platform.warehouse.marts.inventory_health import INVENTORY_HEALTH
from seller_platform.warehouse.marts.journal_entries import JOURNAL_ENTRIES, journal_of
from seller_platform.warehouse.marts.product_performance_monthly import PRODUCT_PERFORMANCE_MONTHLY
from seller_platform.warehouse.marts.profit_bridge_monthly import PROFIT_BRIDGE_MONTHLY, bridge_of
from seller_platform.warehouse.marts.restock_plan import RESTOCK_PLAN
from seller_platform.warehouse.marts.rules.formulas import STANDARD, read_formula
from seller_platform.warehouse.marts.rules.journal_accounts import accounts_of
from seller_platform.warehouse.marts.settlement_reconciliation import SETTLEMENT_RECONCILIATION

MARTS: tuple[Mart, ...] = (
    ACCOUNT_PROFIT_DAILY,
    PROFIT_BRIDGE_MONTHLY,
    PRODUCT_PERFORMANCE_MONTHLY,
    INVENTORY_HEALTH,
    RESTOCK_PLAN,
    SETTLEMENT_RECONCILIATION,
    COST_COVERAGE,
    JOURNAL_ENTRIES,
)
"""Every mart, in the order in which they are listed."""


def marts_with(profit_formula: Path | None, journal_accounts: Path | None) -> tuple[Mart, ...]:
    """Return every mart, with the rules of one's own that the settings name files of.

    Raises:
        SettingsError: A file cannot be used.
    """
    own = {
        PROFIT_BRIDGE_MONTHLY.name: profit_formula and bridge_of(STANDARD, read_formula(profit_formula)),
        JOURNAL_ENTRIES.name: journal_accounts and journal_of(accounts_of(journal_accounts)),
    }
    return tuple(own.get(mart.name) or mart for mart in MARTS)
