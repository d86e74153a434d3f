"""The API over HTTP: one request and its answer, with patience for passing faults and a bound on everything."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from seller_platform.client.budget import RequestBudget
from seller_platform.client.faults import PassingFault, RawAnswer, check_answer, fault_of
from seller_platform.client.retrying import Clock, RetryPolicy
from seller_platform.errors import ContractViolationError, InvalidSettingError, UnreadableBodyError

USER_AGENT = f"seller-platform/{version('seller-platform')}"
TIMEOUT = httpx.Timeout(60, connect=15, pool=None)
LARGEST_BODY_BYTES = 512 << 20
LONGEST_BODY_SECONDS = 600.0

_TALLY = "seller_platform.tally"

Decoded = TypeVar("Decoded")


@dataclass(frozen=True)
class Answer:
    """The answer to a request.

    Attributes:
        seconds: From the first attempt to the last byte, pauses included.
        requests: How many HTTP requests it took: retries, and requests sent again with a new token, included.
    """

    body: bytes
    status: int
    seconds: float
    requests: int


class _Tally:
    """Counts the HTTP requests that one answer needs."""

    def __init__(self) -> None:
        self.requests = 0


def _count(request: httpx.Request) -> None:
    request.extensions[_TALLY].requests += 1


class SellerApi:
    """The API of one connection; threads may share it.

    Args:
        base_url: Where the API's paths begin; it may carry a path itself.
        auth: What puts the token on requests and answers a 401.
        budget: How many requests may be under way at once.
        attempts: How often a request is tried in all.
        retry_seconds: How long a request is tried in all.
    """

    def __init__(
        self,
        base_url: str,
        *,
        auth: httpx.Auth | None = None,
        budget: RequestBudget | None = None,
        transport: httpx.BaseTransport | None = None,
        attempts: int = 6,
        retry_seconds: float = 120,
        clock: Clock | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.budget = budget or RequestBudget()
        self._clock = clock or Clock()
        self._policy = RetryPolicy(attempts, retry_seconds, self._clock)
        self._http = httpx.Client(
            auth=auth,
            transport=transport,
            timeout=TIMEOUT,
            follow_redirects=False,
            headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=self.budget.limit),
            event_hooks={"request": [_count]},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Answer:
        """Return the JSON answer to a GET request.

        Raises:
            UpstreamUnavailableError: No attempt brought a good answer.
            RequestRefusedError: The upstream refused the request for good.
            ReauthorizationRequiredError: The upstream does not honour the grant any more.
        """
        return self.get_decoded(path, params, lambda body: body)[0]

    def get_decoded(
        self, path: str, params: Mapping[str, str] | None, decode: Callable[[bytes], Decoded]
    ) -> tuple[Answer, Decoded]:
        """Return the answer to a GET request and its decoded body; a body that cannot be read is asked for again.

        Args:
            decode: Raises `UnreadableBodyError` for a body that is not JSON.

        Raises:
            UpstreamUnavailableError: No attempt brought a good answer.
            RequestRefusedError: The upstream refused the request for good.
            ReauthorizationRequiredError: The upstream does not honour the grant any more.
        """
        return self._request("GET", path, params, None, decode, twice_is_harmless=True)

    def post(self, path: str, params: Mapping[str, str] | None = None, json: object = None) -> Answer:
        """Return the JSON answer to a POST request, which is sent again only where it surely was not acted upon.

        Raises:
            UpstreamUnavailableError: There was no good answer; the request may have been acted upon.
            RequestRefusedError: The upstream refused the request for good.
            ReauthorizationRequiredError: The upstream does not honour the grant any more.
        """
        return self._request("POST", path, params, json, lambda body: body, twice_is_harmless=False)[0]

    def _request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        json: object,
        decode: Callable[[bytes], Decoded],
        *,
        twice_is_harmless: bool,
    ) -> tuple[Answer, Decoded]:
        tally, began, name = _Tally(), time.perf_counter(), f"{method} {path}"
        request = self._built(method, path, params, json, tally)

        def attempt() -> tuple[RawAnswer, Decoded]:
            raw = self._send(request, name)
            try:
                return raw, decode(raw.body)
            except UnreadableBodyError as error:
                raise PassingFault(error.problem) from None

        raw, decoded = self._policy.run(name, attempt, twice_is_harmless=twice_is_harmless)
        return Answer(raw.body, raw.status, time.perf_counter() - began, tally.requests), decoded

    def _built(
        self, method: str, path: str, params: Mapping[str, str] | None, json: object, tally: _Tally
    ) -> httpx.Request:
        extensions: dict[str, Any] = {_TALLY: tally}
        try:
            return self._http.build_request(
                method, self.base_url + path, params=params, json=json, extensions=extensions
            )
        except httpx.InvalidURL as error:
            raise InvalidSettingError("SELLER_API_BASE_URL", str(error)) from None

    def _send(self, request: httpx.Request, name: str) -> RawAnswer:
        """Send a request once and return its good answer."""
        with self.budget.request():
            try:
                response = self._http.send(request, stream=True)
                try:
                    raw = RawAnswer(response.status_code, response.headers, self._body(response, name))
                finally:
                    response.close()
            except httpx.HTTPError as error:
                raise fault_of(error) from None
        if raw.status == 429:
            self.budget.shrink()
        check_answer(raw, name, self._clock.now())
        self.budget.grow()
        return raw

    def _body(self, response: httpx.Response, name: str) -> bytes:
        """Return the body, as long as it is of reasonable size and arrives in reasonable time."""
        chunks, size, began = [], 0, self._clock.monotonic()
        for chunk in response.iter_bytes():
            chunks.append(chunk)
            size += len(chunk)
            if size > LARGEST_BODY_BYTES:
                raise ContractViolationError(name, f"the body is larger than {LARGEST_BODY_BYTES >> 20} MiB")
            if self._clock.monotonic() - began > LONGEST_BODY_SECONDS:
                raise PassingFault("a body that would not end")
        return b"".join(chunks)
