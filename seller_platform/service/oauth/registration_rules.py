"""Checks names and redirect URIs of applications, and compares them."""

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

from seller_platform.service.errors import InvalidValueError
from seller_platform.service.http.addresses import is_loopback

MOST_REDIRECT_URIS = 100
LONGEST_NAME = 100
# The host is written into the content security policy of the consent page, where other characters have a meaning.
_LOOPBACK_URI = re.compile(r"http://(127\.0\.0\.1|\[::1\]|localhost)(?::([0-9]{1,5}))?((?:[/?].*)?)")
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
# The scheme of a native application is a domain name from its end, which has a period (RFC 8252 sections 7.1 and 8.4).
_OWN_SCHEME = re.compile(r"[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+")
# Well-known hosts of agents have schemes without a period, such as cursor://. Another program on the device may take
# their answer, and cannot use it: PKCE is required of them.
_ANY_SCHEME = re.compile(
    r"(?!(about|blob|data|file|filesystem|ftps?|https?|intent|javascript|mailto|vbscript|view-source|wss?)$)"
    r"[a-z][a-z0-9+.-]*"
)
# The answer to an authorization request adds these parameters to the redirect URI.
_ANSWERED = ("code", "state", "iss", "error", "error_description", "error_uri")


def check_application(name: str, redirect_uris: Sequence[str], *, is_host: bool = False) -> None:
    """Return if an application may be registered with these values.

    Raises:
        InvalidValueError: A value cannot be used. Names hold no invisible characters, so that none looks like
            another.
    """
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidValueError("name", f"must have 1 to {LONGEST_NAME} printable characters")
    if not redirect_uris:
        check_redirect_uri("")
    if len(redirect_uris) > MOST_REDIRECT_URIS:
        problem = f"must be one of at most {MOST_REDIRECT_URIS}; there are {len(redirect_uris)}"
        raise InvalidValueError("redirect URI", problem)
    for uri in redirect_uris:
        check_redirect_uri(uri, is_host=is_host)


def check_redirect_uri(uri: str, *, is_host: bool = False) -> None:
    """Return if a redirect URI is absolute and without fragment, and is https, on loopback, or of an own scheme.

    Args:
        is_host: Whether it is one of a host of agents, whose own scheme needs no period.

    Raises:
        InvalidValueError: It is not (RFC 6749 section 3.1.2, RFC 8252 section 7), or has a parameter that the
            answer to an authorization request adds.
    """
    if len(uri) > 2_000 or not uri.isascii() or not uri.isprintable() or " " in uri or "\\" in uri:
        raise _refused("must be a URI of at most 2000 ASCII characters without spaces", uri)
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise _refused("must be a URI", uri) from None
    schemes = _ANY_SCHEME if is_host else _OWN_SCHEME
    has_own_scheme = schemes.fullmatch(parts.scheme) and (host or parts.path.startswith("/"))
    if not has_own_scheme and (parts.scheme not in ("http", "https") or not host):
        raise _refused(
            "must be an absolute URI: of https, of http on the loopback interface, or of an app's own scheme, which "
            "has a period, such as com.example.app:/callback",
            uri,
        )
    if "#" in uri:
        raise _refused("must have no fragment", uri)
    if parts.username is not None or parts.password is not None:
        raise _refused("must hold no user or password", uri)
    if host and not _HOST.fullmatch(host):
        raise _refused("must name a host in letters, digits, hyphens and dots, or an IP address", uri)
    if parts.scheme == "http" and not is_loopback(host or ""):
        raise _refused("must be https unless it is on the loopback interface", uri)
    for name, _ in parse_qsl(parts.query.replace(";", "&"), keep_blank_values=True):
        if name.lower() in _ANSWERED:
            raise _refused(f"must have no parameter {name}, which the answer adds to it", uri)


def target_of(redirect_uri: str) -> str:
    """Return what a person reads of a redirect URI: its host, or the scheme of an app."""
    parts = urlsplit(redirect_uri)
    return parts.netloc if parts.scheme in ("http", "https") else parts.scheme


def is_registered(redirect_uri: str, redirect_uris: Sequence[str], *, is_public: bool, is_host: bool = False) -> bool:
    """Whether a redirect URI is one of those registered, exactly.

    The port of a loopback address of a public client may vary (RFC 8252 section 7.3). That of `localhost` may only for
    a host of agents, which cannot list the ports that it will get.
    """
    if redirect_uri in redirect_uris:
        return True
    if not is_public or not redirect_uri.isascii() or not redirect_uri.isprintable():
        return False
    sent = _without_port(redirect_uri)
    if sent is None or (sent[0] == "localhost" and not is_host):
        return False
    return sent in map(_without_port, redirect_uris)


def _without_port(uri: str) -> tuple[str, str] | None:
    """Return what is before and after the port of a loopback redirect URI; None for any other."""
    found = _LOOPBACK_URI.fullmatch(uri)
    return (found[1], found[3]) if found is not None and int(found[2] or 0) <= 65_535 else None


def _refused(problem: str, uri: str) -> InvalidValueError:
    return InvalidValueError("redirect URI", f"{problem}; it is {uri!r}")
