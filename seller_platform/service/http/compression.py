"""Compresses large answers for callers who accept gzip.

Answers marked `no-store`, which are pages and those of the token endpoint, are not compressed. They hold secrets beside
text that the request chooses, so that the compressed length could reveal the secrets (BREACH). Answers marked `public`
are documents, which are compressed once where they are made.
"""

import zlib

import anyio.to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SMALLEST = 1 << 10
_LEVEL = 1
_GZIP = 16 + zlib.MAX_WBITS
_OFF_THE_LOOP = 64 << 10
_COMPRESSIBLE = ("application/json", "text/csv", "text/css", "text/javascript")


class Compress:
    """ASGI middleware that compresses answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        accepted = accepts_gzip(",".join(Headers(scope=scope).getlist("accept-encoding")))
        await self._app(scope, receive, _Answer(send, accepted=accepted).send)


class _Answer:
    """Sends one answer. Its head waits for the first part of the body, which shows how large the answer is."""

    def __init__(self, send: Send, *, accepted: bool) -> None:
        self._send = send
        self._accepted = accepted
        self._head: Message | None = None
        self._compressor: zlib._Compress | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_compressible(message):
            self._head = message
            return
        if message["type"] == "http.response.body":
            if self._head is not None:
                await self._begin(self._head, message)
                self._head = None
            if self._compressor is not None:
                message = {**message, "body": await self._compressed(message)}
        await self._send(message)

    async def _begin(self, head: Message, first: Message) -> None:
        is_whole = not first.get("more_body", False)
        headers = MutableHeaders(scope=head)
        if not is_whole or len(first.get("body", b"")) >= SMALLEST:
            headers.add_vary_header("Accept-Encoding")
            if self._accepted:
                self._compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
                headers["Content-Encoding"] = "gzip"
                del headers["Content-Length"]
                if is_whole:
                    compressed = await self._compressed(first)
                    headers["Content-Length"] = str(len(compressed))
                    self._compressor = None
                    first["body"] = compressed
        await self._send(head)

    async def _compressed(self, message: Message) -> bytes:
        compressor = self._compressor
        assert compressor
        body, is_last = message.get("body", b""), not message.get("more_body", False)

        def compress() -> bytes:
            return compressor.compress(body) + (compressor.flush() if is_last else b"")

        return compress() if len(body) < _OFF_THE_LOOP else await anyio.to_thread.run_sync(compress)


def accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding header accepts gzip (RFC 9110 section 12.5.3)."""
    qualities = {}
    for part in header.lower().split(","):
        coding, _, parameters = part.partition(";")
        quality = parameters.replace(" ", "").partition("q=")[2]
        qualities[coding.strip()] = not quality or quality.strip("0.") != ""
    return qualities.get("gzip", qualities.get("*", False))


def _is_compressible(head: Message) -> bool:
    headers = Headers(raw=head["headers"])
    return (
        headers.get("content-type", "").partition(";")[0] in _COMPRESSIBLE
        and not headers.get("cache-control", "").startswith(("no-store", "public"))
        and "content-encoding" not in headers
    )
