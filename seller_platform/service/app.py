"""The application: routes, error answers and the life of the pool, joined."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.endpoints import API_VERSION, AUTHORIZE, METADATA, REVOKE, TOKEN
from seller_platform.contract.wire_errors import error_body
from seller_platform.errors import ApiError, MissingSettingError, WarehouseUnavailableError
from seller_platform.service.answers import allowed_methods, error_answer, json_answer
from seller_platform.service.authorize import Authorization
from seller_platform.service.lists import SERVED, Clock, Route, route_for
from seller_platform.service.login import LOGIN, LOGOUT, Login
from seller_platform.service.middleware import Envelop
from seller_platform.service.pages import STYLE, Page, answer_style, page_of
from seller_platform.service.status import status_route
from seller_platform.service.store import Store
from seller_platform.service.tokens import answer_metadata, answer_revocation, answer_token_request
from seller_platform.service.user import user_routes

DATABASE_URL = "SELLER_PLATFORM_SERVICE_DATABASE_URL"

_DOC = "Orders, sales, transactions, inventory, warehouse stock, shipments and notifications of marketplace sellers."


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def create_app(
    database_url: str, *, clock: Clock = utc_now, connections: int = 8, wait_seconds: float = 3.0
) -> FastAPI:
    """Return the service over a migrated database.

    Args:
        clock: Tells what day it is, for lists asked for without dates.
        connections: How many connections to PostgreSQL may be open at once.
        wait_seconds: How long to wait for PostgreSQL before it counts as away.

    Raises:
        InvalidSettingError: The URL is not one of PostgreSQL.
    """
    store = Store(database_url, connections=connections, wait_seconds=wait_seconds)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        await store.open()
        try:
            yield
        finally:
            await store.close()

    app = FastAPI(
        title="Seller Analytics API",
        version=API_VERSION,
        description=_DOC,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[Middleware(Envelop)],
    )
    for error in (ApiError, WarehouseUnavailableError, Exception):
        app.add_exception_handler(error, _answer_error)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(404, _answer_http_error)
    for route in (status_route(store), *user_routes(store), *(route_for(dataset, store, clock) for dataset in SERVED)):
        _add_endpoint(app, route)
    _add_oauth(app, store)
    return app


def app_from_environment() -> FastAPI:
    """Return the service over the database that the environment names.

    Raises:
        MissingSettingError: It names none.
    """
    database_url = os.environ.get(DATABASE_URL)
    if not database_url:
        raise MissingSettingError(DATABASE_URL, "the database to serve")
    return create_app(database_url)


def _add_endpoint(app: FastAPI, route: Route) -> None:
    app.add_api_route(
        route.path,
        _endpoint(route.answer),
        methods=["GET"],
        operation_id=route.description.name,
        openapi_extra=route.description.operation,
        response_class=Response,
        response_model=None,
    )


def _add_oauth(app: FastAPI, store: Store) -> None:
    login, authorization = Login(store), Authorization(store)
    pages: tuple[tuple[str, str, Page], ...] = (
        ("GET", LOGIN, login.show),
        ("POST", LOGIN, login.submit),
        ("POST", LOGOUT, login.leave),
        ("GET", AUTHORIZE, authorization.show),
        ("POST", AUTHORIZE, authorization.submit),
    )
    for method, path, page in pages:
        app.add_route(path, page_of(page), [method], include_in_schema=False)
    app.add_route(STYLE, answer_style, ["GET"], include_in_schema=False)

    async def answer_token(request: Request) -> Response:
        return await answer_token_request(request, store)

    async def answer_revoke(request: Request) -> Response:
        return await answer_revocation(request, store)

    app.add_route(TOKEN, answer_token, ["POST"], include_in_schema=False)
    app.add_route(REVOKE, answer_revoke, ["POST"], include_in_schema=False)
    app.add_route(METADATA, answer_metadata, ["GET"], include_in_schema=False)


def _endpoint(answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """Return the endpoint in the form in which FastAPI passes the request and looks at nothing else."""

    async def endpoint(request: Request) -> Response:
        response: Response = await answer(request)
        return response

    return endpoint


async def _answer_error(_: Request, error: Exception) -> Response:
    return error_answer(error)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        methods = allowed_methods(request)
        allow = {"Allow": ", ".join(methods)}
        if request.method == "OPTIONS":
            return Response(None, 204, allow)
        message = f"{request.method[:20]} is not allowed here; use {' or '.join(methods)}"
        return json_answer(error_body(405, message), 405, allow)
    message = f"there is no endpoint {request.scope['path'][:100]!a}" if status == 404 else str(error)
    return json_answer(error_body(status, message), status)
