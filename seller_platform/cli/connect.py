"""`seller-platform connect`: authorises a connection and discovers its accounts."""

import secrets
import sys
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date
from functools import partial
from http import HTTPStatus

import click

from seller_platform.cli.installation import Installation, open_installation
from seller_platform.cli.output import Document, Output, json_option, printable, with_title
from seller_platform.cli.terminal.months import Month
from seller_platform.cli.terminal.progress import hidden
from seller_platform.client.endpoints.status import probe
from seller_platform.client.oauth.callback import CallbackServer
from seller_platform.client.oauth.tokens import authorization_url, issuer_of
from seller_platform.contract.accounts import DEFAULT_CONNECTION
from seller_platform.contract.tokens import code_challenge
from seller_platform.contract.wire import SERVICE_STATUS, USER_ME
from seller_platform.counts import count_of
from seller_platform.errors import (
    AuthorizationDeniedError,
    InvalidSettingError,
    TokenRefusedError,
    UnusableAccountError,
    UpstreamUnavailableError,
    followed,
)
from seller_platform.ingest.connections.upstream import (
    StoredApis,
    Upstream,
    open_api,
    open_keeper,
    store_upstream,
    upstream_to_connect,
)
from seller_platform.ingest.loads.accounts import discover
from seller_platform.network import proxy_of
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.loads.history_start import (
    extend_history,
    history_start_in,
    is_history_start_set,
    months_of_history,
    stored_history_start,
)


class ConnectDocument(Document, frozen=True):
    """The connection that was authorised, and the titles of its accounts by their keys."""

    connection: str
    accounts: dict[str, str]


@click.command()
@click.option("--no-browser", is_flag=True, help="Print the URL to open instead of opening it.")
@click.option("--connection", default=DEFAULT_CONNECTION, show_default=True, help="Name of the connection.")
@click.option("--timeout", "timeout_seconds", default=600, show_default=True, help="Seconds to wait for the approval.")
@click.option("--replace", "replace_stored", is_flag=True, help="Change an existing connection to another upstream.")
@click.option("--keep-grant", is_flag=True, help="Store the settings again, without another approval.")
@click.option("--history-start", type=Month(), help="First month of history; asked for where none is known.")
@json_option(ConnectDocument)
def connect(
    *,
    no_browser: bool,
    connection: str,
    timeout_seconds: int,
    replace_stored: bool,
    keep_grant: bool,
    history_start: date | None,
    output: Output,
) -> None:
    """Authorise the API's user and discover the accounts.

    The upstream and the application of the SELLER_API_... variables are stored with the connection, the client secret
    encrypted: no other command needs these variables, nor does another authorisation of the connection. Use a name
    of its own for each user of an API, and for each API.

    History begins with --history-start, else with SELLER_PLATFORM_HISTORY_START where it is set, else with the month of
    the first `sync --from`, else with January 2025. An earlier month extends it later.

    The callback is received on the port of SELLER_API_REDIRECT_URI, which must be on this machine.
    """
    with open_installation() as installation:
        upstream = upstream_to_connect(
            connection, installation.settings, installation.database, installation.box, replace_stored=replace_stored
        )
        if history_start is not None:
            months_of_history(history_start, None, history_start_in(installation.database, installation.settings))
        _require_api(upstream.base_url, is_new=installation.settings.base_url is not None)

        def show(url: str) -> None:
            if no_browser or not webbrowser.open(url):
                output.say("Open this address in a browser and approve the access:")
                # The address has a line of its own; with --json it goes to standard error, apart from the document.
                with hidden():
                    click.echo(url, err=output.as_json)
            else:
                output.say("Approve the access on the page that your browser shows.")

        with output.progress("Waiting for the approval in the browser" if not keep_grant else "Reading the accounts"):
            accounts = connect_upstream(
                installation, upstream, connection, show=show, timeout_seconds=timeout_seconds, keep_grant=keep_grant
            )
        _begin_history(installation, history_start, output)
    titles = {each.key: each.account.title for each in accounts}
    output.document(ConnectDocument(connection=connection, accounts=titles))
    output.heading(f"Connected: {count_of(len(accounts), 'account')}")
    for key in titles:
        output.line(printable(with_title(key, titles)))
    for each in accounts:
        if each.account.problem is not None:
            output.say(f"{UnusableAccountError(f'account {each.key}', each.account.problem)}")
    output.say("Next: `seller-platform sync`")


