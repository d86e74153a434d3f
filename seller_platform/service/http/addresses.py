"""Network addresses: that of a client, the network by which it is counted, and how URLs spell them."""

import ipaddress

from starlette.requests import Request

_NETWORK_BITS = 64  # of an IPv6 address; a customer of a provider may choose the rest
# These carry an IPv4 address to a translator or a relay, which may lead to a private network.
_TRANSLATED = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))


def network_of_client(request: Request) -> str:
    """Return the network that the client of a request belongs to."""
    return network_of(request.client.host if request.client else "unknown")


def network_of(address: str) -> str:
    """Return the network that addresses of one customer share."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _NETWORK_BITS), strict=False))


def is_loopback(host: str) -> bool:
    """Whether a host of a URL is this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_public(address: str) -> bool:
    """Whether an address is one of the Internet, of a single host."""
    parsed = ipaddress.ip_address(address)
    if parsed.version == 6:
        if parsed.ipv4_mapped is not None:
            return is_public(str(parsed.ipv4_mapped))
        if any(parsed in network for network in _TRANSLATED) or parsed.is_site_local:
            return False
    return parsed.is_global and not parsed.is_multicast and not parsed.is_reserved and not parsed.is_unspecified


def url_host(host: str) -> str:
    """Return a host as URLs spell it: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
