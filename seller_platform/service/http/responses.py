"""Answers: JSON, and every error as the body that the contract describes."""

from collections.abc import Mapping

import msgspec
import psycopg
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.wire import error_body
from seller_platform.errors import ApiError, TokenEndpointError, WarehouseUnavailableError

BASE_URL = "seller_platform.base_url"
"""The name in a request's scope of the base URL that it was sent to."""
JSON = "application/json"
RETRY_SECONDS = 5

_AWAY = "the service's store cannot be reached at the moment; try again in a few seconds"
_BROKEN = "the service failed on this request; it was logged under the request id of this answer"


def json_answer(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON answer."""
    return Response(msgspec.json.encode(body), status, headers, media_type=JSON)


def success_answer(message: str, **facts: object) -> Response:
    """Return the answer of an endpoint that says what was done, with facts about it."""
    return json_answer({"status": "success", "code": 200, "message": message, **facts})


def error_answer(error: Exception) -> Response:
    """Return the answer for an error; unexpected errors are answered without their text."""
    status, message, headers = message_of(error)
    if isinstance(error, TokenEndpointError):
        body = {"error": error.error, "error_description": ascii_description(message)}
        return token_answer(body, status, headers)
    if isinstance(error, ApiError):
        return json_answer(error_body(status, message, error.parameters, reason=error.reason), status, headers)
    return json_answer(error_body(status, message), status, headers)


def ascii_description(message: str) -> str:
    """Return a message as an `error_description`, which has ASCII characters only (RFC 6749 section 5.2)."""
    return message.encode("ascii", "backslashreplace").decode()


def token_answer(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer of the token endpoint.

    It must not be cached (RFC 6749 section 5.1).
    """
    return json_answer(body, status, {**(headers or {}), "Cache-Control": "no-store", "Pragma": "no-cache"})


def message_of(error: Exception) -> tuple[int, str, Mapping[str, str]]:
    """Return the status, text and headers of the answer for an error."""
    if isinstance(error, ApiError):
        return error.status, error.message, error.headers
    if isinstance(error, WarehouseUnavailableError | psycopg.OperationalError):
        return 503, _AWAY, {"Retry-After": str(RETRY_SECONDS)}
    return 500, _BROKEN, {}


def base_url_of(request: Request) -> str:
    """Return the base URL of the service: its public URL, else where on this machine it was reached."""
    return str(request.scope[BASE_URL])


def allowed_methods(request: Request) -> list[str]:
    """Return the methods that some route takes at the path of a request."""
    methods = {"OPTIONS"}
    for route in request.app.routes:
        if route.path_regex.match(request.scope["path"]):
            methods |= route.methods
    return sorted(methods)
