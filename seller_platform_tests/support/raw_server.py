"""An HTTP server whose answers a test writes, and whose bytes a fault sends as networks and gateways do.

A fault takes the connection and a function that returns the answer; without one, the answer is sent whole.
"""

import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.client import parse_headers
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from seller_platform_tests.support.tls_proxy import listening

_STALL_SECONDS = 600.0


@dataclass(frozen=True)
class Request:
    """A request, as an answer and a plan see it.

    Attributes:
        target: The path and the query, as sent.
        headers: By name in lower case.
        number: Counts the requests of this method and path, from 1.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    number: int

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))


@dataclass(frozen=True)
class Answer:
    """A complete answer; its headers say nothing of how the body is framed."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, document: object, status: int = 200) -> "Answer":
        return cls(status, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def encode(self) -> bytes:
        return self.framed(self.body, closes=False)

    def framed(self, body: bytes, *headers: str, framing: str = "length", closes: bool = True) -> bytes:
        """Return the bytes of the answer with another body, as `framed` does."""
        own = (f"{name}: {value}" for name, value in self.headers.items())
        return framed(body, *own, *headers, framing=framing, status=f"{self.status} x", closes=closes)


def framed(body: bytes, *headers: str, framing: str = "length", status: str = "200 OK", closes: bool = True) -> bytes:
    """Return the bytes of an answer whose end is shown by its length, by chunks, or by the end of the connection."""
    if framing == "chunked":
        size = 1 + len(body) // 9
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    lines = {"length": [f"Content-Length: {len(body)}"], "chunked": ["Transfer-Encoding: chunked"], "close": []}
    head = [f"HTTP/1.1 {status}", *lines[framing], *headers, *(["Connection: close"] if closes else [])]
    return "\r\n".join([*head, "", ""]).encode() + body


class Wire:
    """The connection to the client."""

    def __init__(self, connection: socket.socket, ended: threading.Event) -> None:
        self._connection, self._ended = connection, ended

    def send(self, *pieces: bytes, pause_seconds: float = 0) -> None:
        for piece in pieces:
            self._connection.sendall(piece)
            self._ended.wait(pause_seconds)

    def stall(self) -> None:
        """Send nothing for a long time, or until the server ends."""
        self._ended.wait(_STALL_SECONDS)

    def reset(self) -> None:
        """Let the connection end with a reset, as a crashed gateway does."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


Ask = Callable[[], Answer]
Fault = Callable[[Wire, Ask], None]
Plan = Callable[[Request], Fault | None]


@dataclass
class RawServer:
    """A running server.

    Attributes:
        plan: Returns the fault of a request; None sends the answer whole. It may be replaced at any time.
        seen: How often each method and path was requested.
    """

    answer: Callable[[Request], Answer]
    plan: Plan = lambda _: None
    url: str = ""
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def serve(self, connection: socket.socket) -> None:
        """Answer the requests of a connection; a fault ends it."""
        with connection.makefile("rb") as file:
            while line := file.readline():
                method, target, _ = line.decode("latin-1").split(" ")
                headers = {name.lower(): value for name, value in parse_headers(file).items()}
                body = file.read(int(headers.get("content-length", 0)))
                address = urlsplit(target)
                target = f"{address.path}?{address.query}".removesuffix("?")  # a proxy is sent the whole URL
                self.seen[method, address.path] += 1
                request = Request(method, target, headers, body, self.seen[method, address.path])
                fault, wire = self.plan(request), Wire(connection, self.ended)
                if fault is not None:
                    self.faults += 1
                    fault(wire, lambda: self.answer(request))  # noqa: B023  # it is called at once
                    return
                wire.send(self.answer(request).encode())


@contextmanager
def serving(answer: Callable[[Request], Answer], plan: Plan = lambda _: None) -> Iterator[RawServer]:
    """Serve on a free port of the loopback interface until the block ends."""
    server = RawServer(answer, plan)
    with listening(server.serve) as port:
        server.url = f"http://127.0.0.1:{port}"
        try:
            yield server
        finally:
            server.ended.set()


@contextmanager
def sending(*answers: bytes) -> Iterator[str]:
    """Send these bytes as the answers to one request after the other, and then the last ones again.

    Each connection is closed after its answer. The URL is yielded.
    """
    remaining = list(answers)

    def plan(_: Request) -> Fault:
        data = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return lambda wire, ask: wire.send(data)

    with serving(lambda _: Answer(), plan) as server:
        yield server.url


def sent(send: Callable[[Answer], Iterable[bytes]], pause_seconds: float = 0) -> Fault:
    """Send the pieces of bytes that a function makes of the answer."""
    return lambda wire, ask: wire.send(*send(ask()), pause_seconds=pause_seconds)


def status(code: int, *, retry_after: str | int | None = None, headers: Mapping[str, str] | None = None) -> Fault:
    """Answer with an error, without asking the upstream."""
    pause = {} if retry_after is None else {"Retry-After": str(retry_after)}
    answer = Answer.of({"status": "error", "code": code}, code)
    return lambda wire, ask: wire.send(replace(answer, headers={**answer.headers, **pause, **(headers or {})}).encode())


def reset_in_the_body(share: float = 0.5) -> Fault:
    """Send the head and a part of the body, and reset the connection."""

    def fault(wire: Wire, ask: Ask) -> None:
        answer = ask()
        data, length = answer.encode(), len(answer.body)
        wire.send(data[: len(data) - length + int(length * share)])
        wire.reset()

    return fault


def reset_at_once() -> Fault:
    """Reset the connection without asking the upstream."""
    return lambda wire, ask: wire.reset()


def lost_answer() -> Fault:
    """Ask the upstream, and reset the connection instead of answering."""

    def fault(wire: Wire, ask: Ask) -> None:
        ask()
        wire.reset()

    return fault


def truncated(share: float = 0.5) -> Fault:
    """Cut the body and announce the cut length, so that only the document is broken."""
    return sent(lambda answer: [answer.framed(answer.body[: int(len(answer.body) * share)])])


def html_page(code: int = 200) -> Fault:
    """Answer with an HTML page."""
    body = b"<!doctype html><title>Maintenance</title><p>We will be back soon."
    page = Answer(code, body, {"Content-Type": "text/html"})
    return lambda wire, ask: wire.send(page.encode())


def stall(*, asked: bool = False, share: float = 0) -> Fault:
    """Send nothing for a long time.

    Args:
        asked: Ask the upstream first, and keep the answer.
        share: The part of the answer that is sent before; the upstream is asked then.
    """

    def fault(wire: Wire, ask: Ask) -> None:
        if asked or share:
            data = ask().encode()
            wire.send(data[: int(len(data) * share)])
        wire.stall()
        wire.reset()

    return fault


def drip(seconds: float, pieces: int = 20) -> Fault:
    """Send the answer in small pieces, in the given number of seconds in total."""

    def cut(answer: Answer) -> Iterator[bytes]:
        data = answer.encode()
        size = max(1, -(-len(data) // pieces))
        return (data[start : start + size] for start in range(0, len(data), size))

    return sent(cut, seconds / pieces)


def rewritten(change: Callable[[Any], Any]) -> Fault:
    """Change the JSON document of the answer."""

    def changed(answer: Answer) -> bytes:
        return json.dumps(change(json.loads(answer.body))).encode() if answer.status == 200 else answer.body

    return sent(lambda answer: [answer.framed(changed(answer))])
