"""Classifies answers: good, a passing fault that is worth another attempt, or a final refusal or error."""

import json
import math
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import msgspec
from xxhash import xxh3_128_digest

from seller_platform.client.http.characters import storable_json
from seller_platform.clocks import Clock
from seller_platform.contract.wire import ERROR_WORD, MESSAGE, PARAMETERS, STATUS
from seller_platform.errors import (
    CutBodyError,
    ErrorAnswerError,
    InvalidSettingError,
    RepeatedNameError,
    RequestRefusedError,
    UnreadableBodyError,
)
from seller_platform.network import Proxy, certificate_error, proxy_of

_PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_UNTOUCHED_STATUSES = frozenset({429, 503})
"""With these, the upstream did not act upon the request: it may be sent again even where it must not happen twice."""

_PROXY_LOGIN = 407
_LONGEST_MESSAGE = 300
_NEXT_LINK = re.compile(r'<([^<>]*)>\s*;\s*rel\s*=\s*"?next"?\s*(?:[,;]|$)', re.IGNORECASE)
_JSON_STARTS = {b"{": b"}", b"[": b"]"}
_NO_ERROR = frozenset({"", "0", "false", "none", "null"})

WITHOUT_BODY = (204, 205)
"""Statuses whose answers have no body (RFC 9110 sections 15.3.5 and 15.3.6)."""

_MESSAGES = (MESSAGE, "error_description", "detail", "title")
"""Where services write why they refuse (RFC 6749 section 5.2, RFC 9457 section 3.1)."""

_LONGEST_SECONDS = 366 * 86_400.0
_FIRST_EPOCH, _FIRST_MILLISECONDS = 10**9, 10**11
_NUMBER = re.compile(r"[+-]?\d{1,300}(\.\d*)?", re.ASCII)


class PassingFault(Exception):  # noqa: N818  # it never leaves this floor
    """One attempt failed, and another may succeed.

    Attributes:
        was_untouched: The upstream certainly did not act upon the request.
        digest: That of what cannot be read, and which no further attempt makes better if it comes again; empty for any
            other fault.
    """

    def __init__(
        self,
        problem: str,
        *,
        was_untouched: bool = False,
        retry_after_seconds: float | None = None,
        digest: bytes = b"",
    ) -> None:
        self.problem, self.was_untouched, self.retry_after_seconds = problem, was_untouched, retry_after_seconds
        self.digest = digest
        super().__init__(problem)

    @classmethod
    def of(cls, error: UnreadableBodyError, body: bytes) -> Self:
        """Return the fault of a body; one that carries an error or was cut may come whole after any attempt."""
        is_passing = isinstance(error, ErrorAnswerError | CutBodyError)
        # Beside a name that stands twice, a time or a number of the answer may change.
        lasting = error.problem.encode() if isinstance(error, RepeatedNameError) else body
        return cls(error.problem, digest=b"" if is_passing else xxh3_128_digest(lasting))


@dataclass(frozen=True)
class RawAnswer:
    """An answer before it is checked.

    Attributes:
        through: The proxy that it came through, as a phrase, if the proxy may have written it.
    """

    status: int
    headers: httpx.Headers
    body: bytes
    through: str = ""


def next_query_of(answer: RawAnswer, url: httpx.URL) -> Mapping[str, str]:
    """Return the parameters of an answer's link to the next page (RFC 8288).

    A link that leads to another endpoint, or repeats a parameter, is ignored, for it would carry the token elsewhere.

    Args:
        url: What was requested.
    """
    target = _NEXT_LINK.search(answer.headers.get("Link", ""))
    if target is None:
        return {}
    try:
        linked = url.join(target[1])
    except httpx.InvalidURL:
        return {}
    pairs = linked.params.multi_items()
    is_same = linked.copy_with(query=None, fragment=None) == url.copy_with(query=None, fragment=None)
    return dict(pairs) if is_same and len(dict(pairs)) == len(pairs) else {}


def fault_of(error: httpx.HTTPError) -> PassingFault:
    """Return the fault for an error of httpx.

    Raises:
        InvalidSettingError: A proxy refuses the request.
        UpstreamError: The certificate of the host is not accepted.
    """
    try:
        url = error.request.url
    except RuntimeError:
        return PassingFault(f"no answer ({type(error).__name__})")
    proxy, host = proxy_of(str(url)), url.netloc.decode()
    refusal = re.match(r"[1-4]\d\d", str(error)) if isinstance(error, httpx.ProxyError) else None
    if proxy is not None and refusal is not None:
        raise _refused_by(proxy, host, int(refusal[0]))
    reason = _reason_of(error, url.host, proxy)
    is_unconnected = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
    if proxy is not None:
        host = f"{proxy}, for {host}" if is_unconnected else f"{host} through {proxy}"
    never_sent = is_unconnected or isinstance(error, httpx.PoolTimeout | httpx.ProxyError)
    return PassingFault(f"no answer from {host} ({reason})", was_untouched=never_sent)


