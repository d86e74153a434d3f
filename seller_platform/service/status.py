"""The status endpoint, which needs no token."""

from typing import Annotated, Literal

import psycopg
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.wire import SERVICE_STATUS
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.service.http.parameters import about
from seller_platform.service.http.responses import JSON, RETRY_SECONDS, json_answer
from seller_platform.service.openapi import Cost, Operation, Route
from seller_platform.service.pool import Store

_UP = "All systems are operational."


class ServiceStatus(Struct):
    """Whether the service works."""

    status: Annotated[Literal["active", "down"], about("Whether the service works.")]
    code: Annotated[int, about("200 or 503, as the HTTP status of the answer.", 200)]
    message: Annotated[str, about("The same in a sentence.", _UP)]


_OPERATION = Operation(
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


def status_route(store: Store) -> Route:
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

    return Route(_OPERATION, answer, Cost.QUICK)
