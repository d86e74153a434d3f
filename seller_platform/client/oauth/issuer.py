"""The issuer of an upstream, from its metadata (RFC 8414), which answers to authorizations must name (RFC 9207)."""

import httpx

from seller_platform.client.http.api import USER_AGENT
from seller_platform.client.http.bodies import ACCEPT_ENCODING, BodyLimits, read_answer
from seller_platform.client.http.responses import PassingFault, json_object
from seller_platform.client.http.retries import RequestClock
from seller_platform.contract.wire import METADATA
from seller_platform.errors import ContractViolationError
from seller_platform.network import http_client

_SECONDS = 5.0
_LARGEST_BYTES = 1 << 20


def issuer_of(auth_url: str, transport: httpx.BaseTransport | None = None) -> str | None:
    """Return the issuer that answers must name; None if the upstream promises none.

    Metadata of another issuer than the URL they were read from are not used (RFC 8414 section 3.3).
    """
    url = auth_url.rstrip("/")
    headers = {"User-Agent": USER_AGENT, "Accept": "application/json", "Accept-Encoding": ACCEPT_ENCODING}
    try:
        with (
            http_client(url, transport=transport, timeout=_SECONDS, headers=headers) as http,
            http.stream("GET", f"{url}{METADATA}") as response,
        ):
            answer = read_answer(response, METADATA, BodyLimits(_LARGEST_BYTES, _SECONDS), RequestClock())
    except (httpx.HTTPError, httpx.InvalidURL, PassingFault, ContractViolationError):
        return None
    metadata = json_object(answer.body)
    is_promised = answer.status == 200 and metadata.get("authorization_response_iss_parameter_supported") is True
    return url if is_promised and metadata.get("issuer") == url else None
