"""Finds products of accounts by SKU, ASIN or the ASIN of their parent.

The products of the sandbox are in a table of the service. Those of a replica are the ones that its rows name, and the
ones that its operator loaded.
"""

from collections.abc import Mapping

from seller_platform.service.access import SelectedAccounts
from seller_platform.service.errors import NotFoundError
from seller_platform.service.http.parameters import Parameter, SentParameter, Text, shown
from seller_platform.service.lists.replica import unknown_to_replica
from seller_platform.service.pool import Connection

SKU = Parameter[str]("sku", "Seller SKU of a product.", Text, example="MUG-BLUE-350")
ASIN = Parameter[str]("asin", "Product identifier on the marketplace: every SKU that offers it.", Text)
PARENT_ASIN = Parameter[str]("parent_asin", "The listing of which products are variants: every SKU of them.", Text)
PRODUCT: tuple[Parameter[str], ...] = (SKU, ASIN, PARENT_ASIN)

Skus = Mapping[str, list[str]]
"""SKUs of products by account."""

_BY_SKU = """
SELECT key, %(value)s
FROM unnest(%(accounts)s::text[]) AS key
WHERE EXISTS (SELECT FROM service.products WHERE account = key AND sku = %(value)s)
   OR EXISTS (SELECT FROM seller.inventory WHERE account = key AND sku = %(value)s)
   OR EXISTS (SELECT FROM seller.cost_periods WHERE account = key AND sku = %(value)s)
   OR EXISTS (SELECT FROM seller.daily_product_sales WHERE account = key AND sku = %(value)s)
"""

_BY_ASIN = """
SELECT account, sku FROM service.products WHERE account = ANY(%(accounts)s) AND asin = %(value)s
UNION
SELECT account, sku FROM seller.inventory WHERE account = ANY(%(accounts)s) AND asin = %(value)s
UNION
SELECT account, sku FROM seller.daily_product_sales WHERE account = ANY(%(accounts)s) AND asin = %(value)s
"""

# As in the statistics, a product without a parent stands for its own, and one without a row for its stock or sales.
_BY_PARENT_ASIN = """
SELECT account, sku FROM service.products
WHERE account = ANY(%(accounts)s) AND coalesce(parent_asin, asin) = %(value)s
UNION
SELECT account, sku
FROM (
    SELECT account, sku FROM seller.inventory WHERE account = ANY(%(accounts)s) AND asin = %(value)s
    UNION
    SELECT account, sku FROM seller.daily_product_sales WHERE account = ANY(%(accounts)s) AND asin = %(value)s
) AS stored
WHERE NOT EXISTS (
    SELECT FROM service.products AS product WHERE product.account = stored.account AND product.sku = stored.sku
)
"""

_WITHOUT_PRODUCTS = """
SELECT key FROM unnest(%(accounts)s::text[]) AS key
WHERE NOT EXISTS (SELECT FROM service.products WHERE account = key) LIMIT 1
"""

_STATEMENTS = {SKU.name: _BY_SKU, ASIN.name: _BY_ASIN, PARENT_ASIN.name: _BY_PARENT_ASIN}


async def find_skus(connection: Connection, selected: SelectedAccounts, product: SentParameter) -> Skus:
    """Return the SKUs of the named products by account, without accounts that have none.

    Raises:
        NotFoundError: None of the accounts has such a product.
        ApiError: An account is a replica, of which the parents of products are not stored.
    """
    values = {"accounts": selected.keys, "value": product.value}
    skus: dict[str, list[str]] = {}
    for account, sku in await (await connection.execute(_STATEMENTS[product.name], values)).fetchall():
        skus.setdefault(account, []).append(sku)
    needs_parents = product.name == PARENT_ASIN.name and not await knows_parents(connection, selected)
    if needs_parents and (selected.has_replicas or not skus):
        problem = (
            "is not known here: the rows come from another service, which does not list parents of products; the "
            "operator can load them with `seller-platform service products load FILE`"
        )
        raise unknown_to_replica(PARENT_ASIN.name, problem)
    if not skus:
        raise NotFoundError(f"there is no product with {product.name} {shown(product.value)} in the accounts selected")
    return skus


async def knows_parents(connection: Connection, selected: SelectedAccounts) -> bool:
    """Whether the parents of all selected accounts' products are stored; of a replica, an operator loads them."""
    unknown = await connection.execute(_WITHOUT_PRODUCTS, {"accounts": selected.keys})
    return await unknown.fetchone() is None
