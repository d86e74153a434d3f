"""Opens the API of a connection, from stored values or from settings.

`connect` stores what a connection needs. From then on the stored values are used, whatever the environment says.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from seller_platform.client.http.api import SILENCE_SECONDS, SellerApi
from seller_platform.client.http.concurrency import RequestBudget
from seller_platform.client.oauth.tokens import GrantAuth, TokenEndpoint
from seller_platform.contract.accounts import ACCOUNT_KEY
from seller_platform.errors import RequestError
from seller_platform.ingest.connections.request_budget import DailyRequests
from seller_platform.ingest.connections.token_rotation import SPOOL_FOLDER, GrantKeeper, PairSpool
from seller_platform.settings import Settings, required
from seller_platform.warehouse.connections.accounts import (
    KnownConnection,
    client_secret_of,
    connections,
    save_client_secret,
    save_connection,
)
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.connections.secrets import SecretBox
from seller_platform.warehouse.postgres.database import Database


@dataclass(frozen=True)
class Upstream:
    """The URLs of an API, and the OAuth application that calls it.

    Attributes:
        silence_seconds: How long the API may send nothing before a request fails.
        requests_per_day: How many requests a connection may send on one day; None for any number.
    """

    base_url: str
    auth_url: str
    client_id: str
    client_secret: str = field(repr=False)
    redirect_uri: str
    silence_seconds: float = SILENCE_SECONDS
    requests_per_day: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> "Upstream":
        """Return the upstream that the settings name.

        Raises:
            SettingsError: A required setting is not set.
        """
        base_url = required(settings.base_url, "SELLER_API_BASE_URL", "the URL under which the API's paths lie")
        client_id = required(settings.client_id, "SELLER_API_CLIENT_ID", "the id of the registered application")
        meaning = "the secret shown when the application was registered"
        return cls(
            base_url=base_url,
            auth_url=settings.auth_url or base_url,
            client_id=client_id,
            client_secret=required(settings.client_secret, "SELLER_API_CLIENT_SECRET", meaning),
            redirect_uri=settings.redirect_uri,
            requests_per_day=settings.requests_per_day,
        )

    @property
    def token_endpoint(self) -> TokenEndpoint:
        application = (self.base_url, self.client_id, self.client_secret, self.redirect_uri)
        return TokenEndpoint(*application, silence_seconds=self.silence_seconds)

    def as_connection(self, name: str) -> KnownConnection:
        """Return the connection as the warehouse registers it."""
        return KnownConnection(name, self.base_url, self.auth_url, self.client_id, redirect_uri=self.redirect_uri)


def upstream_of(connection: str, settings: Settings, database: Database, box: SecretBox) -> Upstream:
    """Return the upstream of a connection, from stored values first and from settings second.

    The secret of the settings is only sent to the upstream, and for the application, that the settings name.

    Raises:
        SettingsError: A value is neither stored nor set.
        SecretKeyError: The stored client secret cannot be decrypted.
    """
    stored = next((each for each in connections(database) if each.name == connection), None)
    if stored is None:
        return Upstream.of(settings)
    secret = client_secret_of(database, box, connection)
    if secret is None:
        secret = required(
            settings.client_secret if names_application(settings, stored) else None,
            "SELLER_API_CLIENT_SECRET",
            f"the secret of application {stored.client_id} at {stored.base_url}, which connection {connection!r} has "
            "not stored yet; with SELLER_API_BASE_URL and SELLER_API_CLIENT_ID unset or equal to these",
        )
    return _of_stored(stored, secret, settings)


def _of_stored(stored: KnownConnection, secret: str, settings: Settings) -> Upstream:
    redirect_uri = stored.redirect_uri or settings.redirect_uri
    application = (stored.base_url, stored.auth_url, stored.client_id, secret, redirect_uri)
    return Upstream(*application, requests_per_day=settings.requests_per_day)


def names_application(settings: Settings, stored: KnownConnection) -> bool:
    """Whether the settings that are set name the upstream and application of a connection."""
    return settings.base_url in (None, stored.base_url) and settings.client_id in (None, stored.client_id)


def upstream_to_connect(
    connection: str, settings: Settings, database: Database, box: SecretBox, *, replace_stored: bool = False
) -> Upstream:
    """Return the upstream of a connection to authorise.

    The settings come first, the stored values second.

    Args:
        replace_stored: Change an existing connection to the upstream and application of the settings.

    Raises:
        RequestError: The name looks like the key of an account, or the connection exists, for another upstream or
            application.
        SettingsError: A value is neither set nor stored.
    """
    stored = next((each for each in connections(database) if each.name == connection), None)
    if stored is None and ACCOUNT_KEY.match(connection):
        raise RequestError(
            f"no connection can be called {connection!r}, which looks like the key of an account",
            step="Choose another name with --connection.",
        )
    if stored is None or replace_stored:
        return Upstream.of(settings)
    if not names_application(settings, stored):
        configured = f"{settings.base_url or stored.base_url} as {settings.client_id or stored.client_id}"
        raise RequestError(
            f"connection {connection!r} reads {stored.base_url} as {stored.client_id}, but SELLER_API_BASE_URL and "
            f"SELLER_API_CLIENT_ID name {configured}",
            code="OtherApplicationError",
            step="Unset both settings to authorise the connection again as it is, choose another name with "
            "--connection, or point it elsewhere with --replace.",
        )
    if settings.client_secret is not None:
        secret = settings.client_secret.get_secret_value()
    else:
        secret = upstream_of(connection, settings, database, box).client_secret
    upstream = replace(_of_stored(stored, secret, settings), auth_url=settings.auth_url or stored.auth_url)
    is_set = "redirect_uri" in settings.model_fields_set
    return replace(upstream, redirect_uri=settings.redirect_uri) if is_set else upstream


def store_upstream(upstream: Upstream, connection: str, database: Database, box: SecretBox) -> None:
    """Store what later calls of a connection need; the client secret is encrypted."""
    save_connection(database, upstream.as_connection(connection))
    save_client_secret(database, box, connection, upstream.client_secret)


def open_keeper(upstream: Upstream, connection: str, database: Database, box: SecretBox, home: Path) -> GrantKeeper:
    """Return the keeper of a connection's grant."""
    spool = PairSpool(home / SPOOL_FOLDER, connection, box)
    return GrantKeeper(connection, Grants(database, box), upstream.token_endpoint, spool)


