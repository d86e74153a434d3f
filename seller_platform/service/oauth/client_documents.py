"""Reads the metadata documents of clients that are not registered (draft-ietf-oauth-client-id-metadata-document).

The id of such a client is the https URL of its document. The document is read once an hour at most, and only for a
user who is logged in. Its host may not lead this service to its own network: the address is resolved once, must be
public, and is the one that is connected to.
"""

import asyncio
import socket
import ssl
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx

from seller_platform.errors import ApiError, InvalidApplicationError
from seller_platform.service.http.addresses import url_host
from seller_platform.service.http.bodies import parse_json
from seller_platform.service.http.parameters import is_storable
from seller_platform.service.oauth.registration_rules import check_application
from seller_platform.service.pool import Connection

LARGEST_BYTES = 16 << 10
SECONDS = 3.0
_LONGEST_URL = 2_000
_HTTPS = 443
# These carry an IPv4 address to a translator or a relay, which may lead to a private network.
_TRANSLATED = tuple(map(ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))

_IS_FRESH = """
SELECT FROM service.applications WHERE client_id = %s AND document_read_at > now() - interval '1 hour'
"""
# An operator has verified this name with these redirect URIs, and no others.
_STORE = """
INSERT INTO service.applications AS stored (client_id, name, redirect_uri, further_redirect_uris, document_read_at)
VALUES (%(client_id)s, %(name)s, %(first)s, %(others)s, now())
ON CONFLICT (client_id) DO UPDATE
SET name = excluded.name, named_at = CASE WHEN stored.name = excluded.name THEN stored.named_at ELSE now() END,
    redirect_uri = excluded.redirect_uri, further_redirect_uris = excluded.further_redirect_uris,
    verified_at = CASE
        WHEN stored.name = excluded.name AND stored.redirect_uri = excluded.redirect_uri
         AND stored.further_redirect_uris = excluded.further_redirect_uris THEN stored.verified_at
    END,
    document_read_at = excluded.document_read_at
"""


@dataclass(frozen=True)
class ClientDocument:
    """What a client says about itself in its document."""

    client_id: str
    name: str
    redirect_uris: Sequence[str]


def is_document_url(client_id: str) -> bool:
    """Whether a client id is the URL of a document: https, with a path, without user, fragment and dot segments."""
    if len(client_id) > _LONGEST_URL or not client_id.isascii() or not client_id.isprintable() or " " in client_id:
        return False
    try:
        parts = urlsplit(client_id)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    segments = unquote(parts.path).split("/")
    is_plain = "@" not in parts.netloc and "#" not in client_id and "\\" not in client_id
    is_path = parts.path not in ("", "/") and not {".", ".."} & set(segments)
    return client_id.startswith("https://") and bool(host) and is_plain and is_path and is_storable(client_id)


async def is_fresh(connection: Connection, client_id: str) -> bool:
    """Whether the document of a client was read within the last hour."""
    return await (await connection.execute(_IS_FRESH, (client_id,))).fetchone() is not None


async def store_document(connection: Connection, document: ClientDocument) -> None:
    """Store a client as its document describes it; a change ends its verification."""
    first, *others = document.redirect_uris
    values = {"client_id": document.client_id, "name": document.name, "first": first, "others": others}
    await connection.execute(_STORE, values)


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
        described = parse_json(body)
    except ValueError as error:
        raise _refused(url, str(error)) from None
    if not isinstance(described, dict):
        raise _refused(url, "is not a JSON object")
    if described.get("client_id") != url:
        raise _refused(url, "names another client_id than its own address")
    name, redirect_uris = described.get("client_name"), described.get("redirect_uris")
    if not isinstance(name, str):
        raise _refused(url, "has no client_name")
    if not isinstance(redirect_uris, list) or not all(isinstance(uri, str) for uri in redirect_uris):
        raise _refused(url, "has no list of redirect_uris")
    if described.get("token_endpoint_auth_method", "none") != "none":
        raise _refused(url, "has another token_endpoint_auth_method than none")
    # Addresses of other schemes are left out: many clients list one of their own beside that of the loopback.
    usable = [uri for uri in redirect_uris if urlsplit(uri).scheme in ("http", "https")]
    try:
        check_application(name, usable)
    except InvalidApplicationError as error:
        raise _refused(url, f"cannot be used: {error}") from None
    return ClientDocument(url, name, usable)


async def _fetch(url: str, private_hosts: Collection[str]) -> bytes:
    """Return the bytes of a document, from the one address that was checked."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    address = await _address_of(url, host, parts.port or _HTTPS, is_private=host in private_hosts)
    netloc = url_host(address) if parts.port is None else f"{url_host(address)}:{parts.port}"
    headers = {"Host": parts.netloc, "Accept": "application/json", "Accept-Encoding": "identity"}
    # The variables of a proxy, and of credentials, are not for this request.
    async with (
        httpx.AsyncClient(verify=ssl.create_default_context(), trust_env=False, timeout=SECONDS) as http,
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


def is_public(address: str) -> bool:
    """Whether an address is one of the Internet, of a single host."""
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return is_public(str(parsed.ipv4_mapped))
        if any(parsed in network for network in _TRANSLATED) or parsed.is_site_local:
            return False
    return parsed.is_global and not parsed.is_multicast and not parsed.is_reserved and not parsed.is_unspecified


def _refused(url: str, problem: str) -> ApiError:
    return ApiError(f"The application describes itself at {url[:200]}, and that document {problem}.")
