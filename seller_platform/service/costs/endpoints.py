"""The endpoints that read, write and delete cost periods. A group writes to all of its accounts, or to none."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Annotated

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.clocks import Clock
from seller_platform.contract import Column, Kind
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.wire import COST_PERIODS_PATH
from seller_platform.counts import count_of
from seller_platform.service.access import SELECTION, Scope, Selector, authenticate, read_selector, select_accounts
from seller_platform.service.costs.bodies import CostPeriodInput, read_periods
from seller_platform.service.costs.store import delete_periods, read_stored, write_periods
from seller_platform.service.errors import NotFoundError
from seller_platform.service.http.bodies import read_json
from seller_platform.service.http.idempotency import KEY, answer_once
from seller_platform.service.http.parameters import Parameter, Query, SentParameter, about, shown
from seller_platform.service.http.responses import JSON, json_answer
from seller_platform.service.limits import Limits
from seller_platform.service.lists.page_queries import Need
from seller_platform.service.lists.products import PRODUCT, SKU, find_skus
from seller_platform.service.lists.replica import require_read
from seller_platform.service.openapi import Done, Operation, Route, body_type, list_of, page_type, row_type
from seller_platform.service.pool import Connection, Store

FROM_DATE = Parameter[date]("from_date", "First day of the one period to delete; goes with `to_date`.", date)
TO_DATE = Parameter[date]("to_date", "Last day of the one period to delete; goes with `from_date`.", date)


_Element = row_type(
    "cost_element",
    (
        Column("cost_element", Kind.TEXT, "A cost category, such as Manufacturing.", key=True, example="Manufacturing"),
        Column("amount", Kind.MONEY, "What it costs for one unit.", key=True),
        Column("currency", Kind.TEXT, "ISO 4217 code of `amount`.", key=True, example="EUR"),
        Column("provider", Kind.TEXT, "Who is paid.", example="Example Pottery"),
        Column("notes", Kind.TEXT, "Anything worth remembering.", example="net of tax"),
    ),
)
_OF_GROUPS = (
    Column("account_title", Kind.TEXT, "Title of the account; of a group only.", key=True, example="Shop US"),
    Column("seller_id", Kind.TEXT, "Seller of the account; of a group only.", example="A1EXAMPLE"),
    Column("marketplace_id", Kind.TEXT, "Marketplace of the account; of a group only.", example="US"),
    Column("sku", Kind.TEXT, "The product; of a group, or where an ASIN names the product.", key=True, example="MUG-1"),
)
_Period = row_type(
    "cost_period",
    (
        Column("from_date", Kind.DATE, "First day on which the costs hold.", key=True),
        Column("to_date", Kind.DATE, "Last day on which they hold."),
        *_OF_GROUPS,
    ),
    optional=[column.name for column in _OF_GROUPS],
    cost_elements=list_of(_Element, "What the costs are made of."),
)


class StoredCosts(Done):
    """What was stored."""

    sku: Annotated[str, about("The product.", "MUG-BLUE-350")]
    periods: Annotated[int, about("How many periods were stored, in all accounts together.")]


class DeletedCosts(Done):
    """What was deleted."""

    deleted: Annotated[int, about("How many periods were deleted.")]


_EXAMPLE = {
    "account_title": "Shop US",
    "sku": "MUG-BLUE-350",
    "data": [
        {
            "dates": {"from_date": "2026-03-01", "to_date": "2026-03-31"},
            "cost_elements": [
                {"cost_element": "Manufacturing", "total_amount": 1250, "units": 500, "currency": "USD"},
                {"cost_element": "Freight", "amount": 0.45, "currency": "USD"},
            ],
        }
    ],
}
_INPUT = body_type(
    "CostPeriodsInput",
    (*SELECTION, SKU),
    data=list_of(CostPeriodInput, "The periods, no two of which may have a day in common.", min_length=1),
)

READ = Operation(
    COST_PERIODS_PATH,
    "list_cost_periods",
    "costs",
    "List the cost periods of a product.",
    "The product is named by exactly one of `sku`, `asin` and `parent_asin`; an ASIN stands for every SKU that "
    "offers it. Its cost on a day is the sum of the elements of the periods that hold on that day, for one unit. "
    "There are no pages. A group answers with the periods of all its accounts, each with its account and its SKU; a "
    "product named by an ASIN with the SKU of each.",
    page_type(_Period, announces_total=False),
    (*SELECTION, *PRODUCT),
    (401, 404, 422, 503),
)
WRITE = Operation(
    COST_PERIODS_PATH,
    "write_cost_periods",
    "costs",
    "Store cost periods of a product, all or none; those with the same dates are replaced.",
    "A period that overlaps a stored one with other dates is refused, and the answer names both. Periods that the body "
    "does not name stay. A group stores in all of its accounts, or in none. Statistics follow at once.\n\n`amount` is "
    "for one unit. With a `conversion_rate` other than 1 it is in the account's currency, and is read back with it; a "
    "group whose accounts keep several currencies is then refused.\n\nThe product must be known to the account. An "
    "account whose rows are copied from another service takes no costs (403): the next copy would undo them.",
    StoredCosts,
    (*SELECTION, SKU, KEY),
    (401, 403, 404, 409, 413, 415, 422, 503),
    method="POST",
    scope=Scope.COSTS_WRITE,
    body={JSON: Annotated[_INPUT, Meta(examples=[_EXAMPLE])]},
)
DELETE = Operation(
    COST_PERIODS_PATH,
    "delete_cost_periods",
    "costs",
    "Delete the cost periods of a product, or the one with the given dates.",
    "The product is named by exactly one of `sku`, `asin` and `parent_asin`. Without dates all of its periods are "
    "deleted. A parameter or a field of the body that is not listed here is refused. Where no period is found the "
    "answer is 404. Statistics follow at once. An account whose rows are copied from another service keeps its costs "
    "(403).",
    DeletedCosts,
    (*SELECTION, *PRODUCT, FROM_DATE, TO_DATE),
    (401, 403, 404, 413, 415, 422, 503),
    method="DELETE",
    scope=Scope.COSTS_WRITE,
)


def cost_routes(store: Store, clock: Clock, limits: Limits) -> tuple[Route, ...]:
    """Return the endpoints of cost periods."""

    async def answer_read(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request)
            query = Query(request.scope["query_string"])
            selector, product = read_selector(query), query.only_one(PRODUCT, "product", rule="must be named by")
            query.check()
            selected = await select_accounts(connection, caller, selector)
            await require_read(connection, selected, [Need(COST_PERIODS)], clock())
            skus = await find_skus(connection, selected, product)
            periods = await read_stored(connection, selected, skus, with_skus=product.name != SKU.name)
        return Response(b'{"data":[%b]}' % periods, media_type=JSON)

    async def answer_write(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request, Scope.COSTS_WRITE)
        body, query = await read_json(request), Query(request.scope["query_string"])

        async def write(connection: Connection) -> Response:
            query.join(body, (*SELECTION, SKU))
            selector, sku = read_selector(query), query.value(replace(SKU, required=True))
            periods = read_periods(body, query)
            query.check()
            selected = await select_accounts(connection, caller, selector)
            skus = await find_skus(connection, selected, SentParameter(SKU.name, sku or ""))
            if lacking := [account.account_title for account in selected.accounts if account.key not in skus]:
                raise NotFoundError(f"account {lacking[0]} has no product with sku {shown(sku or '')}")
            stored = await write_periods(connection, selected, sku or "", periods, now=clock(), limits=limits)
            message = f"{count_of(stored, 'cost period', 'was')} stored."
            return json_answer(StoredCosts(200, message, sku or "", stored))

        return await answer_once(store, request, body, write, user_id=caller.id, accounts=caller.consented_accounts)

    async def answer_delete(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request, Scope.COSTS_WRITE)
        query, body = Query(request.scope["query_string"]), await read_json(request)
        selector, product, dates = _read_deletion(query, body)
        async with store.connection() as connection:
            selected = await select_accounts(connection, caller, selector)
            skus = await find_skus(connection, selected, product)
            deleted = await delete_periods(connection, selected, skus, dates)
        if not deleted:
            period = f" from {dates[0]} to {dates[1]}" if dates else ""
            raise NotFoundError(f"{product.name} {shown(product.value)} has no cost period{period}")
        return json_answer(DeletedCosts(200, f"{count_of(deleted, 'cost period', 'was')} deleted.", deleted))

    return Route(READ, answer_read), Route(WRITE, answer_write), Route(DELETE, answer_delete)


def _read_deletion(
    query: Query, body: Mapping[str, object]
) -> tuple[Selector, SentParameter, tuple[date, date] | None]:
    """Return accounts, product, and first and last day of the period to delete."""
    query.join(body, DELETE.parameters)
    query.refuse_others(DELETE.parameters, body)
    selector, product = read_selector(query), query.only_one(PRODUCT, "product", rule="must be named by")
    first, last = query.value(FROM_DATE), query.value(TO_DATE)
    if query.has(FROM_DATE) != query.has(TO_DATE):
        missing = (TO_DATE if query.has(FROM_DATE) else FROM_DATE).name
        query.refuse(missing, "is required; from_date and to_date go together and name one period")
    elif first and last and first > last:
        query.refuse(FROM_DATE.name, f"is {first}, after to_date {last}")
    query.check()
    return selector, product, (first, last) if first and last else None
