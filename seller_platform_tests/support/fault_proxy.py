"""A proxy between client and service that breaks answers as networks and gateways do.

It forwards HTTP/1.1 requests, each on a new connection to the service. A plan chooses the fault of each answer. The
proxy runs in a thread with its own event loop, so tests and other processes use it like any upstream.
"""

import asyncio
import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import urlsplit

_STALL_SECONDS = 600.0


@dataclass(frozen=True)
class Request:
    """A request, as a plan sees it.

    Attributes:
        number: Counts the requests of this method and path, from 1.
    """

    method: str
    path: str
    query: str
    body: bytes
    number: int


@dataclass(frozen=True)
class Answer:
    """A complete answer of the service."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def with_body(self, body: bytes) -> "Answer":
        return Answer(self.status, self.headers, body)

    def encode(self, *, announced: int | None = None) -> bytes:
        """Return the bytes of the answer.

        Args:
            announced: The value of `content-length`; by default, the length of the body.
        """
        kept = [(name, value) for name, value in self.headers if name.lower() not in _FRAMING]
        lines = [f"HTTP/1.1 {self.status} x", *(f"{name}: {value}" for name, value in kept)]
        length = len(self.body) if announced is None else announced
        return "\r\n".join([*lines, f"content-length: {length}", "connection: close", "", ""]).encode() + self.body


_FRAMING = ("content-length", "transfer-encoding", "connection")

Ask = Callable[[], Awaitable[Answer]]
Fault = Callable[["Wire", Ask], Awaitable[None]]
Plan = Callable[[Request], Fault | None]


class Wire:
    """The connection to the client."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def reset(self) -> None:
        """End the connection with a reset, as a crashed gateway does."""
        connection = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


async def _honest(wire: Wire, ask: Ask) -> None:
    await wire.send((await ask()).encode())


def status(code: int, *, retry_after: str | int | None = None, headers: Mapping[str, str] | None = None) -> Fault:
    """Answer with an error, without asking the service."""

    async def fault(wire: Wire, ask: Ask) -> None:
        answer_headers = {"content-type": "application/json", **(headers or {})}
        if retry_after is not None:
            answer_headers["retry-after"] = str(retry_after)
        await wire.send(
            Answer(code, tuple(answer_headers.items()), json.dumps({"status": "error", "code": code}).encode()).encode()
        )

    return fault


def retry_date(seconds: float) -> str:
    """Return a Retry-After header in its date form, that many seconds from now."""
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


def reset_in_the_body(share: float = 0.5) -> Fault:
    """Send the head and a part of the body, and reset the connection."""

    async def fault(wire: Wire, ask: Ask) -> None:
        answer = await ask()
        await wire.send(
            answer.with_body(answer.body[: int(len(answer.body) * share)]).encode(announced=len(answer.body))
        )
        wire.reset()

    return fault


def reset_at_once() -> Fault:
    """Reset the connection without forwarding the request."""

    async def fault(wire: Wire, ask: Ask) -> None:
        wire.reset()

    return fault


def lost_answer() -> Fault:
    """Forward the request, and reset the connection instead of answering."""

    async def fault(wire: Wire, ask: Ask) -> None:
        await ask()
        wire.reset()

    return fault


def truncated(share: float = 0.5) -> Fault:
    """Cut the body and announce the cut length, so that only the document is broken."""

    async def fault(wire: Wire, ask: Ask) -> None:
        answer = await ask()
        await wire.send(answer.with_body(answer.body[: int(len(answer.body) * share)]).encode())

    return fault


def html_page(code: int = 200) -> Fault:
    """Answer with an HTML page."""

    async def fault(wire: Wire, ask: Ask) -> None:
        page = b"<!doctype html><title>Maintenance</title><p>We will be back soon."
        await wire.send(Answer(code, (("content-type", "text/html"),), page).encode())

    return fault


