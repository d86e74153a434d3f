"""The status endpoint, which needs no token."""

import psycopg
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.wire import SERVICE_STATUS
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.service.http.responses import RETRY_SECONDS, json_answer
from seller_platform.service.openapi.operations import INTEGER, TEXT, Description, object_schema
from seller_platform.service.openapi.routes import Route
from seller_platform.service.pool import Store

_UP = "All systems are operational."
_DOWN = "The service's store cannot be reached."
_STATUS = object_schema(
    "ServiceStatus",
    {
        "status": ({"enum": ["active", "down"]}, "Whether the service works."),
        "code": (INTEGER, "200 or 503, as the HTTP status of the answer."),
        "message": (TEXT, "The same in a sentence."),
    },
)


def status_route(store: Store) -> Route:
    """Return the endpoint that answers whether the service works."""

    async def answer(_: Request) -> Response:
        try:
            async with store.connection() as connection:
                status = await (await connection.execute("SELECT active, message FROM service.status")).fetchone()
        except (WarehouseUnavailableError, psycopg.Error):
            status = (False, _DOWN)
        active, message = status or (True, _UP)
        if active:
            return json_answer({"status": "active", "code": 200, "message": message})
        return json_answer(
            {"status": "down", "code": 503, "message": message}, 503, {"Retry-After": str(RETRY_SECONDS)}
        )

    description = Description(
        "read_service_status",
        "service",
        "Tell whether the service works.",
        "Works when PostgreSQL answers and nobody has announced that the service is down. Monitors can ask it as "
        "often as they like: it needs no token and reads no seller's rows.",
        _STATUS,
        needs_token=False,
        extra={
            "responses": {
                "200": {"description": "It works.", "content": {"application/json": {"schema": _STATUS}}},
                "429": {"description": "The network has too many requests without a token under way."},
                "503": {"description": "It does not.", "content": {"application/json": {"schema": _STATUS}}},
            }
        },
    )
    return Route(SERVICE_STATUS, answer, description)
