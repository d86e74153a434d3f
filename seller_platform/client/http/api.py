"""The API over HTTP: sends and retries requests, within limits of time and size."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import count
from typing import Protocol, Self, TypeVar

import httpx
import msgspec
from opentelemetry.trace import Span, SpanKind
from xxhash import xxh3_128_digest

from seller_platform.client.http.bodies import ACCEPT_ENCODING, LARGEST_JSON_BYTES, BodyLimits, read_answer
from seller_platform.client.http.concurrency import RequestBudget
from seller_platform.client.http.responses import PassingFault, RawAnswer, check_answer, fault_of, next_query_of
from seller_platform.client.http.retries import OnWait, RequestClock, RetryPolicy
from seller_platform.contract.wire import IDEMPOTENCY_KEY
from seller_platform.errors import UnreadableBodyError
from seller_platform.network import http_client
from seller_platform.traces import mark_failed, span, write_trace_headers

USER_AGENT = f"seller-platform/{version('seller-platform')}"
HEADERS = {"User-Agent": USER_AGENT, "Accept": "application/json", "Accept-Encoding": ACCEPT_ENCODING}
SILENCE_SECONDS = 60.0
"""How long an upstream may send nothing before an attempt fails."""

_TALLY, _METER = "seller_platform.tally", "seller_platform.meter"
_JSON = msgspec.json.Encoder(decimal_format="number")
_RETRY_SECONDS = 120.0  # after the first attempt of a request, the last may begin so late
_BODY = BodyLimits(LARGEST_JSON_BYTES, 600)

Decoded = TypeVar("Decoded")
Stored = TypeVar("Stored")


@dataclass(frozen=True)
class Answer:
    """The answer to a request.

    Attributes:
        requests: HTTP requests that were sent, with retries and those sent again with a new token.
        next_query: The parameters of the upstream's link to the next page; empty without such a link.
    """

    body: bytes
    requests: int
    next_query: Mapping[str, str] = field(default_factory=dict)


class RequestMeter(Protocol):
    """Counts the requests of a connection; threads and processes share the count."""

    def take(self) -> object:
        """Count a request that is about to be sent.

        Raises:
            RequestsUsedUpError: The connection may send no more today.
        """


def timeout_of(silence_seconds: float) -> httpx.Timeout:
    """Return the timeouts of a request to an upstream that may be silent so long."""
    return httpx.Timeout(silence_seconds, connect=min(15, silence_seconds), pool=None)


class SellerApi:
    """The API of one connection; threads may share it.

    Args:
        base_url: The URL before the API's paths; it may have a path itself.
        auth: Puts the token on requests and answers a 401.
        budget: Limits the requests under way at once.
        meter: Limits the requests of a day; None for any number.
        attempts: How often a request is sent at most.
        silence_seconds: How long the upstream may send nothing before an attempt fails.
    """

    def __init__(
        self,
        base_url: str,
        *,
        auth: httpx.Auth | None = None,
        budget: RequestBudget | None = None,
        meter: RequestMeter | None = None,
        transport: httpx.BaseTransport | None = None,
        attempts: int = 6,
        silence_seconds: float = SILENCE_SECONDS,
        clock: RequestClock | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.budget = budget or RequestBudget()
        self.meter = meter
        self._clock = clock or RequestClock()
        self._policy = RetryPolicy(attempts, _RETRY_SECONDS, self._clock)
        self._timeout, self._limits = timeout_of(silence_seconds), _BODY
        self._http = http_client(
            self.base_url,
            auth=auth,
            transport=transport,
            timeout=self._timeout,
            follow_redirects=False,
            headers=HEADERS,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=self.budget.limit),
            event_hooks={"request": [_count]},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Answer:
        """Return the JSON answer to a GET request; it raises what `request` raises."""
        return self.request("GET", path, params, decode=bytes)[0]

    def download(
        self,
        path: str,
        params: Mapping[str, str] | None,
        store: Callable[[httpx.Response, str, RequestClock], Stored],
        read: Callable[[Stored], Decoded],
        *,
        accept: str,
    ) -> tuple[int, Decoded]:
        """Return how many requests a download took, and the result of `read`; it raises what `request` raises.

        Args:
            store: Stores the body of a good answer, given the name of the request and a clock.
            read: Reads what was stored; with a `PassingFault` it asks for another answer.
            accept: The media types that are accepted.
        """
        tally, name = count(), f"GET {path}"
        request = self._http.build_request(
            "GET",
            self.base_url + path,
            params=params,
            headers={"Accept": accept},
            timeout=self._timeout,
            extensions={_TALLY: tally, _METER: self.meter},
        )

        def attempt() -> Decoded:
            with self.budget.request():
                with open_answer(self._http, request, name) as (response, _):
                    if response.is_success:
                        stored = store(response, name, self._clock)
                    else:
                        refused = read_answer(response, name, self._limits, self._clock)
                if not response.is_success:
                    if refused.status == 429:
                        self.budget.shrink()
                    check_answer(refused, name, self._clock.now)
                    raise AssertionError("check_answer raises for every answer without success")
            return read(stored)

        result = self._policy.run(name, attempt)
        return next(tally), result

    def impatient(self, seconds: float) -> "SellerApi":
        """Return the same API without retries, for callers that cannot wait.

        Each request is sent once and fails after so many seconds. Both share their connections, which the original
        closes.
        """
        return self._with(
            _policy=RetryPolicy(1, seconds, self._clock),
            _timeout=httpx.Timeout(seconds / 2, pool=None),
            _limits=replace(_BODY, seconds=seconds / 2),
        )

    def listening(self, on_wait: OnWait) -> "SellerApi":
        """Return the same API, which reports requests that wait for the upstream. Both share their connections."""
        return self._with(_policy=replace(self._policy, on_wait=on_wait))

    def counted_by(self, meter: RequestMeter) -> "SellerApi":
        """Return the same API, whose requests another meter counts. Both share their connections."""
        return self._with(meter=meter)

    def _with(self, **attributes: object) -> "SellerApi":
        other = copy.copy(self)
        vars(other).update(attributes)
        return other

    def request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        json: object = None,
        *,
        decode: Callable[[bytes], Decoded],
        twice_is_harmless: bool = True,
        idempotency_key: str | None = None,
        former: bytes = b"",
    ) -> tuple[Answer, Decoded]:
        """Return the answer to a request, and its decoded body.

        A body that cannot be read is requested again, until two bodies in a row are the same.

        Args:
            json: The body; its Decimals are sent exactly.
            decode: Raises `UnreadableBodyError` for a body that is not JSON.
            twice_is_harmless: Whether the upstream may act upon the request twice. If not, it is sent again only
                where the upstream certainly did not act upon it.
            idempotency_key: Identifies the request, however often it is sent; some upstreams ignore it.
            former: A body that came before and cannot be read.

        Raises:
            ContractViolationError: The same body came twice in a row, and cannot be read.
            UpstreamUnavailableError: No attempt brought a good answer; the upstream may have acted upon the request.
            RequestRefusedError: The upstream refused the request for good.
            ReauthorizationRequiredError: The upstream does not honour the grant any more.
        """
        tally, name = count(), f"{method} {path}"
        request = self._http.build_request(
            method,
            self.base_url + path,
            params=params,
            content=None if json is None else _JSON.encode(json),
            headers=None if json is None else {"Content-Type": "application/json"},
            timeout=self._timeout,
            extensions={_TALLY: tally, _METER: self.meter},
        )
        if idempotency_key is not None:
            request.headers[IDEMPOTENCY_KEY] = f'"{idempotency_key}"'

        def attempt() -> tuple[RawAnswer, Decoded]:
            try:
                with self.budget.request():
                    with open_answer(self._http, request, name) as (response, current):
                        raw = read_answer(response, name, self._limits, self._clock)
                        current.set_attribute("http.response.body.size", len(raw.body))
                    if raw.status == 429:
                        self.budget.shrink()
                    check_answer(raw, name, self._clock.now, is_keyed=idempotency_key is not None)
                return raw, decode(raw.body)
            except UnreadableBodyError as error:
                raise PassingFault.of(error, raw.body) from None

        digest = xxh3_128_digest(former)
        raw, decoded = self._policy.run(name, attempt, twice_is_harmless=twice_is_harmless, digest=digest)
        return Answer(raw.body, next(tally), next_query_of(raw, request.url)), decoded


def _count(request: httpx.Request) -> None:
    """Count a request that is about to be sent; httpx calls this each time that it sends one."""
    meter = request.extensions[_METER]
    if meter is not None:
        meter.take()
    next(request.extensions[_TALLY])


@contextmanager
def open_answer(http: httpx.Client, request: httpx.Request, name: str) -> Iterator[tuple[httpx.Response, Span]]:
    """Send a request once, in its own span, and yield the answer with its body unread.

    Args:
        name: Method and path. The query, which may hold titles, does not enter the span.

    Raises:
        PassingFault: There was no answer, or it broke off while its body was read.
    """
    attributes: dict[str, str | int] = {
        "http.request.method": request.method,
        "url.template": name.partition(" ")[2],
        "server.address": request.url.host,
    }
    if request.url.port is not None:
        attributes["server.port"] = request.url.port
    with span(name, attributes, kind=SpanKind.CLIENT) as current:
        write_trace_headers(request.headers)
        try:
            response = http.send(request, stream=True)
            current.set_attribute("http.response.status_code", response.status_code)
            if response.status_code >= 400:
                mark_failed(current, str(response.status_code))
            with closing(response):
                yield response, current
        except httpx.RequestError as error:
            error.request = request
            raise fault_of(error) from None
