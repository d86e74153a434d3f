"""Reads the metadata documents of clients that are not registered (draft-ietf-oauth-client-id-metadata-document).

The id of such a client is the https URL of its document, which is read only for a user who is logged in. Its host may
not lead this service to its own network: the address is resolved once, must be public, and is the one that is connected
to. What a document says is kept in memory until the user approves it; then it is stored.
"""

import asyncio
import codecs
import socket
import ssl
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx

from seller_platform.network import direct_client
from seller_platform.service.errors import ApiError, InvalidValueError
from seller_platform.service.http.addresses import is_public, url_host
from seller_platform.service.http.bodies import parse_json
from seller_platform.service.http.parameters import shown
from seller_platform.service.oauth.applications import Application, Origin
from seller_platform.service.oauth.registration_rules import (
    LONGEST_NAME,
    MOST_REDIRECT_URIS,
    check_application,
    check_redirect_uri,
)

LARGEST_BYTES = 16 << 10
SECONDS = 3.0
MOST_LOOKS = 20
"""How many documents a user may look at without an approval; then the oldest is forgotten."""

_KEPT_SECONDS, _FAILED_SECONDS = 3_600.0, 60.0
_METHOD = "none"  # a client without a secret; PKCE is required of it
_ACCEPTED = (
    f"Accepted is a JSON object of at most {LARGEST_BYTES >> 10} KiB with client_id, which is its own address; "
    f"client_name, a text of at most {LONGEST_NAME} printable characters; redirect_uris, a list of at most "
    f"{MOST_REDIRECT_URIS} addresses; and {_METHOD} as token_endpoint_auth_method, or among "
    "token_endpoint_auth_methods_supported. Ask who runs the application"
)


def is_document_url(client_id: str) -> bool:
    """Whether a client id is the URL of a document: https, with a path, without user, fragment and dot segments."""
    try:
        check_redirect_uri(client_id)
    except InvalidValueError:
        return False
    path = urlsplit(client_id).path
    return client_id.startswith("https://") and len(path) > 1 and not {".", ".."} & set(unquote(path).split("/"))


@dataclass
class _Look:
    """A document that a user looks at, and when it is forgotten."""

    reading: "asyncio.Task[Application]"
    ends_at: float = inf


