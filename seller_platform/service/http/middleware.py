"""Middleware of every request: id, HEAD, headers, access log, metrics, trace, unexpected errors."""

import logging
import re
import time
import uuid
from collections.abc import Callable

from opentelemetry.trace import Span, SpanKind
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seller_platform.errors import WarehouseUnavailableError
from seller_platform.logs import facts, log_context
from seller_platform.service.errors import ApiError
from seller_platform.service.metrics import Measures, endpoint_of, method_of, notes_of
from seller_platform.traces import mark_failed, span

ErrorAnswer = Callable[[Request, Exception], Response]

REQUEST_ID = "X-Request-Id"
_LOG = logging.getLogger("seller_platform.service.access")
_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Envelop:
    """ASGI middleware around the application.

    Errors are answered here, unexpected ones without their text. HEAD is answered as GET without the body. Answers are
    not stored by caches unless the endpoint allows it. The access log never holds a query, which may carry codes and
    titles.
    """

    def __init__(self, app: ASGIApp, *, measures: Measures, answer_error: ErrorAnswer, is_https: bool = False) -> None:
        self._app, self._measures, self._answer_error, self._is_https = app, measures, answer_error, is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        sent_id = headers.get(REQUEST_ID, "")
        request_id = sent_id if _SANE_ID.fullmatch(sent_id) else uuid.uuid4().hex
        attributes = {"http.request.method": method_of(scope["method"]), "seller_platform.request_id": request_id}
        with (
            log_context(request_id=request_id),
            span(method_of(scope["method"]), attributes, kind=SpanKind.SERVER, headers=dict(headers)) as current,
        ):
            await self._answer(scope, receive, send, request_id, current)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, request_id: str, current: Span) -> None:
        began, status, is_head = time.perf_counter(), 0, scope["method"] == "HEAD"

        async def pass_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Cache-Control", "no-store")
                if self._is_https:
                    headers["Strict-Transport-Security"] = "max-age=31536000"
            elif is_head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        inner = {**scope, "method": "GET"} if is_head else scope
        notes_of(inner).request_id = request_id
        try:
            await self._app(inner, receive, pass_on)
        except ClientDisconnect:
            status = status or 499  # as nginx counts a client that hung up before its answer
        except Exception as error:
            if status or not isinstance(error, ApiError | WarehouseUnavailableError):
                _LOG.exception("request %s failed", request_id)
            if status:
                raise  # part of the answer is sent: the server closes the connection, so that it does not look complete
            await self._answer_error(Request(inner), error)(inner, receive, pass_on)
        finally:
            seconds = time.perf_counter() - began
            self._measures.answered(inner, scope["method"], status, seconds)
            _report(current, inner, scope["method"], status=status, seconds=seconds, request_id=request_id)


def _report(current: Span, scope: Scope, method: str, *, status: int, seconds: float, request_id: str) -> None:
    """Complete the span of a request and log its line."""
    endpoint, rows = endpoint_of(scope), notes_of(scope).rows or None
    current.update_name(f"{method_of(method)} {endpoint}")
    current.set_attributes({"http.route": endpoint, "http.response.status_code": status})
    if rows is not None:
        current.set_attribute("seller_platform.rows", rows)
    if status >= 500:
        mark_failed(current, str(status))
    path = scope.get("raw_path", b"").partition(b"?")[0].decode("ascii", "backslashreplace")[:200]
    milliseconds = round(seconds * 1000, 1)
    fields = facts(method=method, path=path, endpoint=endpoint, status=status, milliseconds=milliseconds, rows=rows)
    _LOG.info("%s %s %d %.1f ms %s", method, path, status, milliseconds, request_id, extra=fields)
