"""A question that needs no grant: is the upstream there, and what time is it there?"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from seller_platform.client.http.api import USER_AGENT
from seller_platform.client.http.responses import fault_of
from seller_platform.contract.wire import SERVICE_STATUS
from seller_platform.errors import InvalidSettingError, UpstreamUnavailableError


@dataclass(frozen=True)
class Probe:
    """How an upstream answered.

    Attributes:
        clock_skew_seconds: How far its clock is ahead of ours; None where it does not tell the time.
    """

    status: int
    seconds: float
    clock_skew_seconds: float | None


def probe(base_url: str, *, timeout_seconds: float = 10, transport: httpx.BaseTransport | None = None) -> Probe:
    """Ask an upstream for its status, once; any answer means that it is there.

    Raises:
        UpstreamUnavailableError: It does not answer.
        InvalidSettingError: The URL is none that can be called.
    """
    began, asked_at = time.perf_counter(), datetime.now(UTC)
    try:
        with httpx.Client(transport=transport, timeout=timeout_seconds, headers={"User-Agent": USER_AGENT}) as http:
            answer = http.get(base_url + SERVICE_STATUS)
    except httpx.InvalidURL as error:
        raise InvalidSettingError("SELLER_API_BASE_URL", str(error)) from None
    except httpx.HTTPError as error:
        raise UpstreamUnavailableError(f"GET {SERVICE_STATUS}", str(fault_of(error)), attempts=1) from None
    seconds, halfway = time.perf_counter() - began, asked_at + (datetime.now(UTC) - asked_at) / 2
    try:
        there = parsedate_to_datetime(answer.headers.get("Date", ""))
    except (ValueError, OverflowError):
        return Probe(answer.status_code, seconds, None)
    skew = there.replace(tzinfo=there.tzinfo or UTC) - halfway
    return Probe(answer.status_code, seconds, skew.total_seconds())
