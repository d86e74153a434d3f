"""The costs of one product upstream: finds, writes and deletes them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from uuid import uuid4

from seller_platform.client.decoding.pages import Row
from seller_platform.client.endpoints.cost_periods import read_products
from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.reader import naming
from seller_platform.client.lists.row_sink import KeptRows
from seller_platform.contract import Account
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
from seller_platform.errors import ContractViolationError, RequestRefusedError


@dataclass(frozen=True)
class LookedUp:
    """The answer about one product: its periods, and whether the upstream has the product."""

    periods: Periods
    is_known: bool


def find_cost_periods(api: SellerApi, account: Account, sku: str) -> LookedUp:
    """Return the upstream's answer about a product.

    Raises:
        ContractViolationError: It sent what the API does not allow.
        UpstreamUnavailableError: It did not answer.
        RequestRefusedError: It refused for good, for another reason than an unknown product.
    """
    kept = KeptRows()
    facts = read_products(api, account, [sku], date.min, kept)
    return LookedUp(read_periods(sku, kept.rows), is_known=not facts.notes[UNKNOWN_PRODUCTS])


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


def write_periods(api: SellerApi, account: Account, sku: str, periods: Periods) -> None:
    """Store these periods of a product at the upstream.

    Some upstreams replace all periods of the product, others those of the same days.

    Raises:
        RequestRefusedError: It refused for good.
        UpstreamUnavailableError: It gave no good answer, and may have stored them.
    """
    with naming(sku):
        body, key = {SKU: sku, DATA: [period.sent for period in in_order(periods)]}, str(uuid4())
        api.request("POST", COST_PERIODS.path, account.selection, body, decode=bytes, idempotency_key=key)


def delete_periods(api: SellerApi, account: Account, sku: str, period: CostPeriod | None = None) -> bool:
    """Delete one or all periods of a product upstream; False where there were none.

    Raises:
        RequestRefusedError: It refused for good, for another reason.
        UpstreamUnavailableError: It gave no good answer, and may have deleted them.
    """
    dates = {} if period is None else {FROM_DATE: str(period.from_date), TO_DATE: str(period.to_date)}
    try:
        with naming(sku):
            # It may be sent again, and then finds nothing left to delete.
            api.request("DELETE", COST_PERIODS.path, {**account.selection, SKU: sku, **dates}, decode=bytes)
    except RequestRefusedError as error:
        if error.status == 404:
            return False
        raise
    return True