def open_api(
    upstream: Upstream,
    connection: str,
    database: Database,
    box: SecretBox,
    home: Path,
    *,
    shared: AbstractContextManager[object] | None = None,
) -> SellerApi:
    """Return the API of a connection; the caller closes it.

    Args:
        shared: Limits its requests under way together with those of other processes.
    """
    return SellerApi(
        upstream.base_url,
        auth=GrantAuth(open_keeper(upstream, connection, database, box, home)),
        budget=RequestBudget(shared=shared),
        meter=meter_of(upstream, connection, database),
        silence_seconds=upstream.silence_seconds,
    )


class StoredApis:
    """The APIs of connections, each opened on first use as it is stored; threads may share them.

    Args:
        shared: As `open_api` takes it.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        box: SecretBox,
        *,
        shared: AbstractContextManager[object] | None = None,
    ) -> None:
        self._settings, self._database, self._box, self._shared = settings, database, box, shared
        self._opened: dict[str, SellerApi] = {}
        self._lock = Lock()

    def __call__(self, connection: str) -> SellerApi:
        """Return the API of a connection. Raises as `upstream_of` does."""
        with self._lock:
            if connection not in self._opened:
                upstream = upstream_of(connection, self._settings, self._database, self._box)
                self._opened[connection] = open_api(
                    upstream, connection, self._database, self._box, self._settings.home, shared=self._shared
                )
            return self._opened[connection]

    def close(self) -> None:
        """Close all of them."""
        for api in self._opened.values():
            api.close()


def meter_of(upstream: Upstream, connection: str, database: Database) -> DailyRequests | None:
    """Return what counts the requests of a connection; None where a day has no limit."""
    per_day = upstream.requests_per_day
    return None if per_day is None else DailyRequests(database, connection, per_day)
