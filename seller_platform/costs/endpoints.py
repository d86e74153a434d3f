"""The costs of products upstream: reads, writes and deletes them."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from uuid import uuid4

from seller_platform.client.decoding.pages import Row
from seller_platform.client.endpoints.cost_periods import LOOK_AHEAD, read_products
from seller_platform.client.http.api import SellerApi
from seller_platform.client.http.concurrency import in_threads
from seller_platform.client.lists.reader import naming
from seller_platform.client.lists.row_sink import KeptRows
from seller_platform.contract.cost_periods import (
    DATA,
    FROM_DATE,
    SKU,
    TO_DATE,
    CostElement,
    CostPeriod,
    Periods,
    in_order,
)
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.loads import UNKNOWN_PRODUCTS
from seller_platform.costs.sheets import Product
from seller_platform.errors import ContractViolationError, RequestRefusedError
from seller_platform.warehouse.connections.accounts import account_of
from seller_platform.warehouse.postgres.database import Database

Apis = Callable[[str], SellerApi]
"""Returns the API of a connection."""


@dataclass(frozen=True)
class LookedUp:
    """The answer about one product: its periods, and whether the upstream has the product."""

    periods: Periods
    is_known: bool


class CostUpstream:
    """Reads and writes the costs of products at the upstreams of their accounts.

    Each request raises what the client does: `ContractViolationError` where the API would not allow the answer,
    `UpstreamUnavailableError` without a good answer, after which a change may be stored all the same, and
    `RequestRefusedError` for good.
    """

    def __init__(self, apis: Apis, database: Database) -> None:
        self._apis = apis
        self._account = cache(lambda key: account_of(database, key))

    def read(self, products: Iterable[Product]) -> dict[Product, LookedUp]:
        """Return the present costs of products."""
        asked = list(products)
        registered = {account: self._account(account) for account, _ in asked}
        apis = {each.connection: self._apis(each.connection) for each in registered.values()}

        def find(product: Product) -> LookedUp:
            account, kept = registered[product[0]], KeptRows()
            facts = read_products(apis[account.connection], account.account, [product[1]], date.min, kept)
            return LookedUp(read_periods(product[1], kept.rows), is_known=not facts.notes[UNKNOWN_PRODUCTS])

        return dict(zip(asked, in_threads(find, asked, LOOK_AHEAD), strict=True))

    def read_one(self, product: Product) -> Periods:
        """Return the present costs of a product."""
        return self.read([product])[product].periods

    def store(self, product: Product, periods: Periods) -> None:
        """Store a product's periods. Some upstreams replace all of them, others those of the same days."""
        account, sku, key = self._account(product[0]), product[1], str(uuid4())
        api, selection = self._apis(account.connection), account.account.selection
        with naming(sku):
            body = {SKU: sku, DATA: [period.sent for period in in_order(periods)]}
            api.request("POST", COST_PERIODS.path, selection, body, decode=bytes, idempotency_key=key)

    def delete(self, product: Product, period: CostPeriod | None = None) -> bool:
        """Delete one period of a product, or all; return whether there was any."""
        account, sku = self._account(product[0]), product[1]
        api = self._apis(account.connection)
        dates = {} if period is None else {FROM_DATE: str(period.from_date), TO_DATE: str(period.to_date)}
        params = {**account.account.selection, SKU: sku, **dates}
        try:
            with naming(sku):
                # It may be sent again, and then finds nothing left to delete.
                api.request("DELETE", COST_PERIODS.path, params, decode=bytes)
        except RequestRefusedError as error:
            if error.status == 404:
                return False
            raise
        return True


def read_periods(sku: str, rows: Sequence[Row]) -> Periods:
    """Return the periods of a product, as they can be written again.

    Args:
        rows: The values of the dataset's columns in order, and last the day of the snapshot.

    Raises:
        ContractViolationError: A period lacks its first day, or a cost element its name, its amount or its currency.
    """
    periods, what = [], f"{COST_PERIODS.name} of SKU {sku!r}"
    for _, first, last, elements, *_ in rows:
        if first is None:
            raise ContractViolationError(what, f"a period lacks its {FROM_DATE}, so that it cannot be written again")
        sent = json.loads(elements or "[]", parse_float=Decimal, parse_int=Decimal)
        cost_elements = tuple(filter(None, map(CostElement.read, sent)))
        if len(cost_elements) < len(sent):
            lacking = "lacks its cost_element, amount or currency"
            raise ContractViolationError(what, f"a cost element of the period from {first} {lacking}")
        periods.append(CostPeriod(date.fromisoformat(first), date.fromisoformat(last) if last else None, cost_elements))
    return in_order(tuple(periods))
