"""Answers: JSON, documents, and every error as the body that the contract describes."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Literal

import msgspec
import psycopg
from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.wire import REPLICA
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.service.errors import ApiError, TokenEndpointError
from seller_platform.service.http.parameters import about

BASE_URL = "seller_platform.base_url"
"""The name in a request's scope of the base URL that it was sent to."""
JSON = "application/json"
RETRY_SECONDS = 5
MOST_BASE_URLS = 16
"""For how many base URLs documents are kept. Without a public URL, each port of the loopback is one."""

_AWAY = "the service's store cannot be reached at the moment; try again in a few seconds"
_BROKEN = "the service failed on this request; it was logged under the request id of this answer"


class Error(Struct, tag_field="status", tag="error"):
    """What is wrong with a request, or with the service."""

    code: Annotated[int, about("The HTTP status of the answer.", 404)]
    message: Annotated[
        str, about("What is wrong, which value was sent, and what is allowed.", "there is no such account")
    ]
    errors: (
        Annotated[
            dict[str, list[str]],
            about("For each parameter that cannot be used, what is wrong with it; with status 422 only."),
        ]
        | UnsetType
    ) = UNSET
    reason: (
        Annotated[
            Literal["replica"],
            about("`replica` where only the service can answer that the rows were loaded from; else absent."),
        ]
        | UnsetType
    ) = UNSET


def json_answer(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON answer."""
    return Response(msgspec.json.encode(body), status, headers, media_type=JSON)


def error_answer(error: Exception) -> Response:
    """Return the answer for an error; unexpected errors are answered without their text."""
    status, message, headers = message_of(error)
    if isinstance(error, TokenEndpointError):
        body = {"error": error.error, "error_description": ascii_description(message)}
        return token_answer(body, status, headers)
    refusal = Error(status, message)
    if isinstance(error, ApiError):
        refusal.errors, refusal.reason = error.parameters or UNSET, REPLICA if error.reason else UNSET
    return json_answer(refusal, status, headers)


def ascii_description(message: str) -> str:
    """Return a message as an `error_description`, which has ASCII characters only (RFC 6749 section 5.2)."""
    return message.encode("ascii", "backslashreplace").decode()


def token_answer(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer of the token endpoint. It must not be cached (RFC 6749 section 5.1)."""
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


class PublicDocument:
    """A document that is the same for everybody, kept by caches for an hour, with its ETag (RFC 9110 section 8.8.3)."""

    def __init__(self, body: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> None:
        self._body, self._media_type = body, media_type
        self.digest = sha256(body).hexdigest()
        # The tag is weak, because a compressed answer has the same.
        self._tag = f'W/"{self.digest[:32]}"'
        caching = {"Cache-Control": "public, max-age=3600", "ETag": self._tag}
        self._headers = {**(headers or {}), **caching}

    def answer(self, request: Request) -> Response:
        """Return the document, or 304 to a client that has it."""
        tags = ",".join(request.headers.getlist("if-none-match")).split(",")
        if any(tag.strip().removeprefix("W/") in ("*", self._tag.removeprefix("W/")) for tag in tags):
            return Response(None, 304, self._headers)
        return Response(self._body, 200, self._headers, media_type=self._media_type)
