"""URLs of the databases: on the settings' server, else on the home folder's embedded one."""

from functools import cache
from pathlib import Path

from seller_platform.settings import Settings
from seller_platform.warehouse.postgres.embedded import EmbeddedServer

WAREHOUSE = "warehouse"
SANDBOX = "sandbox"
EMBEDDED_FOLDER = "postgres"


def warehouse_url(settings: Settings) -> str:
    """Return the URL of the warehouse, where Dagster keeps its own tables too.

    The embedded server is started if it does not run, and runs until this process ends.

    Raises:
        EmbeddedServerError: The embedded server does not start.
    """
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    return embedded_server(settings.home).database(WAREHOUSE)


@cache
def embedded_server(home: Path) -> EmbeddedServer:
    """Return the embedded server of a home folder, which this process joins once."""
    return EmbeddedServer(home / EMBEDDED_FOLDER)