def _reason_of(error: httpx.HTTPError, host: str, proxy: Proxy | None) -> str:
    """Return why there was no answer, where the system or the proxy has said it, else the class of the error.

    Raises:
        UpstreamError: The certificate of the host is not accepted.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise certificate_error(host, cause, proxy)
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed: {cause.reason}"
        if isinstance(cause, socket.gaierror):
            return "the host is unknown"
        if isinstance(cause, ConnectionRefusedError):
            return "the connection was refused"
        cause = cause.__context__
    return shortened(str(error)) if isinstance(error, httpx.ProxyError) else type(error).__name__


def _refused_by(proxy: Proxy, host: str, status: int) -> InvalidSettingError:
    """Return the error of a proxy that does not pass requests on."""
    step = f"let it allow {host}, or except the host in NO_PROXY"
    if status == _PROXY_LOGIN:
        step = "write its user and password into the variable, as http://user:password@host:port"
    return InvalidSettingError(proxy.variable, f"{proxy} refused the request to {host} with status {status}: {step}")


def answered_by(response: httpx.Response, url: httpx.URL) -> str:
    """Return the proxy that a failed answer came through, as a phrase; nothing where the upstream wrote it.

    Raises:
        InvalidSettingError: The proxy asks for a user and a password.
    """
    # Through a proxy to https, no answer is the proxy's.
    proxy = proxy_of(str(url)) if url.scheme == "http" else None
    if proxy is not None and response.status_code == _PROXY_LOGIN:
        raise _refused_by(proxy, url.netloc.decode(), response.status_code)
    return "" if proxy is None else f" through {proxy}"


def check_answer(answer: RawAnswer, request: str, now: Clock, *, is_keyed: bool = False) -> None:
    """Return if the answer is good.

    Args:
        is_keyed: Whether the request has an idempotency key, so that another one with it may be under way.

    Raises:
        PassingFault: Another attempt may succeed.
        RequestRefusedError: No other attempt will.
        UnreadableBodyError: The body is not JSON, or was cut.
    """
    check_passing(answer, now)
    if not 200 <= answer.status < 300:
        pause = pause_seconds(answer.headers, answer.status, now())
        if is_keyed and answer.status == 409 and pause is not None:
            raise PassingFault(f"status {answer.status}", was_untouched=True, retry_after_seconds=pause)
        raise _refusal(answer, request, pause)
    if answer.status in WITHOUT_BODY:
        return
    first, last = answer.body.lstrip()[:1], answer.body.rstrip()[-1:]
    if first in (b"", b"<"):
        raise PassingFault("an HTML page instead of JSON" if first else "an empty body")
    # The body must begin and end like a JSON object or array; the decoder checks the rest.
    if _JSON_STARTS.get(first) != last:
        try:
            msgspec.json.decode(answer.body)
        except (ValueError, RecursionError) as error:
            raise not_json(error) from None
        raise UnreadableBodyError("a body that is neither an object nor an array of JSON")


def not_json(error: Exception) -> UnreadableBodyError:
    """Return the error of a body, given what msgspec says of it."""
    if "truncated" in str(error):
        return CutBodyError("a body that was cut")
    return UnreadableBodyError(f"a body that is not JSON ({shortened(str(error))})")


def check_passing(answer: RawAnswer, now: Clock) -> None:
    """Return unless the status is worth another attempt; a `PassingFault` is raised then.

    Raises:
        PassingFault: Another attempt may succeed.
    """
    if answer.status in _PASSING_STATUSES or answer.status >= 500:
        raise PassingFault(
            f"status {answer.status}{answer.through}",
            was_untouched=answer.status in _UNTOUCHED_STATUSES,
            retry_after_seconds=pause_seconds(answer.headers, answer.status, now()),
        )


def _refusal(answer: RawAnswer, request: str, pause: float | None) -> RequestRefusedError:
    """Return the error for a final answer, with the message of the upstream."""
    if 300 <= answer.status < 400:
        where = redirect_target(answer.headers) or "nowhere"
        message = f"it redirects to {where}, and SELLER_API_BASE_URL must name the final address"
        return RequestRefusedError(request, answer.status, message)
    body = json_object(answer.body)
    errors = body.get("errors")
    parameters = {
        shortened(str(name)): [shortened(str(text)) for text in (texts if isinstance(texts, list) else [texts])][:5]
        for name, texts in (list(errors.items())[:20] if isinstance(errors, dict) else [])
    }
    return RequestRefusedError(
        request,
        answer.status,
        (message_of(body) or "it gave no reason") + answer.through,
        parameters,
        retry_after_seconds=pause,
    )


def redirect_target(headers: httpx.Headers) -> str:
    """Return where an answer redirects to, without the query, which may contain secrets."""
    try:
        target = urlsplit(str(headers.get("Location", "")))
    except ValueError:
        return ""
    return target._replace(netloc=target.netloc.rpartition("@")[2], query="", fragment="").geturl()


def json_object(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a short body; an empty one where there is none."""
    try:
        content = parsed_json(storable_json(body[:1_000_000]))
    except UnreadableBodyError:
        return {}
    return content if isinstance(content, dict) else {}


