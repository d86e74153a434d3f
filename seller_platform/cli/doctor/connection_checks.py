"""Checks of connections: the upstream, its clock, the grant, and the accounts."""

from collections.abc import Iterator
from datetime import datetime

from seller_platform.cli.doctor.findings import Finding, fail, failed, ok, warn
from seller_platform.client.endpoints.status import probe
from seller_platform.client.http.api import SellerApi
from seller_platform.client.oauth.callback import CallbackServer
from seller_platform.client.oauth.tokens import TokenAuth
from seller_platform.commands import is_sandbox
from seller_platform.contract.tokens import WARN_BEFORE_DEATH, TokenPair
from seller_platform.contract.wire import USER_ME
from seller_platform.counts import count_of
from seller_platform.errors import (
    NotConnectedError,
    RequestRefusedError,
    SellerPlatformError,
    SettingsError,
    UpstreamError,
    UpstreamUnavailableError,
    connect_command,
)
from seller_platform.ingest.connections.upstream import Upstream, meter_of, upstream_of
from seller_platform.settings import Settings
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.connections.secrets import SecretBox
from seller_platform.warehouse.postgres.database import Database

_SKEW_TO_WARN_SECONDS, _SKEW_TO_FAIL_SECONDS = 60, 300


def examine_settings_to_connect(settings: Settings) -> Iterator[Finding]:
    """Yield whether the settings for a first connection work."""
    try:
        upstream = Upstream.of(settings)
    except SettingsError as error:
        step = f"correct this setting, then `{connect_command()}`; or `seller-platform demo`, which needs none"
        yield warn("connections", f"nothing is connected yet, and {error.problem_alone}", step)
        return
    yield warn("connections", "nothing is connected yet", f"`{connect_command()}`")
    yield from _upstream("upstream", upstream)
    yield _redirect_port("redirect URI", upstream, is_needed=True)


def examine_connection(
    name: str, settings: Settings, database: Database, box: SecretBox, now: datetime
) -> Iterator[Finding]:
    """Yield whether a connection works: settings, upstream, grant and accounts."""
    subject = f"connection {name}"
    try:
        upstream = upstream_of(name, settings, database, box)
    except SellerPlatformError as error:
        yield failed(subject, error)
        return
    reached = list(_upstream(subject, upstream))
    is_reached = not reached[0].is_failure
    if is_sandbox(settings.home) and not is_reached:
        reached[0] = ok(subject, f"{upstream.base_url} is the sandbox, which runs while `dev` or `demo` runs")
    yield from reached
    grant = _grant(name, upstream, database, box, now, is_reached=is_reached)
    yield grant
    yield _redirect_port(subject, upstream, is_needed=grant.is_failure)
    count = sum(account.connection == name for account in accounts(database))
    if count:
        yield ok(subject, count_of(count, "account"))
    else:
        yield warn(subject, "it reads no account", "ask its user which accounts they may read")


def _upstream(subject: str, upstream: Upstream) -> Iterator[Finding]:
    try:
        answer = probe(upstream.base_url)
    except UpstreamUnavailableError as error:
        moved = "set SELLER_API_BASE_URL and run `seller-platform connect --replace --keep-grant`"
        step = f"check the address, the network and the proxy; if it moved, {moved}"
        yield fail(subject, f"{upstream.base_url} does not answer: {error.problem}", step)
        return
    except (UpstreamError, SettingsError) as error:  # such as a certificate or a proxy
        yield failed(subject, error)
        return
    if answer.status >= 500:
        yield warn(subject, f"{upstream.base_url} answers {answer.status}", "wait until it is up again")
    else:
        yield ok(subject, f"{upstream.base_url} answers in {answer.seconds:.2f} s")
    skew = answer.clock_skew_seconds
    if skew is not None and abs(skew) > _SKEW_TO_WARN_SECONDS:
        message = f"its clock is {abs(skew):,.0f} s {'ahead of' if skew > 0 else 'behind'} ours"
        judge = fail if abs(skew) > _SKEW_TO_FAIL_SECONDS else warn
        yield judge(subject, message, "set this machine's clock (NTP); if it is right, report it to the upstream")


def _grant(
    name: str, upstream: Upstream, database: Database, box: SecretBox, now: datetime, *, is_reached: bool
) -> Finding:
    """Return the state of a grant. A valid access token is tried; it is never refreshed."""
    subject, again = f"connection {name}", f"`{connect_command(name)}`"
    try:
        pair, refused = Grants(database, box).current(name)
    except NotConnectedError:
        return fail(subject, "it has no grant", again)
    except SellerPlatformError as error:
        return failed(subject, error)
    if refused is not None:
        return fail(subject, f"its grant is no longer accepted: {refused}", again)
    grant = f"its grant was refreshed on {pair.issued_at:%Y-%m-%d}"
    if now >= pair.dies_at - WARN_BEFORE_DEATH:
        return warn(subject, f"{grant} and is not accepted after {pair.dies_at:%Y-%m-%d}", "`seller-platform sync`")
    if now >= pair.expires_at or not is_reached:
        return ok(subject, f"{grant}; it was not tried")
    return _trial(name, upstream, pair, database)


def _trial(name: str, upstream: Upstream, pair: TokenPair, database: Database) -> Finding:
    subject, again = f"connection {name}", f"`{connect_command(name)}`"
    grant = f"its grant was refreshed on {pair.issued_at:%Y-%m-%d}"
    try:
        meter = meter_of(upstream, name, database)
        with SellerApi(upstream.base_url, auth=TokenAuth(pair.access_token), meter=meter) as api:
            api.impatient(10.0).get(USER_ME)
    except RequestRefusedError as error:
        if error.status == 401:
            step = f"`seller-platform sync`, which refreshes it; if that fails, {again}"
            return warn(subject, f"{grant}, but its access token is rejected", step)
        return fail(subject, f"{grant}, but the upstream answers {error.status}", f"ask the upstream, or {again}")
    except SellerPlatformError as error:
        return warn(subject, f"{grant}, but it could not be tried: {error.problem_alone}", error.next_step)
    return ok(subject, f"{grant} and is accepted")


def _redirect_port(subject: str, upstream: Upstream, *, is_needed: bool) -> Finding:
    try:
        with CallbackServer(upstream.redirect_uri, state=""):
            return ok(subject, f"{upstream.redirect_uri} can be listened on")
    except SettingsError as error:
        judge = fail if is_needed else warn
        step = f"{error.next_step} Only `connect` needs it."
        return judge(subject, f"{upstream.redirect_uri}: {error.problem_alone}", step)
