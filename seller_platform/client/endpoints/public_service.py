"""A service as it is seen from outside: its answers to plain and forged requests, and its certificate."""

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx

from seller_platform.client.http.api import USER_AGENT
from seller_platform.client.http.responses import fault_of
from seller_platform.errors import UpstreamError, UpstreamUnavailableError

_TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True)
class SeenAnswer:
    """An answer to one request.

    Attributes:
        headers: By name in lower case; several of one name are joined by commas.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


def see(url: str, headers: Mapping[str, str] | None = None) -> SeenAnswer:
    """Request a URL once, over a connection of its own, and follow no redirect.

    Args:
        headers: May forge what a browser sends, such as `Host`.

    Raises:
        UpstreamUnavailableError: There was no answer.
    """
    try:
        with httpx.Client(timeout=_TIMEOUT_SECONDS, headers={"User-Agent": USER_AGENT}) as http:
            answer = http.get(url, headers=dict(headers or {}))
    except httpx.HTTPError as error:
        raise UpstreamUnavailableError(f"GET {urlsplit(url).path or '/'}", str(fault_of(error)), attempts=1) from None
    return SeenAnswer(answer.status_code, dict(answer.headers), answer.content)


def certificate_end(url: str) -> datetime:
    """Return when the certificate of an https URL expires.

    Raises:
        UpstreamError: It is not valid for the host, or not signed by an authority that this machine trusts.
        UpstreamUnavailableError: The host does not answer.
    """
    parts = urlsplit(url)
    host, context = parts.hostname or "", ssl.create_default_context()
    try:
        with (
            socket.create_connection((host, parts.port or 443), timeout=_TIMEOUT_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            certificate = secured.getpeercert() or {}
    except ssl.SSLError as error:
        reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
        raise UpstreamError(
            f"the certificate of {host} is not valid: {reason}",
            code="CertificateError",
            step="Install a certificate for the host from an authority that clients trust.",
        ) from None
    except OSError as error:
        raise UpstreamUnavailableError(f"TLS to {host}", error.strerror or str(error), attempts=1) from None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(certificate["notAfter"])), UTC)
