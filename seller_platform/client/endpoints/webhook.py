"""Webhooks: messages to whoever is to be told, in the JSON that Slack and those like it take."""

from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from seller_platform.client.http.api import USER_AGENT
from seller_platform.client.http.responses import PassingFault, RawAnswer, check_passing
from seller_platform.client.http.retries import RequestClock, RetryPolicy
from seller_platform.errors import UpstreamUnavailableError, WebhookError

_TIMEOUT = httpx.Timeout(10)
_ATTEMPTS, _SECONDS = 2, 10.0


def post_message(
    url: str, payload: Mapping[str, object], *, attempts: int = _ATTEMPTS, clock: RequestClock | None = None
) -> None:
    """Post a JSON document; where the webhook is away for a moment it is posted again, perhaps twice.

    Args:
        url: It is a secret, and appears neither in a log nor in an error, except for its host.
        attempts: How often it is posted in all, within 10 seconds.

    Raises:
        WebhookError: The webhook did not take it.
    """
    clock, host = clock or RequestClock(), urlsplit(url).hostname or "?"

    def attempt() -> None:
        try:
            with _transport(url) as transport:
                answer = _send(transport, url, payload)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # the last of a proxy that is no URL
            raise PassingFault(f"no answer ({type(error).__name__})") from None
        _judge(answer, host, clock)

    try:
        RetryPolicy(attempts, _SECONDS, clock).run(f"POST to the webhook at {host}", attempt)
    except UpstreamUnavailableError as error:
        raise WebhookError(host, f"{error.problem} after {error.attempts} attempts") from None


def _transport(url: str) -> httpx.HTTPTransport:
    """Return what sends the request: not httpx's client, which writes the whole URL to its log."""
    parts = urlsplit(url)
    direct = proxy_bypass(parts.hostname or "")
    return httpx.HTTPTransport(proxy=None if direct else getproxies().get(parts.scheme))


def _send(transport: httpx.HTTPTransport, url: str, payload: Mapping[str, object]) -> RawAnswer:
    request = httpx.Request(
        "POST", url, json=payload, headers={"User-Agent": USER_AGENT}, extensions={"timeout": _TIMEOUT.as_dict()}
    )
    response = transport.handle_request(request)
    try:
        return RawAnswer(response.status_code, response.headers, b"")
    finally:
        response.close()


def _judge(answer: RawAnswer, host: str, clock: RequestClock) -> None:
    check_passing(answer, clock.now)
    if not 200 <= answer.status < 300:
        raise WebhookError(host, f"it answered {answer.status}")
