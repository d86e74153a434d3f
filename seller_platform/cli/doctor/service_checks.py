"""Checks of a running service from outside: TLS, public URL, cookies, headers, limits, proxy."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import urlsplit

from seller_platform.cli.doctor.findings import Finding, examined, fail, ok, warn
from seller_platform.client.endpoints.public_service import SeenAnswer, certificate_end, see
from seller_platform.contract.wire import METADATA, SERVICE_STATUS, USER_ME
from seller_platform.errors import UpstreamUnavailableError

_LOGIN = "/login"
_FOREIGN_HOST = "forged.example"
_FEW_DAYS = 14
_LEAST_HSTS_SECONDS = 180 * 86_400
_LARGE_HEADER_BYTES = 40 << 10
_REDIRECTS = (301, 302, 307, 308)
_SET_URL = "set SELLER_PLATFORM_SERVICE_PUBLIC_URL={url} for the service, and start it again"
_KEEP = "let the proxy pass on this header of the service unchanged, or update the service"
_ADDRESS = "let the proxy overwrite X-Forwarded-For, -Proto and -Host"


def examine_service(url: str) -> Iterator[Finding]:
    """Yield what a service shows to everybody, with the next step for each problem.

    Args:
        url: The public URL, without a path.
    """
    is_https, host = url.startswith("https:"), urlsplit(url).hostname or ""
    if is_https:
        yield from examined("TLS", lambda: _examine_certificate(url))
    status = see(url + SERVICE_STATUS)
    if status.status == 200:
        yield ok("service", f"{url} answers")
    else:
        yield fail("service", f"{url}{SERVICE_STATUS} answers {status.status}", "start the service and its database")
        return
    yield from _examine_plain_http(url, host, is_https=is_https)
    yield _examine_metadata(url, see(url + METADATA))
    login = see(url + _LOGIN)
    yield _examine_cookie(url, login, is_https=is_https)
    yield from _examine_headers(url, login, is_https=is_https)
    yield from _examine_limits(url)
    yield _examine_foreign_host(url)
    yield _examine_forged_headers(url, login, is_https=is_https)


def _examine_certificate(url: str) -> Iterator[Finding]:
    end = certificate_end(url)
    days = (end - datetime.now(UTC)).days
    if days < _FEW_DAYS:
        yield warn("TLS", f"the certificate expires on {end:%Y-%m-%d}", "renew it, and let the proxy load it")
    else:
        yield ok("TLS", f"the certificate is valid until {end:%Y-%m-%d}")


def _examine_plain_http(url: str, host: str, *, is_https: bool) -> Iterator[Finding]:
    subject = "plain HTTP"
    if not is_https:
        text = f"{url} is not encrypted: passwords and tokens can be read on the way"
        if host in ("localhost", "127.0.0.1", "::1"):
            yield warn(subject, text, "put a proxy with TLS in front before other machines use it")
        else:
            yield fail(subject, text, "put a proxy with TLS in front, and ask for its https URL")
        return
    address = f"[{host}]" if ":" in host else host
    try:
        answer = see(f"http://{address}{_LOGIN}")
    except UpstreamUnavailableError:
        yield ok(subject, "is refused")
        return
    location = answer.headers.get("location", "")
    if answer.status in _REDIRECTS and location.startswith("https://"):
        yield ok(subject, f"leads to {urlsplit(location).netloc} over TLS")
    elif 400 <= answer.status < 500:
        yield ok(subject, f"is refused with {answer.status}")
    else:
        step = f"let the proxy redirect http://{address} to {url}, or close port 80"
        yield fail(subject, f"is answered with {answer.status}", step)


def _examine_metadata(url: str, answer: SeenAnswer) -> Finding:
    step = _SET_URL.format(url=url)
    metadata = _json_of(answer)
    if answer.status != 200 or "issuer" not in metadata:
        return fail("issuer", f"{METADATA} answers {answer.status} without an issuer", step)
    if metadata["issuer"] != url:
        return fail("issuer", f"is {metadata['issuer']}, not {url}", step)
    elsewhere = [
        name for name, value in metadata.items() if name.endswith("_endpoint") and not str(value).startswith(f"{url}/")
    ]
    if elsewhere:
        return fail("issuer", f"these addresses of the metadata are not under {url}: {', '.join(elsewhere)}", step)
    return ok("issuer", f"issuer and addresses of the metadata are those of {url}")


def _examine_cookie(url: str, login: SeenAnswer, *, is_https: bool) -> Finding:
    cookie = login.headers.get("set-cookie", "")
    flags = {flag.strip().lower() for flag in cookie.split(";")[1:]}
    expected = ["httponly", "samesite=lax", *(["secure"] if is_https else [])]
    missing = [flag for flag in expected if flag not in flags]
    if is_https and not cookie.startswith("__Host-"):
        missing.append("the prefix __Host-")
    if not cookie:
        return fail("cookie", f"{_LOGIN} answers {login.status} and sets none", "let the proxy pass on every path")
    if missing:
        return fail("cookie", f"the session cookie lacks {', '.join(missing)}", _SET_URL.format(url=url))
    return ok("cookie", f"the session cookie has {', '.join(expected)}")


def _examine_headers(url: str, login: SeenAnswer, *, is_https: bool) -> Iterator[Finding]:
    expected = {
        "content-security-policy": "frame-ancestors 'none'",
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "cache-control": "no-store",
    }
    missing = [name for name, part in expected.items() if part not in login.headers.get(name, "")]
    if missing:
        yield fail("headers", f"{_LOGIN} lacks {', '.join(missing)}", _KEEP)
    else:
        yield ok("headers", f"{_LOGIN} has {', '.join(expected)}")
    if "no-store" not in see(url + USER_ME).headers.get("cache-control", ""):
        yield fail("headers", f"answers of {USER_ME} may be stored by caches", _KEEP)
    if is_https:
        hsts = login.headers.get("strict-transport-security", "")
        seconds = hsts.partition("max-age=")[2].partition(";")[0].strip('" ')
        if seconds.isdigit() and int(seconds) >= _LEAST_HSTS_SECONDS:
            yield ok("HSTS", hsts)
        else:
            yield fail("HSTS", f"Strict-Transport-Security is {hsts or 'missing'}", _SET_URL.format(url=url))


def _examine_limits(url: str) -> Iterator[Finding]:
    size = f"{_LARGE_HEADER_BYTES >> 10} KiB"
    try:
        answer = see(url + SERVICE_STATUS, {"X-Large": "x" * _LARGE_HEADER_BYTES})
    except UpstreamUnavailableError:
        yield ok("limits", f"a header of {size} ends the connection")
    else:
        if 400 <= answer.status < 500:
            yield ok("limits", f"a header of {size} is refused with {answer.status}")
        else:
            step = "update the service, or bound the headers in the proxy to 32 KiB"
            yield fail("limits", f"a header of {size} is answered with {answer.status}", step)
    rate = see(url + USER_ME).headers.get("ratelimit")
    if rate is not None:
        yield ok("limits", f"RateLimit: {rate}")


def _examine_foreign_host(url: str) -> Finding:
    subject, text = "foreign host", f"a request for the host {_FOREIGN_HOST}"
    try:
        answer = see(url + METADATA, {"Host": _FOREIGN_HOST})
    except UpstreamUnavailableError:
        return ok(subject, f"{text} gets no answer")
    if 400 <= answer.status < 500 or answer.status in _REDIRECTS:
        return ok(subject, f"{text} gets {answer.status}")
    step = f"{_SET_URL.format(url=url)}; let the proxy pass on the Host that it was asked for"
    return fail(subject, f"{text} is answered with {answer.status}, not 421", step)


def _examine_forged_headers(url: str, login: SeenAnswer, *, is_https: bool) -> Finding:
    forged = {
        "X-Forwarded-Host": _FOREIGN_HOST,
        "X-Forwarded-Proto": "http" if is_https else "https",
        "X-Forwarded-For": "192.0.2.1",
        "Forwarded": f"host={_FOREIGN_HOST}",
    }
    metadata, page = see(url + METADATA, forged), see(url + _LOGIN, forged)
    issuer = _json_of(metadata).get("issuer")
    step = f"{_SET_URL.format(url=url)}; {_ADDRESS}"
    if issuer != _json_of(see(url + METADATA)).get("issuer"):
        return fail("trusted proxy", f"forged X-Forwarded headers make the issuer {issuer}", step)
    if _cookie_form(page) != _cookie_form(login):
        return fail("trusted proxy", "forged X-Forwarded headers change the flags of the session cookie", step)
    # Whether X-Forwarded-For is believed shows in no answer: only the operator sees the addresses of security events.
    return ok("trusted proxy", "forged X-Forwarded headers change neither issuer nor cookie")


def _cookie_form(answer: SeenAnswer) -> tuple[str, list[str]]:
    """Return the name and the flags of the cookie that an answer sets."""
    value, *flags = answer.headers.get("set-cookie", "").split(";")
    return value.partition("=")[0], sorted(flags)


def _json_of(answer: SeenAnswer) -> dict[str, object]:
    try:
        document = json.loads(answer.body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
