"""Webhooks: posts messages in the JSON that Slack and similar services accept."""

from collections.abc import Mapping
from contextlib import closing
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from seller_platform.client.http.api import USER_AGENT
from seller_platform.client.http.responses import PassingFault, RawAnswer, check_passing
from seller_platform.client.http.retries import RequestClock, RetryPolicy
from seller_platform.counts import count_of
from seller_platform.errors import UpstreamUnavailableError, WebhookError

_TIMEOUT = httpx.Timeout(10)
_ATTEMPTS, _SECONDS = 2, 10.0


def post_message(url: str, payload: Mapping[str, object], *, clock: RequestClock | None = None) -> None:
    """Post a JSON document to a webhook.

    After a passing fault it is posted again; the webhook may then receive it twice.

    Args:
        url: A secret. Only its host appears in logs and errors.

    Raises:
        WebhookError: The webhook did not accept it.
    """
    clock, host = clock or RequestClock(), urlsplit(url).hostname or "?"

    def attempt() -> None:
        try:
            answer = _send(url, payload)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # ValueError: a proxy that is no URL
            raise PassingFault(f"no answer ({type(error).__name__})") from None
        check_passing(answer, clock.now)
        if not 200 <= answer.status < 300:
            raise WebhookError(host, f"it answered {answer.status}")

    try:
        RetryPolicy(_ATTEMPTS, _SECONDS, clock).run(f"POST to the webhook at {host}", attempt)
    except UpstreamUnavailableError as error:
        raise WebhookError(host, f"{error.problem} after {count_of(error.attempts, 'attempt')}") from None


def _send(url: str, payload: Mapping[str, object]) -> RawAnswer:
    """Send the request without httpx's client, which writes the whole URL to its log."""
    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    request = httpx.Request(
        "POST", url, json=payload, headers={"User-Agent": USER_AGENT}, extensions={"timeout": _TIMEOUT.as_dict()}
    )
    with httpx.HTTPTransport(proxy=proxy) as transport, closing(transport.handle_request(request)) as response:
        return RawAnswer(response.status_code, response.headers, b"")