class ClientDocuments:
    """The documents that users look at: each is kept for an hour, and for a minute where it cannot be used."""

    def __init__(self, private_hosts: Collection[str] = (), *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Keep nothing yet; the private hosts may have addresses that are not public."""
        self._private_hosts, self._monotonic = private_hosts, monotonic
        self._looks: dict[tuple[int, str], _Look] = {}
        # Names that take long to resolve must not hold the threads that other requests need.
        self._resolvers = ThreadPoolExecutor(4, "client-documents")

    async def read(self, user_id: int, url: str) -> None:
        """Read a document for a user, if it is not kept; redirects are not followed.

        No connection and no turn of the service may be held meanwhile.

        Raises:
            ApiError: The document cannot be read or used, or the user looks at too many at once.
        """
        now = self._monotonic()
        self._looks = {key: look for key, look in self._looks.items() if look.ends_at > now}
        look = self._looks.get((user_id, url))
        if look is None:
            own = [key for key in self._looks if key[0] == user_id]
            if len(own) >= MOST_LOOKS:
                oldest = next((key for key in own if self._looks[key].ends_at < inf), None)
                if oldest is None:
                    problem = f"{MOST_LOOKS} applications are being looked at for you; wait for them to end"
                    raise ApiError(problem, status=429, retry_after_seconds=round(SECONDS))
                del self._looks[oldest]
            look = self._looks[user_id, url] = _Look(asyncio.create_task(self._read(url)))
            look.reading.add_done_callback(partial(self._end, look))
        await asyncio.shield(look.reading)

    def of(self, user_id: int, url: str) -> Application | None:
        """Return the client of a document that was read for a user, if it is kept."""
        look = self._looks.get((user_id, url))
        return look.reading.result() if look and look.ends_at < inf and not look.reading.exception() else None

    def _end(self, look: _Look, reading: "asyncio.Task[Application]") -> None:
        has_failed = reading.cancelled() or reading.exception() is not None
        look.ends_at = self._monotonic() + (_FAILED_SECONDS if has_failed else _KEPT_SECONDS)

    async def _read(self, url: str) -> Application:
        try:
            async with asyncio.timeout(SECONDS):
                body = await self._fetch(url)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ssl.SSLError, UnicodeError) as error:
            is_late = isinstance(error, TimeoutError | httpx.TimeoutException)
            reason = f"took more than {SECONDS:.0f} s" if is_late else "cannot be read"
            raise _refused(url, f"{reason}. Try again in a minute, or ask who runs the application") from error
        return _client_of(url, body)

    async def _fetch(self, url: str) -> bytes:
        """Return the bytes of a document, from the one address that was checked."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        address = await self._address_of(url, host, parts.port or 443)
        netloc = url_host(address) if parts.port is None else f"{url_host(address)}:{parts.port}"
        headers = {"Host": parts.netloc, "Accept": "application/json", "Accept-Encoding": "identity"}
        # The variables of a proxy, and of credentials, are not for this request.
        async with (
            direct_client(timeout=SECONDS) as http,
            http.stream(
                "GET",
                urlunsplit(parts._replace(netloc=netloc)),
                headers=headers,
                extensions={"sni_hostname": host},
                follow_redirects=False,
            ) as response,
        ):
            if response.status_code != 200:
                raise _refused(url, f"is answered with status {response.status_code}, where 200 is needed")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise _refused(url, "is compressed, though it was requested without")
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > LARGEST_BYTES:
                    raise _refused(url, f"is larger than {LARGEST_BYTES >> 10} KiB. {_ACCEPTED}")
            return bytes(body)

    async def _address_of(self, url: str, host: str, port: int) -> str:
        """Return the address of a host, of which every one must be public."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._resolvers, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        addresses = [str(sockaddr[0]).partition("%")[0] for *_, sockaddr in found]
        if not addresses or not (host in self._private_hosts or all(map(is_public, addresses))):
            raise _refused(url, "is at an address that is not public, which this service does not read")
        return addresses[0]


def _client_of(url: str, body: bytes) -> Application:
    """Return the client that a document describes; one that cannot be used here is refused."""
    try:
        document: Any = parse_json(body.removeprefix(codecs.BOM_UTF8))
        if not isinstance(document, dict):
            raise ValueError("is no JSON object")
        name, uris = document.get("client_name"), document.get("redirect_uris")
        if document.get("client_id") != url:
            raise ValueError("names another client_id than its own address")
        if not isinstance(name, str):
            raise ValueError("has no client_name, the text that people read of it")
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
            raise ValueError("has no redirect_uris, the list of addresses to which people are sent back")
        usable = []
        for uri in uris:  # many clients list others beside those that can be used
            with suppress(InvalidValueError):
                check_redirect_uri(uri, is_host=True)
                usable.append(uri)
        check_application(name, usable or uris[:1], is_host=True)
    except InvalidValueError as error:
        raise _refused(url, f"cannot be used: its {error.subject} {error.problem}. {_ACCEPTED}") from None
    except ValueError as error:
        raise _refused(url, f"{error}. {_ACCEPTED}") from None
    offered: list[object] = []
    for key in ("token_endpoint_auth_method", "token_endpoint_auth_methods_supported"):
        value = document.get(key)
        offered += value if isinstance(value, list) else [] if value is None else [value]
    if offered and _METHOD not in offered:
        methods = " and ".join(shown(str(method)) for method in offered[:5])
        problem = f"offers only the method {methods} to say who the application is"
        raise _refused(url, f"{problem}. {_ACCEPTED}")
    return Application(url, name, usable, Origin.DOCUMENT)


def _refused(url: str, problem: str) -> ApiError:
    return ApiError(f"The application describes itself at {url[:200]}, and that document {problem}.")
