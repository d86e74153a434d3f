"""OAuth 2.0 on the application's side: the authorisation URL, its issuer, token pairs and tokens on requests."""

import logging
import re
import time
from collections.abc import Generator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

import httpx

from seller_platform.client.http.api import HEADERS, SILENCE_SECONDS, SellerApi, open_answer, timeout_of
from seller_platform.client.http.bodies import BodyLimits, read_answer
from seller_platform.client.http.responses import (
    PassingFault,
    check_no_error,
    check_passing,
    json_object,
    redirect_target,
    shortened,
)
from seller_platform.client.http.retries import RequestClock, RetryPolicy
from seller_platform.contract.tokens import TokenPair
from seller_platform.contract.wire import ACCESS_TOKEN_SECONDS, AUTHORIZE, METADATA, TOKEN
from seller_platform.errors import (
    INVALID_CLIENT,
    ContractViolationError,
    ErrorAnswerError,
    ReauthorizationRequiredError,
    SettingsError,
    TokenRefusedError,
    UpstreamError,
    UpstreamUnavailableError,
)
from seller_platform.network import http_client

_REQUEST = f"POST {TOKEN}"
_RETRY_SECONDS = 60.0
_ROTATIONS = 3
"""How often a request is sent again with a new token."""

_LARGEST_ANSWER_BYTES = 1 << 20
_LONGEST_LIFE_SECONDS = 10 * 365 * 86_400
_FILE = re.compile(r".*\.(csv|tsv|txt|json|xml|gz|zip|xlsx)", re.IGNORECASE)
_TOKEN = re.compile(r"[\x21-\x7e]+")
_INVALID_GRANT = "invalid_grant"
_REFUSING_STATUSES = (200, 400, 401, 410, 422)
"""With these an upstream may refuse a token in words of its own; others are of what stands between."""

_LOG = logging.getLogger(__name__)


class TokenSource(Protocol):
    """Keeps the token pair of one connection."""

    @property
    def connection(self) -> str:
        """The name of the connection, for messages."""

    def token(self) -> TokenPair:
        """Return the current pair; it is rotated first if it is due."""

    def rotate(self, rejected_access_token: str) -> TokenPair:
        """Return a pair other than the rejected one: the stored one, or a new one."""


class GrantAuth(httpx.Auth):
    """Puts the access token on requests, and answers a 401 with a rotation."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send the request; if its token is rejected, rotate and send it again.

        A redirect that leads to a page is such a rejection, once.

        New tokens may be rejected too: some upstreams reject the tokens of the previous pair at once, and another
        process may have rotated meanwhile. While the upstream honours the refresh token, that is no lost grant.

        Raises:
            ReauthorizationRequiredError: The upstream refuses the refresh token, or redirects to a page again.
            UpstreamUnavailableError: It rejects every access token that it issues.
        """
        pair, is_repeated = self._source.token(), False
        for rotations_left in range(_ROTATIONS, -1, -1):
            request.headers["Authorization"] = f"Bearer {pair.access_token}"
            response = yield request
            page = redirect_target(response.headers) if response.status_code in (302, 303, 307) else ""
            name = PurePosixPath(urlsplit(page).path).name
            # An endpoint that has moved keeps its name, or redirects permanently; a file has the name of one.
            if name == PurePosixPath(request.url.path).name or _FILE.fullmatch(name):
                page = ""
            if response.status_code != 401 and not page:
                return
            if page and is_repeated:
                reason = (
                    f"{request.method} {request.url.path} redirects to {page}, as to a login page, also with a new "
                    "token (if that does not end, SELLER_API_BASE_URL names pages instead of the API)"
                )
                raise ReauthorizationRequiredError(self._source.connection, reason)
            is_repeated = bool(page)
            if rotations_left:
                pair = self._source.rotate(pair.access_token)
        problem = f"the upstream rejects each access token that it issues to connection {self._source.connection!r}"
        raise UpstreamUnavailableError(f"{request.method} {request.url.path}", problem, attempts=_ROTATIONS + 1)


