"""What an answer means: good, a passing fault that is worth another attempt, or a refusal for good."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from seller_platform.clocks import Clock
from seller_platform.contract.wire import REASON
from seller_platform.errors import InvalidSettingError, RequestRefusedError, UnreadableBodyError

_PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_UNTOUCHED_STATUSES = frozenset({429, 503})
"""Answers which say that the request was not acted upon: even one that must not happen twice may be sent again."""

_LONGEST_MESSAGE = 300
_JSON_STARTS = {b"{": b"}", b"[": b"]"}


class PassingFault(Exception):  # noqa: N818  # it never leaves this floor
    """One attempt failed in a way that may pass.

    Attributes:
        was_untouched: The upstream surely did not act upon the request.
    """

    def __init__(self, problem: str, *, was_untouched: bool = False, retry_after_seconds: float | None = None) -> None:
        self.problem, self.was_untouched, self.retry_after_seconds = problem, was_untouched, retry_after_seconds
        super().__init__(problem)


@dataclass(frozen=True)
class RawAnswer:
    """An answer as it came: nothing is judged yet."""

    status: int
    headers: httpx.Headers
    body: bytes

    def retry_after_seconds(self, now: datetime) -> float | None:
        """Return the pause that the answer asks for (RFC 9110 section 10.2.3), in either of its forms.

        A date is one of the upstream's clock, which the answer tells as well; ours may be wrong.
        """
        text = self.headers.get("Retry-After", "").strip()
        if text.isascii() and text.isdigit():
            return float(text[:9])
        moment = _moment(text)
        if moment is None:
            return None
        return max(0.0, (moment - (_moment(self.headers.get("Date", "")) or now)).total_seconds())


def _moment(text: str) -> datetime | None:
    """Return the moment that an HTTP date names; None where it names none."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def fault_of(error: httpx.HTTPError) -> PassingFault:
    """Return the fault that an error of httpx stands for.

    Raises:
        InvalidSettingError: The base URL is none that can be called.
    """
    if isinstance(error, httpx.UnsupportedProtocol):
        raise InvalidSettingError("SELLER_API_BASE_URL", "must begin with http:// or https://") from None
    never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return PassingFault(f"no answer ({type(error).__name__})", was_untouched=never_sent)


def check_answer(answer: RawAnswer, request: str, now: Clock) -> None:
    """Return if the answer is good.

    Raises:
        PassingFault: Another attempt may do better.
        RequestRefusedError: No other attempt would.
    """
    check_passing(answer, now)
    if not 200 <= answer.status < 300:
        raise refusal(answer, request, now())
    if answer.status == 204:  # it has no body (RFC 9110 section 15.3.5)
        return
    try:
        check_looks_like_json(answer.body)
    except UnreadableBodyError as error:
        raise PassingFault(error.problem) from None


def check_passing(answer: RawAnswer, now: Clock) -> None:
    """Return if the status is none that may pass.

    Raises:
        PassingFault: Another attempt may do better.
    """
    if answer.status in _PASSING_STATUSES or answer.status >= 500:
        raise PassingFault(
            f"status {answer.status}",
            was_untouched=answer.status in _UNTOUCHED_STATUSES,
            retry_after_seconds=answer.retry_after_seconds(now()),
        )


def check_looks_like_json(body: bytes) -> None:
    """Return if the body begins and ends like a JSON object or array; the decoder looks at what is between.

    Raises:
        UnreadableBodyError: It does not.
    """
    first, last = body[:64].lstrip()[:1], body[-64:].rstrip()[-1:]
    if first == b"<":
        raise UnreadableBodyError("an HTML page instead of JSON")
    if first not in _JSON_STARTS:
        raise UnreadableBodyError("a body that is not JSON" if body.strip() else "an empty body")
    if last != _JSON_STARTS[first]:
        raise UnreadableBodyError("a body that was cut")


def refusal(answer: RawAnswer, request: str, now: datetime) -> RequestRefusedError:
    """Return the error for an answer that is final, with what the upstream says of it."""
    if 300 <= answer.status < 400:
        target = urlsplit(answer.headers.get("Location", ""))
        where = f"{target.scheme}://{target.netloc}{target.path}" if target.netloc else target.path
        message = f"it redirects to {where or 'nowhere'}, and SELLER_API_BASE_URL must name the final address"
        return RequestRefusedError(request, answer.status, message)
    told = json_object(answer.body)
    said = next((told[name] for name in ("message", "error_description", "error") if told.get(name)), None)
    reason, errors = told.get(REASON), told.get("errors")
    parameters = {
        shortened(str(name)): [shortened(str(text)) for text in (texts if isinstance(texts, list) else [texts])][:5]
        for name, texts in (list(errors.items())[:20] if isinstance(errors, dict) else [])
    }
    return RequestRefusedError(
        request,
        answer.status,
        shortened(said) if isinstance(said, str) else "it gave no reason",
        parameters,
        reason=shortened(reason) if isinstance(reason, str) else None,
        retry_after_seconds=answer.retry_after_seconds(now),
    )


def json_object(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object that a short body holds; an empty one where it holds none."""
    try:
        told = json.loads(body[:1_000_000])
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def shortened(text: str) -> str:
    """Return the text on one line, without control characters, and not too long for a message."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= _LONGEST_MESSAGE else line[:_LONGEST_MESSAGE] + "..."
