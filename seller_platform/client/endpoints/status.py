"""The status of an upstream: whether it answers, and how far its clock is ahead. It needs no grant."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from seller_platform.client.http.api import USER_AGENT
from seller_platform.client.http.responses import fault_of, moment_of
from seller_platform.contract.wire import SERVICE_STATUS
from seller_platform.errors import UpstreamUnavailableError
from seller_platform.network import http_client


@dataclass(frozen=True)
class Probe:
    """The answer of an upstream to a status request.

    Attributes:
        is_page: The answer is an HTML page, as of a server that is no API.
        clock_skew_seconds: How far its clock is ahead of the local one; None where the answer has no date.
    """

    status: int
    is_page: bool
    seconds: float
    clock_skew_seconds: float | None


def probe(base_url: str, path: str = SERVICE_STATUS, *, timeout_seconds: float = 10) -> Probe:
    """Request the status of an upstream once, or another path without a token; any answer shows that it is reachable.

    Raises:
        UpstreamUnavailableError: It does not answer.
        InvalidSettingError: The URL cannot be requested.
    """
    began, asked_at = time.perf_counter(), datetime.now(UTC)
    try:
        with http_client(base_url, timeout=timeout_seconds, headers={"User-Agent": USER_AGENT}) as http:
            answer = http.get(base_url + path)
    except httpx.HTTPError as error:
        raise UpstreamUnavailableError(f"GET {path}", str(fault_of(error)), attempts=1) from None
    seconds, halfway = time.perf_counter() - began, asked_at + (datetime.now(UTC) - asked_at) / 2
    upstream_time = moment_of(answer.headers.get("Date", ""))
    skew_seconds = None if upstream_time is None else (upstream_time - halfway).total_seconds()
    is_page = answer.headers.get("Content-Type", "").startswith("text/html")
    return Probe(answer.status_code, is_page, seconds, skew_seconds)