def _require_api(base_url: str, *, is_new: bool) -> None:
    """Check that the API answers, before a person approves the access in vain.

    Args:
        is_new: The address is that of the variable.

    Raises:
        InvalidSettingError: The API is not there, and the address is new.
        UpstreamUnavailableError: The API does not answer under the address that is stored, or through a proxy.
    """
    try:
        answers = (probe(base_url, path, timeout_seconds=4) for path in (SERVICE_STATUS, USER_ME))
        is_other = all(answer.status == HTTPStatus.NOT_FOUND or answer.is_page for answer in answers)
        problem = f"GET {SERVICE_STATUS} and GET {USER_ME} are answered with 404 or a page" if is_other else None
    except UpstreamUnavailableError as error:
        if not is_new or proxy_of(base_url) is not None:
            raise
        problem = error.problem
    if problem is not None and is_new:
        step = "It must be the URL in front of the API's paths, and the API must run"
        raise InvalidSettingError("SELLER_API_BASE_URL", followed(f"there is no API at {base_url}: {problem}", step))


def _begin_history(installation: Installation, first: date | None, output: Output) -> None:
    """Store where history begins, if the operator says so."""
    database, settings = installation.database, installation.settings
    is_known = stored_history_start(database) is not None or is_history_start_set(settings)
    if first is None and not is_known and not output.as_json and sys.stdin.isatty():
        first = click.prompt("First month to load", default=f"{settings.history_start:%Y-%m}", type=Month(), err=True)
    if first is None:
        return
    if extend_history(database, first):
        output.say(f"History begins with {first:%Y-%m}.")
    elif (stored := history_start_in(database, settings)) < first:
        output.say(f"History begins with {stored:%Y-%m} already, and cannot begin later.")


def connect_upstream(
    installation: Installation,
    upstream: Upstream,
    connection: str,
    *,
    show: Callable[[str], None],
    timeout_seconds: float,
    keep_grant: bool = False,
) -> Sequence[KnownAccount]:
    """Authorise a connection by a code with PKCE (RFC 6749 section 4.1), discover its accounts, and return them.

    Args:
        show: Takes the URL that the user opens; called once the callback server listens.
        keep_grant: Use the stored grant instead of a new one.

    Raises:
        AuthorizationDeniedError: The user refused or did not answer in time, or the code was used or has expired.
        TokenRefusedError: The upstream does not accept the application.
        SettingsError: The redirect URI cannot be listened on.
    """
    settings, database, box = installation.settings, installation.database, installation.box
    register = partial(store_upstream, upstream, connection, database, box)
    if keep_grant:
        Grants(database, box).current(connection)
        register()
    else:
        keeper = open_keeper(upstream, connection, database, box, settings.home)
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)  # RFC 7636 section 4.1
        challenge, issuer = code_challenge(verifier), issuer_of(upstream.auth_url)
        with CallbackServer(upstream.redirect_uri, state, issuer) as callback:
            show(authorization_url(upstream.auth_url, upstream.client_id, upstream.redirect_uri, state, challenge))
            code = callback.wait(timeout_seconds)
        try:
            first = upstream.token_endpoint.exchange(code, verifier)
        except TokenRefusedError as error:
            if not error.ends_grant:
                raise
            problem = f"the upstream no longer accepts the code; it answered {error.answer}"
            raise AuthorizationDeniedError(problem) from error
        # The connection is stored once the user has approved, so that a refusal changes nothing.
        keeper.adopt(first, register=register)
    with open_api(upstream, connection, database, box, settings.home) as api:
        pause = settings.second_reading_seconds
        known = upstream.as_connection(connection)
        accounts, _ = discover(lambda _: api, database, known, run_id=None, second_reading_seconds=pause)
    return accounts


def open_stored_apis(installation: Installation) -> closing[StoredApis]:
    """Lend what opens the API of a stored connection, until the block ends."""
    return closing(StoredApis(installation.settings, installation.database, installation.box))
