"""URLs of the databases: on the settings' server, else on the home folder's embedded one."""

from functools import cache
from pathlib import Path

from seller_platform.errors import NothingStoredError
from seller_platform.files import make_private_folder
from seller_platform.settings import Settings
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.urls import parsed_url

WAREHOUSE = "warehouse"
SANDBOX = "sandbox"
EMBEDDED_FOLDER = "postgres"


def warehouse_url(settings: Settings) -> str:
    """Return the URL of the warehouse, where Dagster keeps its own tables too.

    The embedded server is started if it does not run, and runs until this process ends.

    Raises:
        EmbeddedServerError: The embedded server does not start.
        InvalidSettingError: The URL of the settings cannot be used.
    """
    if settings.database_url is not None:
        url = settings.database_url.get_secret_value()
        parsed_url(url)  # its errors name the variable
        return url
    return embedded_server(settings.home, settings.root_data_folder).database(WAREHOUSE)


def stored_warehouse_url(settings: Settings) -> str:
    """Return the URL of a warehouse that exists; nothing is created.

    The embedded server is started if it does not run, and runs until this process ends.

    Raises:
        EmbeddedServerError: The embedded server does not start.
        NothingStoredError: The home folder has no database.
    """
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    if not has_database(settings.home):
        demo = settings.home / SANDBOX
        error = NothingStoredError(str(settings.home), has_demo=has_database(demo))
        if has_database(demo):
            error.add_note(f"In Python, the data of `seller-platform demo` is read with home={str(demo)!r}.")
        raise error
    return embedded_server(settings.home, settings.root_data_folder).url(WAREHOUSE)


def has_database(home: Path) -> bool:
    """Whether a home folder has an embedded server."""
    return (home / EMBEDDED_FOLDER / "data").exists()


def sandbox_url(settings: Settings) -> str:
    """Return the URL of the sandbox on the home folder's embedded server.

    Raises:
        EmbeddedServerError: The embedded server does not start.
    """
    return embedded_server(settings.home, settings.root_data_folder).database(SANDBOX)


@cache
def embedded_server(home: Path, root_data: Path) -> EmbeddedServer:
    """Return the embedded server of a home folder, which this process joins once.

    Args:
        root_data: For root, the folder that holds the data of servers.
    """
    make_private_folder(home)
    return EmbeddedServer(home / EMBEDDED_FOLDER, root_data=root_data)
