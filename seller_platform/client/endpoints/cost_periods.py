"""Cost periods of products: reads them SKU by SKU, writes and deletes them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from uuid import uuid4

import msgspec

from seller_platform.client.decoding.local_days import zone_of
from seller_platform.client.decoding.pages import Page, PageDecoder, Row
from seller_platform.client.decoding.values import exact_number, text_of
from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.prefetch import naming
from seller_platform.client.lists.row_sink import KeptRows, RowSink
from seller_platform.client.lists.slice_reader import read_list
from seller_platform.contract import Account, SplitFilter
from seller_platform.contract.cost_periods import (
    AMOUNT,
    COST_ELEMENT,
    COST_ELEMENTS,
    CURRENCY,
    ELEMENT_FIELDS,
    FROM_DATE,
    NOTES,
    PROVIDER,
    SKU,
    TO_DATE,
    CostElement,
    CostPeriod,
    Periods,
    in_order,
    periods_sent,
    with_cents,
)
from seller_platform.contract.datasets.costs import COST_PERIODS, PERIODS_OF_ONE_SKU
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import UNKNOWN_PRODUCTS, UNREADABLE_VALUES, LoadFacts
from seller_platform.errors import ContractViolationError, RequestRefusedError

LOOK_AHEAD = 8

_ELEMENTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


@dataclass(frozen=True)
class LookedUp:
    """The answer about one product: its periods, and whether the upstream has the product."""

    periods: Periods
    is_known: bool


def read_cost_periods(
    api: SellerApi, account: Account, skus: Sequence[str], snapshot_day: date, sink: RowSink
) -> LoadFacts:
    """Read the cost periods of these products into the sink, as one list for each of them.

    A product that the upstream does not know has no periods.

    Raises:
        ContractViolationError: The upstream sent what the API does not allow.
        UpstreamUnavailableError: It did not answer; the product is named.
        RequestRefusedError: It refused for good, or has neither the products nor the endpoint.
    """
    facts = _read(api, account, skus, snapshot_day, sink)
    if skus and facts.notes[UNKNOWN_PRODUCTS] == len(skus):
        # An endpoint refuses a request without a product as incomplete; a missing endpoint answers 404.
        try:
            requests = api.get(COST_PERIODS.path, account.selection).requests
        except RequestRefusedError as error:
            if error.status not in (400, 422):
                raise
            requests = 1
        return replace(facts, requests=facts.requests + requests)
    return facts


def find_cost_periods(api: SellerApi, account: Account, sku: str) -> LookedUp:
    """Return the upstream's answer about a product.

    Raises:
        ContractViolationError: It sent what the API does not allow.
        UpstreamUnavailableError: It did not answer.
        RequestRefusedError: It refused for good, for another reason than an unknown product.
    """
    kept = KeptRows()
    facts = _read(api, account, [sku], date.min, kept)
    return LookedUp(read_periods(sku, kept.rows), is_known=not facts.notes[UNKNOWN_PRODUCTS])


def _read(api: SellerApi, account: Account, skus: Sequence[str], snapshot_day: date, sink: RowSink) -> LoadFacts:
    decoder = PageDecoder(PERIODS_OF_ONE_SKU, zone_of(account), snapshot_day, complete=_exact_periods)
    of_products = replace(PERIODS_OF_ONE_SKU, split_by=SplitFilter(SKU, tuple(skus), required=True))
    name = f"{COST_PERIODS.name} of {account.key}"
    facts = read_list(api, ListQuery(of_products, account), decoder, sink, name, look_ahead=LOOK_AHEAD)
    return replace(facts, notes={"products": len(skus), UNKNOWN_PRODUCTS: 0, **facts.notes})


def read_periods(sku: str, rows: Sequence[Row]) -> Periods:
    """Return the periods of a product, as they can be written again.

    Args:
        rows: The values of the dataset's columns in order, and last the day of the snapshot.

    Raises:
        ContractViolationError: A period lacks its first day, or a cost element its name, its amount or its currency.
    """
    periods = []
    for _, first, last, elements, *_ in rows:
        if first is None:
            what = f"{COST_PERIODS.name} of SKU {sku!r}"
            raise ContractViolationError(what, f"a period lacks its {FROM_DATE}, so that it cannot be written again")
        sent = json.loads(elements or "[]", parse_float=Decimal, parse_int=Decimal)
        cost_elements = tuple(_element(sku, first, element) for element in sent)
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
        sent, key = periods_sent(sku, periods), str(uuid4())
        api.request("POST", COST_PERIODS.path, account.selection, sent, decode=bytes, idempotency_key=key)


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


def _element(sku: str, first: str, sent: Mapping[str, object]) -> CostElement:
    name, amount, currency = sent.get(COST_ELEMENT), sent.get(AMOUNT), sent.get(CURRENCY)
    if not isinstance(name, str) or not isinstance(amount, Decimal) or not isinstance(currency, str):
        raise ContractViolationError(
            f"{COST_PERIODS.name} of SKU {sku!r}",
            f"a cost element of the period from {first} lacks its {COST_ELEMENT}, {AMOUNT} or {CURRENCY}",
        )
    provider, notes = sent.get(PROVIDER), sent.get(NOTES)
    return CostElement(
        name,
        with_cents(amount),
        currency,
        provider if isinstance(provider, str) else None,
        notes if isinstance(notes, str) else None,
    )


def _exact_periods(page: Page, sku: str | None) -> Page:
    """Return the page of one product with its SKU in each row, and with exact amounts."""
    unknown, unreadable = set(page.unknown_fields), dict(page.defects.get(UNREADABLE_VALUES, {}))
    rows = []
    for position, (sent_sku, first, last, sent, day) in enumerate(page.rows):
        if sent_sku not in (None, sku):
            problem = f"period {position + 1} is one of another SKU than asked for"
            raise ContractViolationError(COST_PERIODS.name, problem)
        elements, wrong = _exact_elements(sent, unknown)
        if wrong is not None:
            unreadable[position] = {**unreadable.get(position, {}), COST_ELEMENTS: wrong}
        rows.append((sku, first, last, elements, day))
    defects = {**page.defects, **({UNREADABLE_VALUES: unreadable} if unreadable else {})}
    return replace(page, rows=rows, unknown_fields=frozenset(unknown), defects=defects)


def _exact_elements(sent: str | None, unknown: set[str]) -> tuple[str | None, str | None]:
    """Return the elements with their amounts as numbers, and what cannot be read, which is null.

    All else stays as it was sent.
    """
    if sent is None:
        return None, None
    try:
        elements, wrong = _ELEMENTS.decode(sent), list[str]()
    except msgspec.ValidationError:
        return None, text_of(sent.encode())
    for element in elements:
        unknown.update(f"{COST_ELEMENTS}.{name}" for name in element.keys() - ELEMENT_FIELDS)
        amount = bytes(element.get(AMOUNT, b"null"))
        try:
            if amount[:1] == b'"':
                number = exact_number(msgspec.json.decode(amount, type=str))
                element[AMOUNT] = msgspec.Raw(format(number, "f").encode())
            elif amount[:1] not in b"-0123456789n":
                raise ValueError("not a number")
        except ValueError:
            element[AMOUNT] = msgspec.Raw(b"null")
            wrong.append(text_of(amount))
    return msgspec.json.encode(elements).decode(), " and ".join(wrong) or None
