"""The products of an account."""

from sqlalchemy import func, select, union

from seller_platform.contract import LOCAL_DAY
from seller_platform.contract.datasets.inventory import INVENTORY
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import table_for


def skus_of_account(database: Database, account: str) -> list[str]:
    """Return the SKUs of the account's newest inventory and of its daily sales, in order."""
    stock, sales = table_for(INVENTORY), table_for(DAILY_PRODUCT_SALES)
    newest = select(func.max(stock.c[LOCAL_DAY])).where(stock.c.account == account).scalar_subquery()
    stocked = select(stock.c.sku).where(stock.c.account == account, stock.c[LOCAL_DAY] == newest)
    sold = select(sales.c.sku).where(sales.c.account == account)
    # A row without its key is of no product.
    return sorted(filter(None, database.execute(union(stocked, sold)).scalars()))
