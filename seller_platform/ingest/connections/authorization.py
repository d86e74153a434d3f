"""The OAuth authorisation code flow with PKCE (RFC 6749 section 4.1) to a stored grant."""

import secrets
from collections.abc import Callable

from seller_platform.client.oauth.callback import CallbackServer
from seller_platform.client.oauth.tokens import authorization_url, code_verifier, issuer_of
from seller_platform.contract.tokens import code_challenge
from seller_platform.errors import AuthorizationDeniedError, TokenRefusedError
from seller_platform.ingest.connections.token_rotation import GrantKeeper
from seller_platform.ingest.connections.upstream import Upstream


def authorize(
    upstream: Upstream,
    keeper: GrantKeeper,
    *,
    show: Callable[[str], None],
    register: Callable[[], None] = lambda: None,
    timeout_seconds: float = 600,
) -> None:
    """Obtain a grant from a user in the browser, and store it.

    Args:
        register: Stores the connection; called once the user has approved, so that a refusal changes nothing.
        show: Takes the URL that the user opens; called once the callback server listens.
        timeout_seconds: How long to wait for the user.

    Raises:
        AuthorizationDeniedError: The user refused or did not answer in time, or the code was used or has expired.
        TokenRefusedError: The upstream does not accept the application.
        SettingsError: The redirect URI cannot be listened on.
    """
    state, verifier = secrets.token_urlsafe(32), code_verifier()
    challenge, issuer = code_challenge(verifier), issuer_of(upstream.auth_url)
    with CallbackServer(upstream.redirect_uri, state, issuer) as callback:
        show(authorization_url(upstream.auth_url, upstream.client_id, upstream.redirect_uri, state, challenge))
        code = callback.wait(timeout_seconds)
    try:
        first = upstream.token_endpoint.exchange(code, verifier)
    except TokenRefusedError as error:
        if not error.ends_grant:
            raise
        raise AuthorizationDeniedError(
            f"the upstream no longer accepts the code; it answered {error.answer}"
        ) from error
    keeper.adopt(first, register=register)
