"""The callback: a server on the loopback interface that receives the authorisation code."""

import hmac
import queue
import socket
import socketserver
import threading
import time
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from seller_platform.client.http.responses import shortened
from seller_platform.errors import AuthorizationDeniedError, InvalidSettingError

_SETTING = "SELLER_API_REDIRECT_URI"
_LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1"}
_JUDGED_WITHIN_SECONDS = 30.0
_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Seller Platform</title>'
    "<body><h1>{heading}</h1><p>{text}</p></body></html>"
)


@dataclass(frozen=True)
class _Page:
    status: int
    heading: str
    text: str

    @property
    def body(self) -> bytes:
        return _PAGE.format(heading=escape(self.heading), text=escape(self.text)).encode()


_GRANTED = _Page(200, "Access granted", "You can close this window and go back to the terminal.")
_DENIED = _Page(200, "Access was not granted", "You can close this window; the terminal says what to do next.")
_FOREIGN = _Page(400, "Not the answer we wait for", "Please use the link that the terminal shows.")
_LATE = _Page(503, "Nobody is waiting", "Please run the command again.")
_NOWHERE = _Page(404, "Nothing here", "This address only receives the answer to an authorisation.")


@dataclass
class _Received:
    """One request to the callback, and the page that answers it."""

    query: dict[str, list[str]]
    page: _Page = _LATE
    judged: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)

    def one(self, name: str) -> str | None:
        """Return the value of a parameter that was sent exactly once."""
        values = self.query.get(name, [])
        return values[0] if len(values) == 1 else None


class CallbackServer:
    """Listens on the redirect URI until the block ends.

    Raises:
        InvalidSettingError: No server can listen on the redirect URI, or its port is in use.
    """

    def __init__(self, redirect_uri: str) -> None:
        address, path = _address(redirect_uri)
        self._received: queue.Queue[_Received] = queue.Queue()
        try:
            self._server = _Server(address, path, self._received)
        except OSError as error:
            raise InvalidSettingError(
                _SETTING,
                f"port {address[1]} cannot be listened on ({error.strerror}). End the program that holds it, or "
                "register a redirect URI with another port",
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="callback", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait(self, state: str, timeout_seconds: float) -> str:
        """Return the authorisation code, when the callback receives it with the expected state.

        Raises:
            AuthorizationDeniedError: The upstream sent an error instead, or nothing in time.
        """
        ends = time.monotonic() + timeout_seconds
        while True:
            try:
                received = self._received.get(timeout=max(0.0, ends - time.monotonic()))
            except queue.Empty:
                raise AuthorizationDeniedError(f"access was not approved within {timeout_seconds:g} seconds") from None
            code, error = received.one("code"), received.one("error")
            has_our_state = hmac.compare_digest((received.one("state") or "").encode(), state.encode())
            if not has_our_state or not (code or error):
                _answer(received, _FOREIGN)
            elif error:
                _answer(received, _DENIED)
                message = f"{error}: {received.one('error_description') or ''}".strip(": ")
                raise AuthorizationDeniedError(f"the upstream answered {shortened(message)}")
            elif code:
                _answer(received, _GRANTED)
                return code


def _answer(received: _Received, page: _Page) -> None:
    """Answer with a page and wait until it is sent.

    The program may end right after.
    """
    received.page = page
    received.judged.set()
    received.answered.wait(5)


def _address(redirect_uri: str) -> tuple[tuple[str, int], str]:
    """Return the address to listen on and the path of the callback."""
    parts = urlsplit(redirect_uri)
    if parts.scheme != "http" or (parts.hostname not in _LOOPBACK and parts.hostname != "::1"):
        raise InvalidSettingError(
            _SETTING, "must be an http address of this machine, such as http://127.0.0.1:8765/callback"
        )
    try:
        port = 80 if parts.port is None else parts.port
    except ValueError:
        port = 0
    if not port:
        raise InvalidSettingError(_SETTING, "must name a port from 1 to 65535, the one that is registered")
    return (_LOOPBACK.get(parts.hostname, "::1"), port), parts.path or "/"


class _Server(socketserver.ThreadingTCPServer):
    """Serves each connection in its own thread, because browsers open some without using them."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], path: str, received: "queue.Queue[_Received]") -> None:
        self.path, self.received = path, received
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that closed its connection."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 15
    server_version = "seller-platform"
    sys_version = ""

    def do_GET(self) -> None:  # the name is the standard library's
        target = urlsplit(self.path)
        if target.path != self.server.path:
            self._send(_NOWHERE)
            return
        received = _Received(parse_qs(target.query, keep_blank_values=True, max_num_fields=100))
        self.server.received.put(received)
        received.judged.wait(_JUDGED_WITHIN_SECONDS)
        try:
            self._send(received.page)
        finally:
            received.answered.set()

    def do_HEAD(self) -> None:  # the name is the standard library's
        self._send(_GRANTED if urlsplit(self.path).path == self.server.path else _NOWHERE, with_body=False)

    def _send(self, page: _Page, *, with_body: bool = True) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", "default-src 'none'")
        self.send_header("Connection", "close")
        self.end_headers()
        if with_body:
            self.wfile.write(page.body)
            self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the request line carries the code."""
