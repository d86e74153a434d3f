"""The Dagster resources `warehouse` and `seller_api`."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from time import monotonic

import dagster as dg
from pydantic import PrivateAttr, SecretStr

from seller_platform.client.http.api import SellerApi
from seller_platform.client.oauth.tokens import GrantAuth
from seller_platform.contract.accounts import DEFAULT_CONNECTION
from seller_platform.errors import SettingsError
from seller_platform.files import make_folders
from seller_platform.ingest.connections.grant_files import GrantFile
from seller_platform.ingest.connections.upstream import StoredApis, Upstream
from seller_platform.ingest.loads.loading import SliceLoader
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.orchestration.account_names import AccountNames
from seller_platform.settings import Settings, read_settings
from seller_platform.warehouse.connections.secrets import secret_box
from seller_platform.warehouse.loads.history_start import keep_history_start
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url

_SECONDS_BETWEEN_WAITS = 5.0


class WarehouseResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # it is its own value
    """The database that holds rows, receipts and grants.

    Attributes:
        database_url: A `postgresql://` URL; by default the embedded server in the home folder.
        history_start: The first day of history, for a warehouse without one; by default that of the settings.
    """

    database_url: str | None = None
    history_start: str | None = None

    _database: Database | None = PrivateAttr(None)

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["WarehouseResource"]:  # noqa: ARG002  # Dagster's signature
        make_folders(self.settings.home)
        with Database(self.database_url or warehouse_url(self.settings)) as database:
            migrate(database)
            first_day = date.fromisoformat(self.history_start) if self.history_start else self.settings.history_start
            keep_history_start(database, first_day)
            self._database = database
            yield self

    @property
    def database(self) -> Database:
        assert self._database is not None, "the resource is used outside a run"
        return self._database

    @cached_property
    def names(self) -> AccountNames:
        """The names of accounts, each read once in a run."""
        return AccountNames(self.database)

    @cached_property
    def settings(self) -> Settings:
        """The settings of the environment, read once in a run."""
        return read_settings()


class SellerApiResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # it is its own value
    """The API, called with a grant that is stored in the warehouse or in a file.

    A project that only calls the API needs no warehouse, only these lines:

    ```python
    import dagster as dg
    from seller_platform.dagster import SellerApiResource


    @dg.asset
    def me(seller_api: SellerApiResource) -> dg.MaterializeResult:
        answer = seller_api.api().get("/user/me")
        return dg.MaterializeResult(metadata={"user": answer.body.decode()})


    defs = dg.Definitions([me], resources={"seller_api": SellerApiResource(grant_file="grant.json")})
    ```

    The file is like `{"refresh_token": "..."}`. URL, client and secret are attributes of the resource. Those that are
    not given are settings of the environment, such as `SELLER_API_BASE_URL`.

    In a warehouse, tokens are encrypted, refreshed at half their life by one process at a time, and never appear in
    Dagster. Each connection has a request budget of its own: a connection that the upstream slows down does not slow
    down another. URLs, client and secret are needed only for a connection of which `seller-platform connect` has not
    stored all settings; their defaults are the settings of the environment.

    Attributes:
        warehouse: The warehouse with the grants; not needed with a file.
        base_url: The URL under which the API's paths lie.
        auth_url: The URL under which the authorisation page lies; by default the base URL.
        client_id: The id of the registered application.
        client_secret: Its secret; give it by `EnvVar`.
        redirect_uri: The redirect URI that is registered for it.
        requests_per_day: How many requests each connection may send on one day. Schedules plan by the setting of the
            environment. It counts only with a warehouse.
        grant_file: A file with the grant, in place of a warehouse. Each refresh replaces it.
    """

    warehouse: dg.ResourceDependency[WarehouseResource] = None  # type: ignore[assignment]  # our assets always have one
    base_url: str | None = None
    auth_url: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    redirect_uri: str | None = None
    requests_per_day: int | None = None
    grant_file: str | None = None

    _opened: StoredApis | SellerApi | None = PrivateAttr(None)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def api(self, connection: str = DEFAULT_CONNECTION) -> SellerApi:
        """Return the API of a connection, or of the grant in the file. All steps share it; it is closed with the run.

        Raises:
            SettingsError: An attribute that is needed to call it is not given.
            SettingsError: A setting that is needed to call it is neither stored nor in the environment.
            SecretKeyError: The stored client secret cannot be decrypted.
        """
        with self._lock:
            if self._opened is None and (self.grant_file is not None or self.warehouse is None):
                self._opened = self._api_of_file()
            elif self._opened is None:
                settings, database = self._settings, self.warehouse.database
                self._opened = StoredApis(settings, database, secret_box(settings.home, settings.secret_key))
        return self._opened if isinstance(self._opened, SellerApi) else self._opened(connection)

    def _api_of_file(self) -> SellerApi:
        settings = self._settings
        given = {name: getattr(settings, name) for name in ("base_url", "client_id", "client_secret")}
        lacking = [name for name, value in {**given, "grant_file": self.grant_file}.items() if value is None]
        if lacking or self.grant_file is None:
            raise SettingsError(
                f"SellerApiResource lacks {', '.join(lacking)}. It needs base_url, client_id, client_secret and "
                "grant_file, a JSON file with a refresh_token; or a warehouse, WarehouseResource(), with a grant that "
                "`seller-platform connect` stored. Give one of the two, and launch the run again",
                code="ApiResourceError",
            )
        upstream = Upstream.of(settings)
        grant = GrantFile(Path(self.grant_file), upstream.token_endpoint)
        return SellerApi(upstream.base_url, auth=GrantAuth(grant), silence_seconds=upstream.silence_seconds)

    def loader(self, context: dg.OpExecutionContext | dg.AssetExecutionContext, now: datetime) -> SliceLoader:
        """Return what loads slices for a step, whose log says which of them wait."""
        database, is_adaptive = self.warehouse.database, self.warehouse.settings.is_adaptive
        return SliceLoader(database, self.api, now, context.run.run_id, is_adaptive, wait_log(context.log))

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002  # Dagster's signature
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @cached_property
    def _settings(self) -> Settings:
        # Read once for a run: reading takes milliseconds, as much as the request of a small slice.
        configured = {
            "base_url": self.base_url and self.base_url.rstrip("/"),
            "auth_url": self.auth_url and self.auth_url.rstrip("/"),
            "client_id": self.client_id,
            "client_secret": SecretStr(self.client_secret) if self.client_secret else None,
            "redirect_uri": self.redirect_uri,
            "requests_per_day": self.requests_per_day,
        }
        return read_settings().model_copy(update={name: value for name, value in configured.items() if value})


def wait_log(log: dg.DagsterLogManager) -> Callable[[SliceRequest, str], None]:
    """Return what logs that a slice waits, at most every five seconds: all do while an upstream is away."""
    lock, next_at = threading.Lock(), 0.0

    def log_wait(request: SliceRequest, reason: str) -> None:
        nonlocal next_at
        with lock:
            if monotonic() < next_at:
                return
            next_at = monotonic() + _SECONDS_BETWEEN_WAITS
        log.warning("%s waits: %s", request, reason)

    return log_wait
