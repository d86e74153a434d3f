"""Bounds for connections: bytes and time of a request, connections of an address and in all.

uvicorn's own protocol reads a head of any size, and waits for the rest of a request for ever.
"""

import asyncio
import ipaddress
import logging
import re
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import httptools
import msgspec
import uvicorn
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from seller_platform.contract.wire import error_body
from seller_platform.counts import count_of
from seller_platform.service.http.addresses import network_of

NOTE_REFUSAL = "seller_platform.note_refusal"
"""The name in the application's state of the function that counts a refused connection by its reason."""

_LOG = logging.getLogger("seller_platform.service.http.connections")
_EMPTY_LINE = b"\r\n\r\n"
_MOST_UNPARSED = 256 << 10
_METHOD = re.compile(rb"[A-Za-z!#$%&'*+.^_`|~-]{1,40} ")


@dataclass(frozen=True)
class ConnectionLimits:
    """What a connection may send and how long it may take.

    Attributes:
        head_bytes: The longest request line and headers together.
        headers: The most headers of a request.
        head_seconds: How long the head of a request may take.
        body_seconds: How long a body may take beside the time that the slowest rate allows it.
        bytes_per_second: The slowest rate of a body, and at which an answer is read.
        answer_seconds: How long an answer may be read more slowly than that.
        idle_seconds: How long a connection may wait for its next request.
        linger_seconds: How long a client may still send after it was refused.
        connections: The most connections of one process.
        of_one_address: The most connections of one address (of IPv6, one network of 64 bits) that is no trusted proxy.
        trusted_proxies: Addresses and networks whose X-Forwarded-* headers are trusted.
    """

    head_bytes: int = 32 << 10
    headers: int = 100
    head_seconds: float = 10.0
    body_seconds: float = 10.0
    bytes_per_second: int = 4 << 10
    answer_seconds: float = 30.0
    idle_seconds: float = 5.0
    linger_seconds: float = 2.0
    connections: int = 2_000
    of_one_address: int = 100
    trusted_proxies: tuple[str, ...] = ()

    @property
    def inspection_seconds(self) -> float:
        """How often a connection is inspected."""
        return min(self.head_seconds, self.body_seconds, self.answer_seconds) / 4


DEFAULT_LIMITS = ConnectionLimits()


