"""Creates the application: its routes, its error answers, its pool and its worker; and answers its status."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Annotated, Literal

import msgspec
import psycopg
from prometheus_client import CollectorRegistry
from starlette import routing
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.capabilities import contributed
from seller_platform.clocks import Clock, utc_now
from seller_platform.contract.wire import AUTHORIZE, MCP, METADATA, OPENAPI, REVOKE, SERVICE_STATUS, TOKEN
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.service.costs.endpoints import cost_routes
from seller_platform.service.errors import ApiError, MisdirectedRequestError, NotFoundError
from seller_platform.service.http.middleware import Envelop, ErrorAnswer
from seller_platform.service.http.parameters import about
from seller_platform.service.http.public_url import ON_LOOPBACK, CheckHost, Location
from seller_platform.service.http.responses import JSON, RETRY_SECONDS, error_answer, json_answer, message_of
from seller_platform.service.limits import STANDARD, Admission, Limits
from seller_platform.service.lists.endpoints import SERVED, route_for
from seller_platform.service.metrics import Measures
from seller_platform.service.oauth.approvals_page import APPROVALS_PAGES
from seller_platform.service.oauth.authorize import answer_consent, with_document
from seller_platform.service.oauth.client_documents import ClientDocuments
from seller_platform.service.oauth.developers_page import DEVELOPERS_PAGES
from seller_platform.service.oauth.openapi import OPERATIONS
from seller_platform.service.oauth.token_endpoint import answer_metadata, issue_tokens, revoke_token
from seller_platform.service.openapi import Cost, Operation, Route
from seller_platform.service.pages.docs import documentation
from seller_platform.service.pages.login import ACCOUNT, LOGIN, LOGOUT, Login
from seller_platform.service.pages.password import RESET, change_password, set_by_link, show_link, show_password
from seller_platform.service.pages.rendering import HOME, STATIC_FILES, Page, answer_home, answer_static, render_message
from seller_platform.service.pages.sessions import LoginOptions
from seller_platform.service.pages.signed_in import page_of_user
from seller_platform.service.pool import Store
from seller_platform.service.reports.endpoints import report_routes
from seller_platform.service.reports.worker import Pace, start_worker
from seller_platform.service.statistics.endpoint import statistics_route
from seller_platform.service.users.endpoints import user_routes
from seller_platform.traces import flush_traces

DATABASE_URL = "SELLER_PLATFORM_SERVICE_DATABASE_URL"
OPTIONS = "SELLER_PLATFORM_SERVICE_OPTIONS"

# Of rows and documents. Pages and answers with tokens hold secrets beside text that the request chooses, so that the
# compressed length could reveal the secrets (BREACH).
_COMPRESSED = [Middleware(GZipMiddleware, minimum_size=1 << 10, compresslevel=1)]
_UP = "All systems are operational."


class ServiceStatus(msgspec.Struct):
    """Whether the service works."""

    status: Annotated[Literal["active", "down"], about("Whether the service works.")]
    code: Annotated[int, about("200 or 503, as the HTTP status of the answer.", 200)]
    message: Annotated[str, about("The same in a sentence.", _UP)]


_STATUS = Operation(
    SERVICE_STATUS,
    "read_service_status",
    "service",
    "Tell whether the service works.",
    "Works when PostgreSQL answers and nobody has announced that the service is down. Monitors can ask it as "
    "often as they like: it needs no token and reads no seller's rows.",
    scope=None,
    others={
        200: ("It works.", {JSON: ServiceStatus}),
        429: ("The network has too many requests without a token under way.", {}),
        503: ("It does not.", {JSON: ServiceStatus}),
    },
)


@dataclass(frozen=True)
class ServiceOptions:
    """What the operator decides about the service.

    Attributes:
        location: Where the service is reached; by default on the loopback only.
        worker_pace: How a worker in this process writes reports; without it, other processes write them.
        grant_lifetime: How long after its approval an application's access ends.
        serves_agents: Whether `/mcp` answers agents, which needs the extra `mcp`.
        private_client_hosts: The hosts whose client ID metadata documents may be at addresses that are not public.
    """

    location: Location = ON_LOOPBACK
    limits: Limits = STANDARD
    worker_pace: Pace | None = None
    grant_lifetime: timedelta = timedelta(days=365)
    logins: LoginOptions = field(default_factory=LoginOptions)
    private_client_hosts: Sequence[str] = ()
    serves_agents: bool = False


def create_app(
    database_url: str,
    options: ServiceOptions = ServiceOptions(),
    *,
    clock: Clock = utc_now,
    wait_seconds: float = 3.0,
    registry: CollectorRegistry | None = None,
) -> Starlette:
    """Return the service over a migrated database.

    Args:
        clock: Returns the time, which decides the days of lists that are requested without dates.
        registry: The registry of the service's metrics; without it, they cannot be read.

    Raises:
        SettingsError: Agents are to be served, and the package for that is not installed.
    """
    limits, location, worker_pace = options.limits, options.location, options.worker_pace
    measures = Measures(registry or CollectorRegistry())
    store = Store(database_url, connections=limits.connections, wait_seconds=wait_seconds)
    admission = Admission(store, limits)
    chosen = contributed("routes") if options.serves_agents else ()
    agents = [each(database_url, store, clock, connections=limits.work_at_once) for each in chosen]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, flush_traces)
            stack.push_async_callback(store.close)
            await store.open()
            if worker_pace is not None:
                stack.push_async_callback(asyncio.to_thread, start_worker(database_url, worker_pace, limits))
            for each in agents:
                await stack.enter_async_context(each.running())
            yield

    async def answer_without_route(request: Request, error: Exception) -> Response:
        return answer_error(request, error)

    routes = (
        _status_route(store),
        *user_routes(store),
        *(route_for(dataset, store, clock) for dataset in SERVED),
        statistics_route(store, clock),
        *cost_routes(store, clock, limits),
        *report_routes(store, clock, limits),
    )
    answer_error, quick = _error_answer(routes), partial(admission.admitting_anyone, cost=Cost.QUICK)
    app = Starlette(
        routes=[
            *(
                routing.Route(
                    each.operation.path,
                    admission.admitting(each),
                    methods=[each.operation.method],
                    middleware=_COMPRESSED,
                )
                for each in routes
            ),
            routing.Route(TOKEN, quick(partial(issue_tokens, store)), methods=["POST"]),
            routing.Route(REVOKE, quick(partial(revoke_token, store)), methods=["POST"]),
            routing.Route(METADATA, answer_metadata),
            *_page_routes(store, admission, options),
            *(
                routing.Route(path, answer, middleware=_COMPRESSED)
                for path, answer in documentation([*(each.operation for each in routes), *OPERATIONS]).items()
            ),
            *(route for each in agents for route in each.routes(admission)),
            *([] if agents else [routing.Route(MCP, _refuse_agents, methods=["POST"])]),
        ],
        middleware=[
            Middleware(Envelop, measures=measures, answer_error=answer_error, is_https=location.is_https),
            Middleware(CheckHost, location=location),
        ],
        exception_handlers={HTTPException: answer_without_route},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    for route in app.routes:
        assert isinstance(route, routing.Route)
        # The end of Starlette's own pattern is also found before a line break. Hosts of agents may add a slash.
        slash = "/?" if route.path.endswith(MCP) else ""
        route.path_regex = re.compile(route.path_regex.pattern.removesuffix("$") + slash + r"\Z")
    return app


def _status_route(store: Store) -> Route:
    """Return the endpoint that answers whether the service works."""

    async def answer(_: Request) -> Response:
        try:
            async with store.connection() as connection:
                status = await (await connection.execute("SELECT active, message FROM service.status")).fetchone()
        except (WarehouseUnavailableError, psycopg.Error):
            status = (False, "The service's store cannot be reached.")
        active, message = status or (True, _UP)
        if active:
            return json_answer(ServiceStatus("active", 200, message))
        return json_answer(ServiceStatus("down", 503, message), 503, {"Retry-After": str(RETRY_SECONDS)})

    return Route(_STATUS, answer, Cost.QUICK)


def app_from_environment() -> Starlette:
    """Return the service of a worker, with the database and the options that its parent process has set."""
    return create_app(os.environ[DATABASE_URL], msgspec.json.decode(os.environ[OPTIONS], type=ServiceOptions))


def _page_routes(store: Store, admission: Admission, options: ServiceOptions) -> list[routing.Route]:
    login, contact, signed_in = Login(store, options.logins), options.logins.contact, partial(page_of_user, store)
    documents = ClientDocuments(options.private_client_hosts)
    consent = partial(
        answer_consent, store, documents, lifetime=options.grant_lifetime, serves_agents=options.serves_agents
    )
    authorization = with_document(admission, store, documents, admission.admitting_anyone(consent))

    def route(method: str, path: str, page: Page, cost: Cost = Cost.PAGE) -> routing.Route:
        return routing.Route(path, admission.admitting_anyone(page, cost), methods=[method])

    return [
        route("GET", HOME, partial(answer_home, store)),
        route("GET", LOGIN, login.show),
        route("POST", LOGIN, login.submit, Cost.PASSWORD),
        route("POST", LOGOUT, login.leave),
        *(route(method, path, signed_in(answer)) for method, path, answer in (*DEVELOPERS_PAGES, *APPROVALS_PAGES)),
        route("GET", ACCOUNT, signed_in(show_password)),
        route("POST", ACCOUNT, signed_in(change_password), Cost.PASSWORD),
        route("GET", RESET, partial(show_link, store, contact)),
        route("POST", RESET, partial(set_by_link, store, contact), Cost.PASSWORD),
        routing.Route(AUTHORIZE, authorization, methods=["GET", "POST"]),
        *(routing.Route(path, answer_static, middleware=_COMPRESSED) for path in STATIC_FILES),
    ]


async def _refuse_agents(_: Request) -> Response:
    raise NotFoundError("agents are not served here; the operator starts `service run` with --mcp to serve them")


def _error_answer(routes: Sequence[Route]) -> ErrorAnswer:
    """Return what answers an error: with a page if a page failed or a browser asks outside of the API, else in JSON."""
    api = {_first_part(MCP), *(_first_part(route.operation.path) for route in routes)}

    def answer(request: Request, error: Exception) -> Response:
        path, is_of_page = request.scope["path"], "route" in request.scope
        if isinstance(error, HTTPException):  # no route takes the request
            headers, message, is_of_page = {}, f"there is nothing at {path[:100]!a}", False
            if error.status_code == 405:
                served = [route.methods for route in request.app.routes if route.path_regex.match(path)]
                methods = sorted({"OPTIONS"}.union(*served))
                headers = {"Allow": ", ".join(methods)}
                message = f"{request.method[:20]} is not allowed here; use {' or '.join(methods)}"
                if request.method == "OPTIONS":
                    return Response(None, 204, headers)
            error = ApiError(message, status=error.status_code, headers=headers)
        is_api = _first_part(path) in api or path in (TOKEN, REVOKE, METADATA, OPENAPI)
        if is_api or not (is_of_page or "text/html" in request.headers.get("accept", "")):
            return error_answer(error)
        home = error.public_url if isinstance(error, MisdirectedRequestError) else None
        return render_message(*message_of(error), request=request, home=home or HOME)

    return answer


def _first_part(path: str) -> str:
    return path.strip("/").partition("/")[0]
