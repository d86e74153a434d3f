"""HTTP clients with the proxies and certificates of the environment: no other module makes one.

httpx does not read the variables itself: it fails where NO_PROXY has a network of IPv6, and knows no exception for this
machine. Requests to this machine never go through a proxy.
"""

import os
import re
import socket
import ssl
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.request import getproxies, proxy_bypass_environment  # type: ignore[attr-defined]  # the stubs lack it

import httpx

from seller_platform.errors import InvalidSettingError, UpstreamError

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_PORTS = {"http": 80, "https": 443}

_Address = IPv4Address | IPv6Address


@dataclass(frozen=True)
class Proxy:
    """A proxy that a variable names.

    Attributes:
        url: It may contain a password.
    """

    url: httpx.URL
    variable: str

    def __str__(self) -> str:
        return f"the proxy {self.url.netloc.decode()} ({self.variable})"


def http_client(
    url: str, *, transport: httpx.BaseTransport | None = None, limits: httpx.Limits | None = None, **options: Any
) -> httpx.Client:
    """Return a client for the host of a URL of the upstream.

    Args:
        transport: Takes the place of connections, which are those of `transport_to`.
        options: As `httpx.Client` takes them.

    Raises:
        InvalidSettingError: It is no URL, or a variable names a proxy or certificates that cannot be used.
    """
    try:
        scheme = httpx.URL(url).scheme
    except httpx.InvalidURL as error:
        raise InvalidSettingError("SELLER_API_BASE_URL", str(error)) from None
    if scheme not in _PORTS:
        raise InvalidSettingError("SELLER_API_BASE_URL", "must begin with http:// or https://")
    return httpx.Client(transport=transport or transport_to(url, limits), trust_env=False, **options)


def transport_to(url: str, limits: httpx.Limits | None = None) -> httpx.HTTPTransport:
    """Return the connections to the host of a URL.

    Raises:
        InvalidSettingError: A variable names a proxy or certificates that cannot be used.
    """
    proxy = proxy_of(url)
    # Without an authority every certificate is refused.
    verify = authorities() if url.lower().startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    route = None
    if proxy is not None:
        route = httpx.Proxy(proxy.url, ssl_context=authorities() if proxy.url.scheme == "https" else None)
    return httpx.HTTPTransport(verify=verify, proxy=route, limits=limits or httpx.Limits(), trust_env=False)


def direct_client(**options: Any) -> httpx.AsyncClient:
    """Return an asynchronous client that uses no proxy."""
    return httpx.AsyncClient(verify=authorities(), trust_env=False, **options)


def authorities() -> ssl.SSLContext:
    """Return the context with the authorities whose certificates are accepted.

    They are those of SSL_CERT_FILE and SSL_CERT_DIR, else those of certifi and of the system.

    Raises:
        InvalidSettingError: A variable names nothing that can be read.
    """
    file, folder = (os.environ.get(name) or None for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    if file is not None and not Path(file).is_file():
        raise InvalidSettingError("SSL_CERT_FILE", f"there is no file {file}")
    if folder is not None and not Path(folder).is_dir():
        raise InvalidSettingError("SSL_CERT_DIR", f"there is no folder {folder}")
    return _authorities(file, folder)


@lru_cache(maxsize=4)
def _authorities(file: str | None, folder: str | None) -> ssl.SSLContext:
    if file is None and folder is None:
        context = httpx.create_ssl_context(trust_env=False)
        context.load_default_certs()
        return context
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except OSError as error:  # ssl.SSLError among them
        problem = f"{file} has no certificates that can be read as PEM ({error.strerror or error})"
        raise InvalidSettingError("SSL_CERT_FILE", problem) from None


def certificate_error(host: str, error: ssl.SSLCertVerificationError, proxy: Proxy | None = None) -> UpstreamError:
    """Return the error of a certificate that is not accepted."""
    through = "" if proxy is None else f", through {proxy},"
    return UpstreamError(
        f"the certificate of {host}{through} is not accepted: {error.verify_message}",
        code="CertificateError",
        step="Use the host name that the certificate is for. If an authority of your own signed it, name a file with "
        "the certificates of all authorities in SSL_CERT_FILE (`seller-platform docs connect`).",
    )


def proxy_of(url: str) -> Proxy | None:
    """Return the proxy for a URL; None where it is requested directly.

    Raises:
        InvalidSettingError: The variable names none that can be used.
    """
    try:
        target = httpx.URL(url)
    except httpx.InvalidURL:
        return None
    proxies, host = getproxies(), target.raw_host.decode()
    scheme = next((name for name in (target.scheme, "all") if proxies.get(name)), None)
    if target.scheme not in _PORTS or scheme is None or is_this_machine(host):
        return None
    if _is_excepted(host, target.port or _PORTS[target.scheme], proxies.get("no", "")):
        return None
    names = (f"{scheme}_proxy", f"{scheme}_PROXY".upper())
    variable = next((name for name in names if os.environ.get(name)), "the proxy settings of the system")
    return _parsed(proxies[scheme], variable)


def is_this_machine(host: str) -> bool:
    """Whether a host is surely the local machine."""
    name = host.lower().rstrip(".")
    address = _address(name)
    if address is not None:
        return address.is_loopback or address.is_unspecified
    return name in ("localhost", "localhost.localdomain") or name.endswith(".localhost")


def except_this_machine(environment: MutableMapping[str, str]) -> None:
    """Add this machine to NO_PROXY where a proxy is set, for the libraries and processes that read it themselves."""
    names = {name.lower(): value for name, value in environment.items() if value}
    if not names.keys() & {"http_proxy", "https_proxy", "all_proxy", "grpc_proxy"}:
        return
    former = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    entries = _entries(former)
    if "*" not in entries:
        added = ",".join([*entries, *(host for host in _THIS_MACHINE if host not in entries)])
        environment["no_proxy"] = environment["NO_PROXY"] = added


def _parsed(value: str, variable: str) -> Proxy:
    """Return a proxy by the value of its variable, which may contain a password and is not shown."""
    try:
        url = httpx.URL(value.strip() if "://" in value else f"http://{value.strip()}")
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme.startswith("socks"):
        problem = "it names a SOCKS proxy, and only HTTP proxies can be used; name one as http://host:port"
        raise InvalidSettingError(variable, f"{problem}, or except the upstream's host in NO_PROXY")
    # A slash in a password would otherwise end the host, and the rest of it be shown as one.
    if url.scheme not in _PORTS or not url.host or "@" in url.path:
        raise InvalidSettingError(variable, "it is not the URL of a proxy, written as http://host:port")
    return Proxy(url, variable)


def _entries(exceptions: str) -> list[str]:
    return [entry for entry in re.split(r"[\s,]+", exceptions) if entry]


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    name, entries = host.lower().rstrip("."), _entries(exceptions)
    address, names = _address(name), ",".join(entry.removeprefix("*") for entry in entries)
    if "*" in entries or proxy_bypass_environment(f"{f'[{name}]' if ':' in name else name}:{port}", {"no": names}):
        return True
    for entry in entries:
        with suppress(ValueError):  # it is no network
            if address is not None and address in ip_network(entry, strict=False):
                return True
    return False


def _address(host: str) -> _Address | None:
    """Return the address that a host is, in any form that the system accepts; None for a name."""
    address: _Address | None = None
    with suppress(ValueError):
        address = ip_address(host.partition("%")[0])
    if address is None and host[:1].isdigit():
        with suppress(OSError):
            address = ip_address(socket.inet_aton(host))
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
