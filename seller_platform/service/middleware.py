"""What is done around every request: its id, HEAD, headers that protect, one line in the access log, and the 500."""

import logging
import re
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seller_platform.service.answers import error_answer
from seller_platform.service.measures import Measures, noted

REQUEST_ID = "X-Request-Id"
ACCESS_LOG = logging.getLogger("seller_platform.service.access")
_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Envelop:
    """Wraps the application.

    HEAD is answered as GET without the body. The access log never holds a query, which may carry codes and titles.
    """

    def __init__(self, app: ASGIApp, *, measures: Measures) -> None:
        self._app, self._measures = app, measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, is_head = time.perf_counter(), 0, scope["method"] == "HEAD"
        given = Headers(scope=scope).get(REQUEST_ID, "")
        request_id = given if _SANE_ID.fullmatch(given) else uuid.uuid4().hex

        async def pass_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
            elif is_head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        inner = {**scope, "method": "GET"} if is_head else scope
        noted(inner)
        try:
            with self._measures.request():
                await self._app(inner, receive, pass_on)
        except Exception as error:
            ACCESS_LOG.exception("request %s failed", request_id)
            if status:
                raise  # half an answer is out: the server closes the connection, so that nobody takes it for whole
            await error_answer(error)(inner, receive, pass_on)
        finally:
            self._measures.answered(inner, scope["method"], status, time.perf_counter() - began)
            ACCESS_LOG.info(
                "%s %s %d %.1f ms %s",
                scope["method"],
                scope.get("raw_path", b"").partition(b"?")[0].decode("ascii", "backslashreplace")[:200],
                status,
                (time.perf_counter() - began) * 1000,
                request_id,
            )
