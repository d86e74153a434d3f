"""The callback: a server on the loopback interface that receives the authorisation code."""

import hmac
import queue
import socket
import socketserver
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from seller_platform.client.http.responses import shortened
from seller_platform.counts import count_of
from seller_platform.errors import AuthorizationDeniedError, InvalidSettingError

_SETTING = "SELLER_API_REDIRECT_URI"
_LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1"}
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'",
    "Connection": "close",
}
_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Seller Platform</title>'
    "<body><h1>{heading}</h1><p>{text}</p></body></html>"
)


_Page = tuple[int, str, str]
"""The status of an answer, its heading and its text."""

_GRANTED = 200, "Access granted", "You can close this window and go back to the terminal."
_DENIED = 200, "Access was not granted", "You can close this window; the terminal says what to do next."
_FOREIGN = 400, "Not the answer we wait for", "Please use the link that the terminal shows."
_NOWHERE = 404, "Nothing here", "This address only receives the answer to an authorisation."


class CallbackServer(socketserver.ThreadingTCPServer):
    """Listens on the redirect URI until the block ends.

    It serves each connection in its own thread, because browsers open some without using them.

    Args:
        state: The state of the request; callbacks with another one are refused.
        issuer: The issuer that the answer must name (RFC 9207); by default any or none.

    Raises:
        InvalidSettingError: No server can listen on the redirect URI, or its port is in use.
    """

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, redirect_uri: str, state: str, issuer: str | None = None) -> None:
        address, self.path = _address(redirect_uri)
        self.state, self.issuer = state, issuer
        self.results: queue.Queue[str | AuthorizationDeniedError] = queue.Queue()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        try:
            super().__init__(address, _Handler)
        except OSError as error:
            raise InvalidSettingError(
                _SETTING,
                f"port {address[1]} cannot be listened on ({error.strerror}). End the program that holds it, or "
                "register a redirect URI with another port",
            ) from None
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="callback", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that closed its connection."""

    def wait(self, timeout_seconds: float) -> str:
        """Return the authorisation code, when the callback receives it with the expected state.

        Raises:
            AuthorizationDeniedError: The upstream sent an error instead, or nothing in time; or another issuer
                answered.
        """
        try:
            result = self.results.get(timeout=max(0.0, timeout_seconds))
        except queue.Empty:
            raise AuthorizationDeniedError(
                f"access was not approved within {count_of(timeout_seconds, 'second')}"
            ) from None
        if isinstance(result, AuthorizationDeniedError):
            raise result
        return result


def _judged(
    query: Mapping[str, list[str]], state: str, issuer: str | None
) -> tuple[_Page, str | AuthorizationDeniedError | None]:
    """Return the page that answers a callback, and the result of the authorisation if it has our state.

    A parameter counts if it was sent exactly once.
    """
    sent = {name: values[0] for name, values in query.items() if len(values) == 1}
    code, error = sent.get("code"), sent.get("error")
    has_our_state = hmac.compare_digest(sent.get("state", "").encode(), state.encode())
    if has_our_state and issuer is not None and sent.get("iss") != issuer:
        answered = shortened(sent.get("iss", "")) or "an unnamed issuer"
        return _DENIED, AuthorizationDeniedError(f"the answer came from {answered}, not from {issuer}")
    if has_our_state and error:
        message = f"{error}: {sent.get('error_description', '')}".strip(": ")
        return _DENIED, AuthorizationDeniedError(f"the upstream answered {shortened(message)}")
    if has_our_state and code:
        return _GRANTED, code
    return _FOREIGN, None


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


class _Handler(BaseHTTPRequestHandler):
    server: CallbackServer
    timeout = 15
    server_version = "seller-platform"
    sys_version = ""

    def do_GET(self) -> None:  # the name is the standard library's
        target = urlsplit(self.path)
        if target.path != self.server.path:
            self._send(_NOWHERE)
            return
        query = parse_qs(target.query, keep_blank_values=True, max_num_fields=100)
        page, result = _judged(query, self.server.state, self.server.issuer)
        try:
            self._send(page)
        finally:  # only now, because the program may end right after
            if result is not None:
                self.server.results.put(result)

    def _send(self, page: _Page) -> None:
        status, heading, text = page
        body = _PAGE.format(heading=heading, text=text).encode()
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the request line carries the code."""