class BoundedConfig(uvicorn.Config):
    """A configuration of uvicorn whose connections are bounded."""

    def __init__(self, app: Any, *, limits: ConnectionLimits = DEFAULT_LIMITS, **options: Any) -> None:
        self.limits = limits
        self.of_address: Counter[str] = Counter()
        super().__init__(
            app,
            http=BoundedProtocol,
            ws="none",  # a WebSocket would leave the bounds; the service has none
            timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]  # passed on to call_later
            forwarded_allow_ips=list(limits.trusted_proxies),
            **options,
        )


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol within the limits of its configuration.

    A connection is always in a head (`_in_head`, which includes the time between requests) or in a body. Requests are
    parsed one at a time: bytes behind a request wait until it is answered.
    """

    config: BoundedConfig

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn's own class
        super().connection_made(transport)
        self._limits = self.config.limits
        self._in_head, self._head_left = True, self._limits.head_bytes
        self._head_began: float | None = self.loop.time()
        self._body_began, self._body_bytes, self._silent_bytes, self._has_body = 0.0, 0, 0, False
        self._answered_at: float | None = None
        self._unsent, self._slow_seconds, self._was_resumed = 0, 0.0, False
        self._is_deaf, self._problem = False, ""
        self._answering: RequestResponseCycle | None = None
        self._unparsed = b""
        self._network = network_of(self.client[0]) if self.client else ""
        self._inspected_at = self.loop.time()
        self._inspection = self.loop.call_later(self._limits.inspection_seconds, self._inspect)
        self.config.of_address[self._network] += 1
        is_proxy = self.client is not None and _is_trusted(self.client[0], self._limits.trusted_proxies)
        if len(self.connections) > self._limits.connections:
            self._refuse(503, "the service has too many connections; try again in a few seconds", "connections")
        elif not is_proxy and self.config.of_address[self._network] > self._limits.of_one_address:
            text = (
                f"your address has more than {count_of(self._limits.of_one_address, 'connection')}; close some of them"
            )
            self._refuse(503, text, "connections of an address")

    def connection_lost(self, exc: Exception | None) -> None:
        self._inspection.cancel()
        self.config.of_address[self._network] -= 1
        if not self.config.of_address[self._network]:
            del self.config.of_address[self._network]
        super().connection_lost(exc)
        self._give_up()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        data, self._unparsed, position = self._unparsed + data, b"", 0
        while position < len(data) and not self._is_deaf and not self.transport.is_closing():
            if self._in_head and self._is_answering:
                self._unparsed = data[position:]
                self.flow.pause_reading()
                if len(self._unparsed) > _MOST_UNPARSED:
                    self._refuse(400, "too much was sent behind a request under way", "pipelined requests")
                return
            # A head ends with an empty line, and so does a body in chunks: no part contains the ends of two.
            end = position + (self._head_left if self._in_head else self._limits.head_bytes)
            empty_line = data.find(_EMPTY_LINE, position, end)
            end = empty_line + len(_EMPTY_LINE) if empty_line >= 0 else end
            part, position = data[position:end], end
            if self._in_head:
                self._head_left -= len(part)
                self._head_began = self._head_began or self.loop.time()
            else:
                self._body_bytes += len(part)
            self._has_body = False
            if not self._parse(part):
                return
            # Headers after a body are kept by the parser until they end, as those before it.
            self._silent_bytes = 0 if self._in_head or self._has_body else self._silent_bytes + len(part)
            if (self._in_head and self._head_left <= 0) or self._silent_bytes > self._limits.head_bytes:
                self._refuse_head()

    @property
    def _is_answering(self) -> bool:
        return self._answering is not None and not self._answering.response_complete

    def _parse(self, part: bytes) -> bool:
        """Give bytes to the parser, and return whether it can take more of this connection."""
        try:
            self.parser.feed_data(part)
            return True
        except httptools.HttpParserInvalidMethodError:
            if self._in_head and _METHOD.match(part):
                self._refuse(501, "this method of HTTP is not known here; OPTIONS lists those of a path", "method")
            else:
                self._refuse(400, "this is not a request of HTTP/1.1", "not HTTP")
        except httptools.HttpParserUpgrade:
            # The request itself is answered; what follows is in another protocol.
            self._is_deaf = True
            self.cycle.keep_alive = False
        except httptools.HttpParserError:
            if self._problem == "head":
                self._refuse_head()
            else:
                self._refuse(400, "this is not a request of HTTP/1.1", self._problem or "not HTTP")
        return False

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= self._limits.headers:
            self._problem = "head"
            raise ValueError(self._problem)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head = False
        self._body_began, self._body_bytes, self._silent_bytes = self.loop.time(), 0, 0
        self._answered_at = None

    def on_body(self, body: bytes) -> None:
        self._has_body = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._head_left, self._head_began = True, self._limits.head_bytes, None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._answered_at = self.loop.time()
        if self._unparsed:
            self.data_received(b"")

    def resume_writing(self) -> None:
        self._was_resumed = True
        super().resume_writing()

    def _inspect(self) -> None:
        """End the connection if it is over a limit of time."""
        now = self.loop.time()
        elapsed, self._inspected_at = now - self._inspected_at, now
        self._inspection = self.loop.call_later(self._limits.inspection_seconds, self._inspect)
        if self._is_unread(elapsed):
            self._note("an answer was not read")
            self.transport.abort()
        elif self._is_deaf or self.transport.is_closing():
            return
        elif self._in_head:
            if self._is_answering:
                self._head_began = now if self._head_began is not None else None
            elif self._head_began is not None and now - self._head_began > self._limits.head_seconds:
                text = f"the head of the request took longer than {count_of(self._limits.head_seconds, 'second')}"
                self._refuse(408, text, "time of a head")
        elif self._answered_at is not None:
            if now - self._answered_at > self._limits.linger_seconds:
                self.transport.close()
        elif self.flow.read_paused:
            self._body_began += elapsed  # the service was slow, not the client
        elif now - self._body_began > self._limits.body_seconds + self._body_bytes / self._limits.bytes_per_second:
            self._refuse(408, "the body of the request came too slowly", "time of a body")

    def _is_unread(self, elapsed: float) -> bool:
        """Whether the client has read an answer too slowly for too long."""
        unsent = self.transport.get_write_buffer_size()
        is_slow = unsent > max(0, self._unsent - self._limits.bytes_per_second * elapsed) and not self._was_resumed
        self._slow_seconds = self._slow_seconds + elapsed if is_slow else 0.0
        self._unsent, self._was_resumed = unsent, False
        return self._slow_seconds > self._limits.answer_seconds

    def _refuse_head(self) -> None:
        limits = self._limits
        text = f"the head of the request has more than {limits.head_bytes} bytes or {limits.headers} headers"
        self._refuse(431, text, "head")

    def _refuse(self, status: int, message: str, reason: str) -> None:
        """Answer with an error, unless another answer is under way, and end the connection."""
        self._note(reason)
        self._is_deaf = True
        cycle = self._answering
        has_begun = self._is_answering and (cycle is not self.cycle or self.cycle.response_started or self._in_head)
        self._give_up()
        if has_begun:
            self.transport.close()
            return
        self.transport.write(_refusal(status, message))
        if status == 503:
            self.transport.close()
            return
        # What the client still sends is read for a moment: a connection closed with unread bytes loses the answer.
        self.transport.write_eof()
        self.loop.call_later(self._limits.linger_seconds, self.transport.abort)

    def _give_up(self) -> None:
        """End the answer under way and those that wait; uvicorn ends only the one that came last."""
        if self._answering is not None and self._is_answering:
            self._answering.disconnected = True
            self._answering.message_event.set()
        self.pipeline.clear()

    def _note(self, reason: str) -> None:
        note: Callable[[str], None] | None = self.app_state.get(NOTE_REFUSAL)
        if note is not None:
            note(reason)
        _LOG.info("a connection was ended: %s", reason)


def _refusal(status: int, message: str) -> bytes:
    body = msgspec.json.encode(error_body(status, message))
    headers = (
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\nx-request-id: {uuid.uuid4().hex}\r\n"
        "cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n"
    )
    if status == 503:
        headers += "retry-after: 5\r\n"
    return b"".join((STATUS_LINE[status], headers.encode(), b"\r\n", body))


@lru_cache(1024)
def _is_trusted(host: str, proxies: tuple[str, ...]) -> bool:
    address = ipaddress.ip_address(host.partition("%")[0])
    return any(address in ipaddress.ip_network(proxy) for proxy in proxies)
