"""Finds products of accounts by SKU, ASIN or the ASIN of their parent.

The products of the sandbox are in a table of the service; those of a replica are the ones that its rows name.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from seller_platform.errors import NotFoundError, UnknownToReplicaError
from seller_platform.service.access import SelectedAccounts
from seller_platform.service.http.parameters import Parameter, Query, shown, text_parameter
from seller_platform.service.pool import Connection

SKU = text_parameter("sku", "Seller SKU of a product.")
ASIN = text_parameter("asin", "Product identifier on the marketplace: every SKU that offers it.")
PARENT_ASIN = text_parameter("parent_asin", "The listing of which products are variants: every SKU of them.")
PRODUCT: tuple[Parameter[str], ...] = (SKU, ASIN, PARENT_ASIN)


@dataclass(frozen=True)
class ProductSelector:
    """The parameter that names one product or several, and its value."""

    parameter: str
    value: str


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
"""

_BY_PARENT_ASIN = """
SELECT account, sku FROM service.products WHERE account = ANY(%(accounts)s) AND parent_asin = %(value)s
"""

_WITHOUT_PRODUCTS = """
SELECT key FROM unnest(%(accounts)s::text[]) AS key
WHERE NOT EXISTS (SELECT FROM service.products WHERE account = key)
"""

_STATEMENTS = {SKU.name: _BY_SKU, ASIN.name: _BY_ASIN, PARENT_ASIN.name: _BY_PARENT_ASIN}


def read_product(query: Query) -> ProductSelector:
    """Return the products that a request names; problems are added to the query."""
    sent = [parameter for parameter in PRODUCT if query.has(parameter)]
    values = [query.value(parameter) for parameter in sent]
    if len(sent) != 1:
        names = ", ".join(parameter.name for parameter in sent) or "none of them"
        query.refuse("product", f"must be named by exactly one of sku, asin, parent_asin; {names} was sent")
    return ProductSelector(sent[0].name if sent else SKU.name, (values[0] if values else None) or "")


async def find_skus(
    connection: Connection, selected: SelectedAccounts, product: ProductSelector
) -> Mapping[str, list[str]]:
    """Return the SKUs of the named products by account, without accounts that have none.

    Raises:
        NotFoundError: None of the accounts has such a product.
        UnknownToReplicaError: An account is a replica, of which the parents of products are not stored.
    """
    values = {"accounts": selected.keys, "value": product.value}
    skus: dict[str, list[str]] = {}
    for account, sku in await (await connection.execute(_STATEMENTS[product.parameter], values)).fetchall():
        skus.setdefault(account, []).append(sku)
    if skus:
        return skus
    if product.parameter == PARENT_ASIN.name:
        unknown = await (await connection.execute(_WITHOUT_PRODUCTS, values)).fetchall()
        if unknown:
            problem = "is not known here: the rows come from another service, which does not list parents of products"
            raise UnknownToReplicaError(PARENT_ASIN.name, problem)
    raise NotFoundError(f"there is no product with {product.parameter} {shown(product.value)} in the accounts selected")
