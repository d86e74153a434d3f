"""Carries the grant of a connection over from an installation that is not upgraded, and stays as it is."""

from contextlib import suppress
from pathlib import Path

from sqlalchemy import text

from seller_platform.errors import NotConnectedError, ReauthorizationRequiredError, RequestError, SettingsError
from seller_platform.ingest.connections.token_rotation import SPOOL_FOLDER, PairSpool, is_newer
from seller_platform.ingest.connections.upstream import Upstream, store_upstream, upstream_of
from seller_platform.settings import Settings
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.connections.secrets import SecretBox, key_file
from seller_platform.warehouse.postgres.database import Database

_OTHERS = text("""
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
""")


def carry_grant(
    former: Database,
    former_home: Path,
    *,
    connection: str,
    settings: Settings,
    database: Database,
    box: SecretBox,
    replace_stored: bool = False,
) -> Upstream:
    """Store a connection and its newest token pair, as a former installation has them, and return its upstream.

    A pair that was carried over before, and refreshed since, stays.

    Args:
        former: Is only read.
        former_home: Has the key of its secrets, unless the settings have it.
        replace_stored: Replace a grant of the connection that was not carried over from there.

    Raises:
        NotConnectedError: The former installation has no grant of the connection.
        ReauthorizationRequiredError: The upstream no longer accepts it.
        RequestError: Programs use the former installation: they would refresh the same pair. Or the connection was
            authorised here, and is not to be replaced.
        SecretKeyError: Its secrets were encrypted with another key.
        SettingsError: It has no key.
    """
    with former.begin() as transaction:
        if transaction.execute(_OTHERS).scalar_one():
            raise RequestError(
                f"programs are connected to {former.where}. A refresh token works once: what they refresh is lost here",
                code="FormerInstallationInUseError",
                step="Stop them, and do not start them again once the grant is carried over.",
            )
    former_box = _former_box(former_home, settings)
    upstream = upstream_of(connection, settings, former, former_box)
    pair, refused = Grants(former, former_box).current(connection)
    kept = PairSpool(former_home / SPOOL_FOLDER, connection, former_box).kept()
    if kept is not None and is_newer(kept, pair):
        pair, refused = kept, None
    if refused is not None:
        raise ReauthorizationRequiredError(connection, refused)
    grants = Grants(database, box)
    with suppress(NotConnectedError):
        stored, stored_refused = grants.current(connection)
        is_same = stored.authorization == pair.authorization
        if is_same and not is_newer(pair, stored):
            return upstream
        if not is_same and stored_refused is None and not replace_stored:
            raise RequestError(
                f"connection {connection!r} has a grant from another authorisation already, of "
                f"{stored.issued_at:%Y-%m-%d}",
                code="OtherGrantError",
                step="Keep it, choose another name with --connection, or replace it by that of HOME with --replace.",
            )
    store_upstream(upstream, connection, database, box)
    grants.store(connection, pair)
    return upstream


def _former_box(home: Path, settings: Settings) -> SecretBox:
    """Return the box of a former installation; no key is created."""
    if key_file(home).exists():
        return SecretBox.of_file(key_file(home))
    if settings.secret_key is not None:
        return SecretBox(settings.secret_key.get_secret_value())
    raise SettingsError(
        f"the home folder {home} has no {key_file(home).name}",
        code="FormerKeyError",
        step="Name the former home folder, or set SELLER_PLATFORM_SECRET_KEY to the key of the former installation.",
    )