def parsed_json(body: bytes, object_of: Callable[[Any], object] = dict) -> Any:
    """Return the value of JSON, of which a part may be no UTF-8.

    Args:
        object_of: Returns an object, given its names and values in pairs.

    Raises:
        UnreadableBodyError: It is not JSON.
    """
    try:
        return json.loads(
            body.decode(errors="surrogateescape"),
            # Python reads integers of up to 4,300 digits.
            parse_int=lambda digits: int(digits) if len(digits) < 1_000 else float(digits),
            object_pairs_hook=object_of,
        )
    except (ValueError, RecursionError) as error:
        raise not_json(error) from None


def shortened(text: str) -> str:
    """Return the text on one line, without control characters, cut to 300 characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= _LONGEST_MESSAGE else line[:_LONGEST_MESSAGE] + "..."


def check_no_error(answer: Mapping[str, Any]) -> None:
    """Return if a decoded answer with a good status does not say that it is an error.

    Raises:
        ErrorAnswerError: It has an `error`, or the `status` error.
    """
    error, status = answer.get(ERROR_WORD), answer.get(STATUS)
    has_error = error.strip().casefold() not in _NO_ERROR if isinstance(error, str) else bool(error)
    if not has_error and not (isinstance(status, str) and status.strip().casefold() == ERROR_WORD):
        return
    message = message_of(answer)
    raise ErrorAnswerError(f"an answer that carries an error{f': {message}' if message else ''}")


def message_of(answer: Mapping[str, Any]) -> str:
    """Return the message of a decoded answer that is an error, on one line; nothing where it has none."""
    errors = answer.get(PARAMETERS)
    inner = answer.get(ERROR_WORD) or (errors[0] if isinstance(errors, list) and errors else None)
    levels = (level for level in (answer, inner) if isinstance(level, Mapping))
    texts = (*(level.get(name) for level in levels for name in _MESSAGES), inner)
    return next((shortened(text) for text in texts if isinstance(text, str) and text.strip()), "")


def pause_seconds(headers: httpx.Headers, status: int, now: datetime) -> float | None:
    """Return the pause in whole seconds, from 0 to a year; None where the answer asks for none.

    It is that of `Retry-After` (RFC 9110 section 10.2.3), and for a 429 else that of `X-RateLimit-Reset`. A moment is
    compared with the answer's own `Date`, for the local clock may be wrong.
    """
    began = moment_of(headers.get("Date", "")) or now
    names = ("Retry-After", "X-RateLimit-Reset") if status == 429 else ("Retry-After",)
    pauses = (_pause_of(headers.get(name, "").strip(), began) for name in names)
    pause = next((pause for pause in pauses if pause is not None), None)
    return None if pause is None else float(math.ceil(min(max(0.0, pause), _LONGEST_SECONDS)))


def _pause_of(text: str, now: datetime) -> float | None:
    if not _NUMBER.fullmatch(text):
        moment = moment_of(text)
        return (moment - now).total_seconds() if moment else None
    seconds = float(text)
    if seconds >= _FIRST_MILLISECONDS:
        seconds /= 1000
    return seconds - now.timestamp() if seconds >= _FIRST_EPOCH else seconds  # a moment since 1970


def moment_of(text: str) -> datetime | None:
    """Return the moment of a date of HTTP or of RFC 3339; None where the text is no date."""
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = parse(text)
        except (ValueError, OverflowError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None