def stall(*, asked: bool = False, share: float = 0) -> Fault:
    """Send nothing for a long time.

    Args:
        asked: Forward the request first, and keep the answer.
        share: The part of the answer that is sent before; the request is forwarded then.
    """

    async def fault(wire: Wire, ask: Ask) -> None:
        if asked or share:
            data = (await ask()).encode()
            await wire.send(data[: int(len(data) * share)])
        await asyncio.sleep(_STALL_SECONDS)
        wire.reset()

    return fault


def drip(seconds: float, pieces: int = 20) -> Fault:
    """Send the answer in small pieces, in the given number of seconds in total."""

    async def fault(wire: Wire, ask: Ask) -> None:
        data = (await ask()).encode()
        size = max(1, -(-len(data) // pieces))
        for start in range(0, len(data), size):
            await wire.send(data[start : start + size])
            await asyncio.sleep(seconds / pieces)

    return fault


def rewritten(change: Callable[[Any], Any]) -> Fault:
    """Change the JSON document of the answer."""

    async def fault(wire: Wire, ask: Ask) -> None:
        answer = await ask()
        if answer.status == 200:
            answer = answer.with_body(json.dumps(change(json.loads(answer.body))).encode())
        await wire.send(answer.encode())

    return fault


def after(act: Callable[[], None]) -> Fault:
    """Call a function after the service has answered, and before the answer is sent.

    It changes the rows between two pages, for example.
    """

    async def fault(wire: Wire, ask: Ask) -> None:
        answer = await ask()
        await asyncio.to_thread(act)
        await wire.send(answer.encode())

    return fault


@dataclass
class Proxy:
    """A running proxy.

    Attributes:
        url: The base URL.
        plan: Returns the fault of a request; None leaves the answer unchanged. It may be replaced at any time.
        seen: How often each method and path was requested.
        faults: How many answers it broke.
    """

    target: str
    plan: Plan = lambda _: None
    url: str = ""
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: int = 0
    bodies: list[Request] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return self.seen.total()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, TimeoutError):
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            method, target, _ = first.split(" ")
            headers = [tuple(line.split(": ", 1)) for line in lines if line]
            length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
            body = await reader.readexactly(length)
            parts = urlsplit(target)
            self.seen[method, parts.path] += 1
            request = Request(method, parts.path, parts.query, body, self.seen[method, parts.path])
            self.bodies.append(request)
            fault = self.plan(request)
            self.faults += fault is not None
            await (fault or _honest)(Wire(writer), lambda: self._ask(method, target, headers, body))
        with suppress(ConnectionError):
            writer.close()

    async def _ask(self, method: str, target: str, headers: list[Any], body: bytes) -> Answer:
        address = urlsplit(self.target)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            kept = [
                f"{name}: {value}" for name, value in headers if name.lower() not in ("connection", "accept-encoding")
            ]
            head = "\r\n".join([f"{method} {target} HTTP/1.1", *kept, "connection: close", "", ""])
            writer.write(head.encode("latin-1") + body)
            await writer.drain()
            response_head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            response_headers = tuple(tuple(line.split(": ", 1)) for line in response_head[1:] if line)
            rest = await reader.read()
        finally:
            writer.close()
        chunked = any(name.lower() == "transfer-encoding" for name, _ in response_headers)
        return Answer(int(response_head[0].split(" ")[1]), response_headers, _dechunked(rest) if chunked else rest)  # type: ignore[arg-type]  # pairs


def _dechunked(data: bytes) -> bytes:
    pieces = []
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            break
        pieces.append(data[:length])
        data = data[length + 2 :]
    return b"".join(pieces)


@contextmanager
def open_proxy(target: str, plan: Plan = lambda _: None) -> Iterator[Proxy]:
    """Run a proxy for a service on a free loopback port, until the block ends.

    Args:
        target: The base URL of the service, without a path.
    """
    proxy, loop = Proxy(target, plan), asyncio.new_event_loop()
    started = threading.Event()

    async def begin() -> asyncio.Server:
        server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0, limit=1 << 20)
        proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def end_tasks() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def run() -> None:
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(begin())
        started.set()
        loop.run_forever()
        server.close()
        loop.run_until_complete(end_tasks())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