class TokenAuth(httpx.Auth):
    """Puts one access token on every request, and never rotates it."""

    def __init__(self, access_token: str) -> None:
        self._access_token = access_token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send the request with the token; the caller handles a rejection."""
        request.headers["Authorization"] = f"Bearer {self._access_token}"
        yield request


class TokenEndpoint:
    """The token endpoint of the API, for one application.

    Codes and refresh tokens work once. A request is therefore sent again only where the upstream certainly did not act
    upon it: no connection was made, or the upstream answered that it is busy.

    Args:
        silence_seconds: How long the upstream may send nothing, and how long its answer may take to arrive.
        doubt_seconds: How long after a refusal in unusual words a refresh token is sent once more.
    """

    def __init__(
        self,
        base_url: str,
        client_id: str,
        client_secret: str,
        redirect_uri: str,
        transport: httpx.BaseTransport | None = None,
        *,
        attempts: int = 4,
        silence_seconds: float = SILENCE_SECONDS,
        doubt_seconds: float = 5.0,
        clock: RequestClock | None = None,
    ) -> None:
        self._url = base_url.rstrip("/") + TOKEN
        self._application = {"client_id": client_id, "client_secret": client_secret}
        self._redirect_uri, self._transport, self._silence_seconds = redirect_uri, transport, silence_seconds
        self._doubt_seconds, self._clock = doubt_seconds, clock or RequestClock()
        self._policy = RetryPolicy(attempts, _RETRY_SECONDS, self._clock)

    @property
    def client(self) -> str:
        """What identifies the application and its secret, as `TokenPair.client`."""
        return sha256("\n".join([self._url, *self._application.values()]).encode()).hexdigest()

    def exchange(self, code: str, code_verifier: str) -> TokenPair:
        """Return the first pair of a grant (RFC 6749 section 4.1.3, RFC 7636 section 4.5).

        Raises:
            TokenRefusedError: The upstream does not accept the code or the application.
            UpstreamUnavailableError: There was no good answer; the code may be used up.
        """
        return self._obtained(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self._redirect_uri,
                "code_verifier": code_verifier,
            }
        )

    def refresh(self, refresh_token: str) -> TokenPair:
        """Return the next pair (RFC 6749 section 6).

        It keeps the refresh token where the answer has no new one. A refusal in other words than those of RFC 6749 may
        be a passing fault, and is believed when it is repeated. Errors are those of `exchange`.
        """
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        try:
            return self._obtained(form)
        except TokenRefusedError as error:
            if not error.ends_grant or error.error == _INVALID_GRANT:
                raise
            _LOG.warning("%s; it is asked once more in %g s", error.problem_alone, self._doubt_seconds)
        time.sleep(self._doubt_seconds)
        return self._obtained(form)

    def _obtained(self, form: Mapping[str, str]) -> TokenPair:
        secret = {**form, **self._application}

        def attempt() -> TokenPair:
            asked_at, timeout = self._clock.now(), timeout_of(self._silence_seconds)
            # Other processes wait for the grant meanwhile, so the answer may take no longer than a silence.
            limits = BodyLimits(_LARGEST_ANSWER_BYTES, self._silence_seconds)
            try:
                with http_client(self._url, transport=self._transport, timeout=timeout, headers=HEADERS) as http:
                    request = http.build_request("POST", self._url, data=secret)
                    with open_answer(http, request, _REQUEST) as (response, _):
                        answer = read_answer(response, _REQUEST, limits, self._clock)
            except ContractViolationError as error:
                raise PassingFault(error.problem) from None
            check_passing(answer, self._clock.now)
            body = json_object(answer.body)
            tokens = (body.get("access_token"), body.get("refresh_token") or form.get("refresh_token"))
            if answer.status == 200:
                if all(isinstance(token, str) and _TOKEN.fullmatch(token) for token in tokens):
                    lifetime = 0
                    with suppress(KeyError, TypeError, ValueError, OverflowError):
                        lifetime = int(float(body["expires_in"]))
                    lifetime = min(lifetime, _LONGEST_LIFE_SECONDS) if lifetime > 0 else ACCESS_TOKEN_SECONDS
                    return TokenPair(str(tokens[0]), str(tokens[1]), asked_at, lifetime, client=self.client)
                with suppress(ErrorAnswerError):
                    check_no_error(body)
                    raise PassingFault("status 200 without the tokens")
            raise _refusal(answer.status, body, secret)

        return self._policy.run(_REQUEST, attempt, twice_is_harmless=False)


def authorization_url(auth_url: str, client_id: str, redirect_uri: str, state: str, code_challenge: str) -> str:
    """Return the URL where a user grants access (RFC 6749 section 4.1.1, RFC 7636 section 4.3)."""
    query = {
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "response_type": "code",
        "state": state,
        "code_challenge": code_challenge,
        "code_challenge_method": "S256",
    }
    return f"{auth_url.rstrip('/')}{AUTHORIZE}?{urlencode(query)}"


def issuer_of(auth_url: str, transport: httpx.BaseTransport | None = None) -> str | None:
    """Return the issuer that answers must name (RFC 9207); None if the upstream's metadata promise none.

    Metadata of another issuer than the URL they were read from are not used (RFC 8414 section 3.3).
    """
    url = auth_url.rstrip("/")
    try:
        with SellerApi(url, transport=transport) as api:
            metadata = json_object(api.impatient(10.0).get(METADATA).body)
    except (UpstreamError, SettingsError):
        return None
    is_promised = metadata.get("authorization_response_iss_parameter_supported") is True
    return url if is_promised and metadata.get("issuer") == url else None


def _refusal(status: int, body: Mapping[str, Any], form: Mapping[str, str]) -> TokenRefusedError:
    """Return the OAuth error of an answer (RFC 6749 section 5.2), whatever form it has.

    Raises:
        PassingFault: It says that it is one.
    """
    sent = body.get("error") or body.get("errors")
    sent = sent[0] if isinstance(sent, list) and sent else sent
    inner: Mapping[str, Any] = sent if isinstance(sent, dict) else {"code": sent}
    described = (body.get("error_description"), inner.get("message"), body.get("message"))
    error, description = (
        next((text for text in texts if isinstance(text, str) and text.strip()), "")
        for texts in ((inner.get("code"), inner.get("type")), described)
    )
    for name in ("client_secret", "refresh_token", "code", "code_verifier"):  # an upstream may repeat what was sent
        if secret := form.get(name):
            error, description = error.replace(secret, "***"), description.replace(secret, "***")
    error, description = shortened(error), shortened(description)
    if error in ("temporarily_unavailable", "server_error", "slow_down"):
        raise PassingFault(f"the error {error}", was_untouched=True)
    says_why = status in _REFUSING_STATUSES and bool(error or description or status == 401)
    ends_grant = error == _INVALID_GRANT or (says_why and error != INVALID_CLIENT)
    return TokenRefusedError(error or f"http_{status}", description, ends_grant=ends_grant)
