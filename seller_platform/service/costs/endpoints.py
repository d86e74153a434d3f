"""The endpoints that read, write and delete cost periods.

A group writes to all of its accounts, or to none.
"""

from collections.abc import Mapping
from datetime import date

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.clocks import Clock
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.tokens import Scope
from seller_platform.contract.wire import COST_PERIODS_PATH
from seller_platform.errors import NotFoundError
from seller_platform.service.access import (
    ACCOUNT,
    SELECTION,
    Selector,
    authenticate,
    read_selector,
    select_accounts,
)
from seller_platform.service.costs.bodies import read_periods
from seller_platform.service.costs.openapi import DELETE, DRY_RUN, FROM_DATE, READ, TO_DATE, WRITE
from seller_platform.service.costs.store import delete_periods, read_stored, write_periods
from seller_platform.service.http.bodies import read_json
from seller_platform.service.http.idempotency import answer_once
from seller_platform.service.http.parameters import Query, SentParameter, shown
from seller_platform.service.http.responses import JSON, success_answer
from seller_platform.service.limits.policy import CostLimits
from seller_platform.service.lists.products import PRODUCT, SKU, find_skus
from seller_platform.service.lists.replica import Need, require_read
from seller_platform.service.openapi.routes import Route
from seller_platform.service.pool import Connection, Store


def cost_routes(store: Store, clock: Clock, limits: CostLimits) -> tuple[Route, ...]:
    """Return the endpoints of cost periods."""

    async def answer_read(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request)
            query = Query(request.scope["query_string"])
            selector, product = read_selector(query), query.only_one(PRODUCT, "product", rule="must be named by")
            query.check()
            selected = await select_accounts(connection, caller, selector)
            await require_read(connection, selected, [Need(COST_PERIODS, ACCOUNT)], clock())
            skus = await find_skus(connection, selected, product)
            is_group = selector.group_title is not None
            periods = await read_stored(
                connection, selected, skus, with_accounts=is_group, with_skus=is_group or product.name != SKU.name
            )
        return Response(b'{"data":[%b]}' % periods, media_type=JSON)

    async def answer_write(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request, Scope.COSTS_WRITE)
        body, query = await read_json(request), Query(request.scope["query_string"])

        async def write(connection: Connection) -> Response:
            query.join(body, (*SELECTION, SKU))
            selector, sku = read_selector(query), query.value(SKU)
            if not query.has(SKU):
                query.refuse(SKU.name, "is required; it names the product that the costs belong to")
            periods = read_periods(body, query)
            query.check()
            selected = await select_accounts(connection, caller, selector)
            skus = await find_skus(connection, selected, SentParameter(SKU.name, sku or ""))
            for account in selected.accounts:
                if account.key not in skus:
                    raise NotFoundError(f"account {account.account_title} has no product with sku {shown(sku or '')}")
            stored = await write_periods(connection, selected, sku or "", periods, now=clock(), limits=limits)
            message = f"{stored} cost period{'s were' if stored != 1 else ' was'} stored."
            return success_answer(message, sku=sku, periods=stored)

        return await answer_once(store, request, body, write, user_id=caller.id, accounts=caller.consented_accounts)

    async def answer_delete(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request, Scope.COSTS_WRITE)
        query, body = Query(request.scope["query_string"]), await read_json(request)
        selector, product, dates, is_dry = _read_deletion(query, body)
        async with store.connection() as connection:
            selected = await select_accounts(connection, caller, selector)
            skus = await find_skus(connection, selected, product)
            deleted = await delete_periods(connection, selected, skus, dates, is_dry=is_dry)
        if not deleted:
            period = f" from {dates[0]} to {dates[1]}" if dates else ""
            raise NotFoundError(f"{product.name} {shown(product.value)} has no cost period{period}")
        named = f"{deleted} cost period{'' if deleted == 1 else 's'}"
        if is_dry:
            return success_answer(f"{named} would be deleted; nothing was.", deleted=deleted)
        return success_answer(f"{named} {'was' if deleted == 1 else 'were'} deleted.", deleted=deleted)

    return (
        Route(COST_PERIODS_PATH, answer_read, READ),
        Route(COST_PERIODS_PATH, answer_write, WRITE, "POST"),
        Route(COST_PERIODS_PATH, answer_delete, DELETE, "DELETE"),
    )


def _read_deletion(
    query: Query, body: Mapping[str, object]
) -> tuple[Selector, SentParameter, tuple[date, date] | None, bool]:
    """Return accounts, product and first and last day of the period to delete, and whether to count only.

    Raises:
        InvalidParametersError: A parameter is missing, invalid or unknown.
    """
    query.join(body, DELETE.parameters)
    query.refuse_others(DELETE.parameters, body)
    selector, product = read_selector(query), query.only_one(PRODUCT, "product", rule="must be named by")
    first, last, is_dry = query.value(FROM_DATE), query.value(TO_DATE), query.value(DRY_RUN) is True
    if query.has(FROM_DATE) != query.has(TO_DATE):
        missing = (TO_DATE if query.has(FROM_DATE) else FROM_DATE).name
        query.refuse(missing, "is required; from_date and to_date go together and name one period")
    elif first and last and first > last:
        query.refuse(FROM_DATE.name, f"is {first}, after to_date {last}")
    query.check()
    return selector, product, (first, last) if first and last else None, is_dry
