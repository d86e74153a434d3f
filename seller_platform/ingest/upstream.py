"""An upstream and a connection to it: from settings to an API that keeps its own tokens."""

from dataclasses import dataclass, field
from pathlib import Path

from seller_platform.client.api import SellerApi
from seller_platform.client.oauth import GrantAuth, TokenEndpoint
from seller_platform.ingest.rotation import GrantKeeper, PairSpool
from seller_platform.settings import Settings, required
from seller_platform.warehouse.accounts import KnownConnection
from seller_platform.warehouse.database import Database
from seller_platform.warehouse.grants import Grants
from seller_platform.warehouse.secrets import SecretBox

DEFAULT_CONNECTION = "default"


@dataclass(frozen=True)
class Upstream:
    """Where an API is, and as which application we call on it."""

    base_url: str
    auth_url: str
    client_id: str
    client_secret: str = field(repr=False)
    redirect_uri: str

    @classmethod
    def of(cls, settings: Settings) -> "Upstream":
        """Return the upstream that the settings name.

        Raises:
            MissingSettingError: One of the settings that are needed is not set.
        """
        base_url = required(settings.base_url, "SELLER_API_BASE_URL", "the URL under which the API's paths lie")
        return cls(
            base_url=base_url,
            auth_url=settings.auth_url or base_url,
            client_id=required(settings.client_id, "SELLER_API_CLIENT_ID", "the id of the registered application"),
            client_secret=required(
                settings.client_secret,
                "SELLER_API_CLIENT_SECRET",
                "the secret shown when the application was registered",
            ),
            redirect_uri=settings.redirect_uri,
        )

    def as_connection(self, name: str) -> KnownConnection:
        """Return the connection as the warehouse registers it."""
        return KnownConnection(name, self.base_url, self.auth_url, self.client_id)


def open_keeper(upstream: Upstream, connection: str, database: Database, box: SecretBox, home: Path) -> GrantKeeper:
    """Return the keeper of a connection's grant."""
    endpoint = TokenEndpoint(upstream.base_url, upstream.client_id, upstream.client_secret, upstream.redirect_uri)
    return GrantKeeper(connection, Grants(database, box), endpoint, PairSpool(home / "grants", connection, box))


def open_api(upstream: Upstream, connection: str, database: Database, box: SecretBox, home: Path) -> SellerApi:
    """Return the API of a connection; the caller closes it."""
    keeper = open_keeper(upstream, connection, database, box, home)
    return SellerApi(upstream.base_url, auth=GrantAuth(keeper))
