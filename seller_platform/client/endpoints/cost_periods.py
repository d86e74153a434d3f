"""Cost periods of products, read SKU by SKU."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import msgspec

from seller_platform.client.decoding.pages import Page, PageDecoder
from seller_platform.client.decoding.values import exact_number, text_of
from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.row_sink import RowSink
from seller_platform.client.lists.slice_reader import read_list
from seller_platform.contract import Account, SplitFilter
from seller_platform.contract.cost_periods import AMOUNT, COST_ELEMENTS, ELEMENT_FIELDS, SKU
from seller_platform.contract.datasets.costs import COST_PERIODS, PERIODS_OF_ONE_SKU
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import UNKNOWN_PRODUCTS, UNREADABLE_VALUES, LoadFacts
from seller_platform.errors import ContractViolationError, RequestRefusedError

LOOK_AHEAD = 8

_ELEMENTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


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
    facts = read_products(api, account, skus, snapshot_day, sink)
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


def read_products(
    api: SellerApi, account: Account, skus: Sequence[str], snapshot_day: date, sink: RowSink
) -> LoadFacts:
    """Read the cost periods of these products into the sink; without any product the list is empty."""
    decoder = PageDecoder(PERIODS_OF_ONE_SKU, account.zone, snapshot_day, complete=_exact_periods)
    of_products = replace(PERIODS_OF_ONE_SKU, split_by=SplitFilter(SKU, tuple(skus), required=True))
    name = f"{COST_PERIODS.name} of {account.key}"
    facts = read_list(api, ListQuery(of_products, account), decoder, sink, name, look_ahead=LOOK_AHEAD)
    return replace(facts, notes={"products": len(skus), UNKNOWN_PRODUCTS: 0, **facts.notes})


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
