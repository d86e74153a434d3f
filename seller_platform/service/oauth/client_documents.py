"""Reads the metadata documents of clients that are not registered (draft-ietf-oauth-client-id-metadata-document).

The id of such a client is the https URL of its document. The document is read once an hour at most, and only for a
user who is logged in. Its host may not lead this service to its own network: the address is resolved once, must be
public, and is the one that is connected to.
"""

import asyncio
import socket
import ssl
from collections.abc import Collection
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx
import msgspec

from seller_platform.errors import ApiError, InvalidApplicationError
from seller_platform.network import direct_client
from seller_platform.service.http.addresses import is_public, url_host
from seller_platform.service.http.bodies import parse_json
from seller_platform.service.oauth.own_applications import change_application, register_application
from seller_platform.service.oauth.registration_rules import check_application, check_redirect_uri
from seller_platform.service.pool import Connection

LARGEST_BYTES = 16 << 10
SECONDS = 3.0

_READ_LATELY = "SELECT FROM service.applications WHERE client_id = %s AND document_read_at > now() - interval '1 hour'"
_NOTE_READ = "UPDATE service.applications SET document_read_at = now() WHERE client_id = %s"


class ClientDocument(msgspec.Struct, frozen=True):
    """What a client says about itself in its document."""

    client_id: str
    client_name: str
    redirect_uris: tuple[str, ...]
    token_endpoint_auth_method: Literal["none"] = "none"  # noqa: S105  # a word of RFC 7591, no password


def is_document_url(client_id: str) -> bool:
    """Whether a client id is the URL of a document: https, with a path, without user, fragment and dot segments."""
    try:
        check_redirect_uri(client_id)
    except InvalidApplicationError:
        return False
    path = urlsplit(client_id).path
    return client_id.startswith("https://") and len(path) > 1 and not {".", ".."} & set(unquote(path).split("/"))


async def is_fresh(connection: Connection, client_id: str) -> bool:
    """Whether the document of a client was read within the last hour."""
    return await (await connection.execute(_READ_LATELY, (client_id,))).fetchone() is not None


async def store_document(connection: Connection, document: ClientDocument) -> None:
    """Store a client as its document describes it; a change ends its verification."""
    client_id, name, redirect_uris = document.client_id, document.client_name, document.redirect_uris
    async with connection.transaction():
        if not await register_application(connection, client_id, None, name, redirect_uris, owner_id=None):
            await change_application(connection, client_id, name, redirect_uris, owner_id=None)
        await connection.execute(_NOTE_READ, (client_id,))


async def read_document(url: str, private_hosts: Collection[str] = ()) -> ClientDocument:
    """Return the document of a client; redirects are not followed.

    Args:
        private_hosts: The hosts that may have addresses that are not public.

    Raises:
        ApiError: The document cannot be read, is too large, or describes no client that can be used here.
    """
    try:
        async with asyncio.timeout(SECONDS):
            body = await _fetch(url, private_hosts)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ssl.SSLError, UnicodeError) as error:
        reason = "took too long" if isinstance(error, TimeoutError | httpx.TimeoutException) else "cannot be read"
        raise _refused(url, f"{reason}; try again later, or ask who runs the application") from error
    try:
        document = msgspec.convert(parse_json(body), ClientDocument)
        # Addresses of other schemes are left out: many clients list one of their own beside that of the loopback.
        usable = tuple(uri for uri in document.redirect_uris if urlsplit(uri).scheme in ("http", "https"))
        check_application(document.client_name, usable)
    except (ValueError, InvalidApplicationError) as error:
        raise _refused(url, f"cannot be used: {error}") from None
    if document.client_id != url:
        raise _refused(url, "names another client_id than its own address")
    return msgspec.structs.replace(document, redirect_uris=usable)


async def _fetch(url: str, private_hosts: Collection[str]) -> bytes:
    """Return the bytes of a document, from the one address that was checked."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    address = await _address_of(url, host, parts.port or 443, is_private=host in private_hosts)
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
            raise _refused(url, f"is answered with status {response.status_code}")
        if response.headers.get("content-encoding", "identity") != "identity":
            raise _refused(url, "is compressed")
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > LARGEST_BYTES:
                raise _refused(url, f"is larger than {LARGEST_BYTES >> 10} KiB")
        return bytes(body)


async def _address_of(url: str, host: str, port: int, *, is_private: bool) -> str:
    """Return the address of a host, of which every one must be public."""
    resolved = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(sockaddr[0]).partition("%")[0] for *_, sockaddr in resolved]
    if not addresses or not (is_private or all(map(is_public, addresses))):
        raise _refused(url, "is at an address that is not public")
    return addresses[0]


def _refused(url: str, problem: str) -> ApiError:
    return ApiError(f"The application describes itself at {url[:200]}, and that document {problem}.")
