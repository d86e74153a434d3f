"""URLs of the databases: on the settings' server, else on the home folder's embedded one."""

from functools import cache
from pathlib import Path

from seller_platform.commands import PLAIN, uses_demo_start
from seller_platform.errors import RequestError, unusable_home
from seller_platform.files import make_folders
from seller_platform.settings import DEMO_FOLDER, Settings
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.root_user import DATA
from seller_platform.warehouse.postgres.urls import parsed_url, place_of

WAREHOUSE = "warehouse"
SANDBOX = "sandbox"
EMBEDDED_FOLDER = "postgres"


def warehouse_url(settings: Settings) -> str:
    """Return the URL of the warehouse, where Dagster keeps its own tables too.

    The embedded server is started if it does not run, and runs until this process ends.

    Raises:
        WarehouseError: The embedded server does not start.
        InvalidSettingError: The URL of the settings cannot be used.
    """
    if settings.database_url is not None:
        url = settings.database_url.get_secret_value()
        parsed_url(url)  # its errors name the variable
        return url
    return embedded_server(settings.home, settings.root_data_folder).database(WAREHOUSE)


def stored_warehouse_url(settings: Settings) -> str:
    """Return the URL of a warehouse that exists, as `warehouse_url` does; nothing is created.

    Raises:
        RequestError: The home folder has no server, or its server has no warehouse.
    """
    if settings.database_url is not None:
        return warehouse_url(settings)
    if has_database(settings.home):
        server = embedded_server(settings.home, settings.root_data_folder)
        if server.has_database(WAREHOUSE):
            return server.url(WAREHOUSE)
    raise nothing_stored(settings)


def nothing_stored(settings: Settings) -> RequestError:
    """Return the error of a home folder without a database, or a database without tables."""
    home, note = settings.home, None
    if settings.database_url is not None:
        database = place_of(parsed_url(settings.database_url.get_secret_value()))
        message = (
            f"the database {database} has no tables of Seller Platform; nothing was ever connected there. Run "
            f"`{PLAIN} connect` and `{PLAIN} sync`, or name another database"
        )
    elif settings.demo or uses_demo_start():
        message = f"there is no demo in {home}; run `{PLAIN} demo`"
    else:
        demo = f"`{PLAIN} demo` to try"
        if has_demo(home):
            demo = f"add `--demo` to read the data of `{PLAIN} demo`"
            note = f"In Python, the data of `{PLAIN} demo` is read with home={str(home / DEMO_FOLDER)!r}."
        message = (
            f"nothing is stored in the home folder {home}. Run `{PLAIN} connect` to begin, or {demo}; if it is "
            "stored elsewhere, set SELLER_PLATFORM_HOME to that folder"
        )
    error = RequestError(message, code="NothingStoredError")
    if note is not None:
        error.add_note(note)
    return error


def has_database(home: Path) -> bool:
    """Whether a home folder has an embedded server.

    Raises:
        SettingsError: This user may not look into the folder.
    """
    try:
        return (home / EMBEDDED_FOLDER / DATA).exists()
    except OSError as error:
        raise unusable_home(str(home), error.strerror or str(error)) from error


def data_elsewhere(home: Path) -> Path | None:
    """Return the folder with the rows of a home folder's server, where it is not part of the home folder."""
    data = home / EMBEDDED_FOLDER / DATA
    return data.resolve() if data.is_symlink() else None


def has_demo(home: Path) -> bool:
    """Whether `demo` or `dev` has stored anything in a home folder."""
    return has_database(home / DEMO_FOLDER)


def sandbox_url(settings: Settings) -> str:
    """Return the URL of the sandbox on the home folder's embedded server."""
    return embedded_server(settings.home, settings.root_data_folder).database(SANDBOX)


@cache
def embedded_server(home: Path, root_data: Path) -> EmbeddedServer:
    """Return the embedded server of a home folder, which this process joins once."""
    make_folders(home)
    return EmbeddedServer(home / EMBEDDED_FOLDER, root_data=root_data)
