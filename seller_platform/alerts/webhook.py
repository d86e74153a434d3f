"""Webhooks: posts messages in the JSON that Slack and similar services accept."""

from collections.abc import Mapping
from contextlib import closing
from urllib.parse import urlsplit

import httpx

from seller_platform.client.http.api import USER_AGENT
from seller_platform.client.http.responses import PassingFault, RawAnswer, answered_by, check_passing, fault_of
from seller_platform.client.http.retries import RequestClock, RetryPolicy
from seller_platform.counts import count_of
from seller_platform.errors import SettingsError, UpstreamError, UpstreamUnavailableError, WebhookError
from seller_platform.network import transport_to

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
    refused = f"the webhook at {host} took no message"

    def attempt() -> None:
        answer = _send(url, payload)
        check_passing(answer, clock.now)
        if not 200 <= answer.status < 300:
            raise WebhookError(refused, f"it answered {answer.status}")

    try:
        RetryPolicy(_ATTEMPTS, _SECONDS, clock).run(f"POST to the webhook at {host}", attempt)
    except UpstreamUnavailableError as error:
        raise WebhookError(refused, f"{error.problem} after {count_of(error.attempts, 'attempt')}") from None
    except (UpstreamError, SettingsError) as error:
        raise WebhookError(refused, str(error)) from None


def _send(url: str, payload: Mapping[str, object]) -> RawAnswer:
    """Send the request without httpx's client, which writes the whole URL to its log."""
    try:
        request = httpx.Request(
            "POST",
            url,
            json=payload,
            headers={"User-Agent": USER_AGENT},
            extensions={"timeout": httpx.Timeout(10).as_dict()},
        )
        with transport_to(url) as transport, closing(transport.handle_request(request)) as response:
            return RawAnswer(response.status_code, response.headers, b"", answered_by(response, request.url))
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise PassingFault(f"no answer ({type(error).__name__})") from None
    except httpx.RequestError as error:
        error.request = request
        raise fault_of(error) from None
