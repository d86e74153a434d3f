"""Dagster's resources: the warehouse, and the API with the OAuth tokens it manages."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import dagster as dg
from pydantic import PrivateAttr

from seller_platform.client.api import SellerApi
from seller_platform.ingest.upstream import Upstream, open_api
from seller_platform.settings import read_settings
from seller_platform.warehouse.database import Database
from seller_platform.warehouse.location import warehouse_url
from seller_platform.warehouse.secrets import SecretBox, secret_box


class WarehouseResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # it is its own value
    """The database that holds rows, receipts and grants.

    Attributes:
        database_url: A `postgresql://` URL; without one, the embedded server in the home folder.
    """

    database_url: str | None = None

    _database: Database | None = PrivateAttr(None)
    _box: SecretBox | None = PrivateAttr(None)
    _home: Path = PrivateAttr(Path())

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["WarehouseResource"]:  # noqa: ARG002  # Dagster's signature
        settings = read_settings()
        with Database(self.database_url or warehouse_url(settings)) as database:
            database.migrate()
            key = settings.secret_key.get_secret_value() if settings.secret_key else None
            self._database, self._box, self._home = database, secret_box(settings.home, key), settings.home
            yield self

    @property
    def database(self) -> Database:
        assert self._database is not None, "the resource is used outside a run"
        return self._database

    @property
    def box(self) -> SecretBox:
        assert self._box is not None, "the resource is used outside a run"
        return self._box

    @property
    def home(self) -> Path:
        return self._home


class SellerApiResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # it is its own value
    """The API, called with the tokens of a connection's grant.

    Tokens are kept in the warehouse, encrypted, refreshed at half their life by one process at a time, and never
    appear in Dagster.

    Attributes:
        base_url: The URL under which the API's paths lie.
        auth_url: The URL under which the authorisation page lies; the base URL where it is not given.
        client_id: The id of the registered application.
        client_secret: Its secret; give it by `EnvVar`.
        redirect_uri: The redirect URI it was registered with.
    """

    warehouse: dg.ResourceDependency[WarehouseResource]
    base_url: str
    auth_url: str | None = None
    client_id: str
    client_secret: str
    redirect_uri: str

    _apis: dict[str, SellerApi] = PrivateAttr(default_factory=dict)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def api(self, connection: str) -> SellerApi:
        """Return the API as a connection sees it; it is shared and closed with the run."""
        with self._lock:
            if connection not in self._apis:
                warehouse = self.warehouse
                self._apis[connection] = open_api(
                    self.upstream, connection, warehouse.database, warehouse.box, warehouse.home
                )
            return self._apis[connection]

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002  # Dagster's signature
        while self._apis:
            with suppress(KeyError):
                self._apis.popitem()[1].close()

    @property
    def upstream(self) -> Upstream:
        return Upstream(
            base_url=self.base_url,
            auth_url=self.auth_url or self.base_url,
            client_id=self.client_id,
            client_secret=self.client_secret,
            redirect_uri=self.redirect_uri,
        )
