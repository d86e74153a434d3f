"""An HTTP server of a test: what its handlers have in common, and the server until a block ends."""

import re
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from seller_platform_tests.support.tls_proxy import listening


class Handler(BaseHTTPRequestHandler):
    """A handler that writes no log lines."""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send a whole answer."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    """A server that does not print a traceback for each client that was killed."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on a free port of the loopback interface, and yield the URL."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def sending(*answers: bytes) -> Iterator[str]:
    """Send these bytes as the answers to one request after the other, and then the last ones again.

    Each connection is closed after its answer. The URL is yielded.
    """
    remaining = list(answers)

    def serve(client: socket.socket) -> None:
        with client.makefile("rb") as request:
            head = b"".join(iter(request.readline, b"\r\n"))
            length = re.search(rb"(?i)\ncontent-length: (\d+)", head)
            request.read(int(length[1]) if length else 0)
        client.sendall(remaining.pop(0) if len(remaining) > 1 else remaining[0])

    with listening(serve) as port:
        yield f"http://127.0.0.1:{port}"


def framed(body: bytes, *headers: str, framing: str = "length", status: str = "200 OK") -> bytes:
    """Return the bytes of an answer whose end is shown by its length, by chunks, or by the end of the connection."""
    if framing == "chunked":
        size = 1 + len(body) // 9
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    lines = {"length": [f"Content-Length: {len(body)}"], "chunked": ["Transfer-Encoding: chunked"], "close": []}
    head = [f"HTTP/1.1 {status}", *lines[framing], *headers, "Connection: close"]
    return "\r\n".join([*head, "", ""]).encode() + body
