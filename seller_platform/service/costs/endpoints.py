"""The endpoints that read, write and delete cost periods.

A group writes to all of its accounts, or to none.
"""

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.clocks import Clock
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.tokens import Scope
from seller_platform.contract.wire import COST_PERIODS_PATH
from seller_platform.errors import NotFoundError
from seller_platform.service.access import ACCOUNT, SELECTION, authenticate, read_selector, select_accounts
from seller_platform.service.costs.bodies import read_periods
from seller_platform.service.costs.openapi import DELETE, FROM_DATE, READ, TO_DATE, WRITE
from seller_platform.service.costs.store import delete_periods, read_stored, write_periods
from seller_platform.service.http.bodies import read_json
from seller_platform.service.http.parameters import Query, SentParameter, shown
from seller_platform.service.http.responses import JSON, success_answer
from seller_platform.service.lists.products import PRODUCT, SKU, find_skus
from seller_platform.service.lists.replica import Need, require_read
from seller_platform.service.openapi.routes import Route
from seller_platform.service.pool import Store


def cost_routes(store: Store, clock: Clock) -> tuple[Route, ...]:
    """Return the endpoints of cost periods."""

    async def answer_read(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request.headers)
            query = Query(request.scope["query_string"])
            selector, product = read_selector(query), query.only_one(PRODUCT, "product", rule="must be named by")
            query.check()
            selected = await select_accounts(connection, caller, selector)
            await require_read(connection, selected, [Need(COST_PERIODS, ACCOUNT)], clock())
            skus = await find_skus(connection, selected, product)
            periods = await read_stored(connection, selected, skus)
        return Response(b'{"data":[%b]}' % periods, media_type=JSON)

    async def answer_write(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request.headers, Scope.COSTS_WRITE)
        body, query = await read_json(request), Query(request.scope["query_string"])
        query.join(body, (*SELECTION, SKU))
        selector, sku = read_selector(query), query.value(SKU)
        if not query.has(SKU):
            query.refuse(SKU.name, "is required; it names the product that the costs belong to")
        periods = read_periods(body, query)
        query.check()
        async with store.connection() as connection:
            selected = await select_accounts(connection, caller, selector)
            skus = await find_skus(connection, selected, SentParameter(SKU.name, sku or ""))
            for account in selected.accounts:
                if account.key not in skus:
                    raise NotFoundError(f"account {account.account_title} has no product with sku {shown(sku or '')}")
            stored = await write_periods(connection, selected, sku or "", periods, clock())
        message = f"{stored} cost period{'s were' if stored != 1 else ' was'} stored."
        return success_answer(message, sku=sku, periods=stored)

    async def answer_delete(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request.headers, Scope.COSTS_WRITE)
        query = Query(request.scope["query_string"])
        query.join(await read_json(request), (*SELECTION, *PRODUCT, FROM_DATE, TO_DATE))
        selector, product = read_selector(query), query.only_one(PRODUCT, "product", rule="must be named by")
        first, last = query.value(FROM_DATE), query.value(TO_DATE)
        if query.has(FROM_DATE) != query.has(TO_DATE):
            missing = (TO_DATE if query.has(FROM_DATE) else FROM_DATE).name
            query.refuse(missing, "is required; from_date and to_date go together and name one period")
        elif first and last and first > last:
            query.refuse(FROM_DATE.name, f"is {first}, after to_date {last}")
        query.check()
        dates = (first, last) if first and last else None
        async with store.connection() as connection:
            selected = await select_accounts(connection, caller, selector)
            skus = await find_skus(connection, selected, product)
            deleted = await delete_periods(connection, selected, skus, dates)
        if not deleted:
            period = f" from {first} to {last}" if dates else ""
            raise NotFoundError(f"{product.name} {shown(product.value)} has no cost period{period}")
        return success_answer(f"{deleted} cost period{'s were' if deleted != 1 else ' was'} deleted.", deleted=deleted)

    return (
        Route(COST_PERIODS_PATH, answer_read, READ),
        Route(COST_PERIODS_PATH, answer_write, WRITE, "POST"),
        Route(COST_PERIODS_PATH, answer_delete, DELETE, "DELETE"),
    )
