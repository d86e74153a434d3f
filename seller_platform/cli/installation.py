"""Opens an installation: its home folder, its settings, its warehouse, and the key of its secrets.

The home folder is the one that SELLER_PLATFORM_HOME names; without it, `settings.nearest_home` says which. Commands
that write create it, and say so. Commands that read end with an error where nothing is stored. `--demo` uses the folder
of `demo` and `dev`, which is `sandbox` in the home folder.
"""

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from seller_platform.cli.output import note
from seller_platform.cli.terminal.progress import progress
from seller_platform.commands import use_demo_start, uses_demo_start
from seller_platform.errors import NothingStoredError
from seller_platform.files import make_private_folder
from seller_platform.settings import Settings, read_settings
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import (
    SANDBOX,
    embedded_server,
    has_database,
    sandbox_url,
    warehouse_url,
)

if TYPE_CHECKING:
    from seller_platform.warehouse.connections.secrets import SecretBox

DEMO_FOLDER = "sandbox"
"""The folder in the home folder where `demo` and `dev` keep everything."""

LEADING_ELSEWHERE = (
    "SELLER_PLATFORM_DATABASE_URL",
    "SELLER_PLATFORM_SERVICE_DATABASE_URL",
    "SELLER_PLATFORM_SERVICE_PUBLIC_URL",
    "SELLER_PLATFORM_HISTORY_START",
    "SELLER_API_BASE_URL",
    "SELLER_API_AUTH_URL",
    "SELLER_API_CLIENT_ID",
    "SELLER_API_CLIENT_SECRET",
    "SELLER_API_REDIRECT_URI",
)
"""The variables that would lead a command of the sandbox to another database or API."""

_OPENING = "Opening the database"
_HOME = "SELLER_PLATFORM_HOME"


@dataclass(frozen=True)
class Installation:
    """The settings, the warehouse, and the box that decrypts its secrets."""

    settings: Settings
    database: Database

    @cached_property
    def box(self) -> "SecretBox":
        """The box of the installation's key, which is created on first use."""
        # Imported here because reading commands need no key, and its library takes a tenth of a second to import.
        from seller_platform.warehouse.connections.secrets import secret_box

        key = self.settings.secret_key.get_secret_value() if self.settings.secret_key else None
        return secret_box(self.settings.home, key)


@contextmanager
def open_installation() -> Iterator[Installation]:
    """Open the warehouse that the environment names, and migrate it, for a command that writes.

    A home folder that does not exist is created.

    Raises:
        SettingsError: A setting cannot be used.
        WarehouseError: PostgreSQL cannot be used.
    """
    settings = read_settings()
    make_home(settings)
    with _opened(settings) as installation:
        yield installation


@contextmanager
def open_stored_installation() -> Iterator[Installation]:
    """Open the warehouse that the environment names, and migrate it, for a command that reads.

    Raises:
        NothingStoredError: There is no warehouse. Nothing was created.
        SettingsError: A setting cannot be used.
        WarehouseError: PostgreSQL cannot be used.
    """
    settings = read_settings()
    expect_home(settings)
    with _opened(settings) as installation:
        yield installation


def make_home(settings: Settings) -> None:
    """Create the home folder if it does not exist; say so, unless the environment names it."""
    is_new = not settings.home.exists()
    make_private_folder(settings.home)
    if is_new and "home" not in settings.model_fields_set:
        note(f"A new home folder was created: {settings.home}. {_HOME} names another one.")


def expect_home(settings: Settings) -> None:
    """Check that there is a warehouse, without creating one.

    Raises:
        NothingStoredError: There is none.
    """
    if settings.database_url is None and not has_database(settings.home):
        raise _nothing_stored(settings)
    if "home" not in settings.model_fields_set and settings.home.parent != Path.cwd() and settings.home.is_dir():
        note(f"The home folder is {settings.home}, in a folder above this one.")


def service_url(settings: Settings, *, creates: bool = True) -> str:
    """Return the URL of the service's database where no setting names one.

    It is the sandbox of the home folder if that was filled, else the one of `demo` and `dev`.

    Args:
        creates: Whether to create the home folder's where there is neither.

    Raises:
        NothingStoredError: There is neither, and none is to be created.
    """
    own, demo = settings.home, settings.home / DEMO_FOLDER
    if has_database(own):
        server = embedded_server(own, settings.root_data_folder)
        if server.has_database(SANDBOX):
            return server.url(SANDBOX)
    if has_demo(own):
        note(f"This is the database of `demo` and `dev`, in {demo}.")
        return embedded_server(demo, settings.root_data_folder).database(SANDBOX)
    if not creates:
        raise _nothing_stored(settings)
    make_home(settings)
    return sandbox_url(settings)


def use_demo(variables: MutableMapping[str, str]) -> None:
    """Let the settings of this process be those of `demo`: its home folder, and no other setting of ours.

    Raises:
        SettingsError: A setting cannot be used.
    """
    home = read_settings().home / DEMO_FOLDER
    for name in LEADING_ELSEWHERE:
        variables.pop(name, None)
    variables[_HOME] = str(home)
    variables["SELLER_PLATFORM_SECRETS_DIR"] = os.devnull  # it may hold the settings of a real connection
    use_demo_start()


@contextmanager
def _opened(settings: Settings) -> Iterator[Installation]:
    with progress(_OPENING):
        database = Database(warehouse_url(settings))
        try:
            database.migrate()
        except BaseException:
            database.close()
            raise
    with database:
        yield Installation(settings, database)


def has_demo(home: Path) -> bool:
    """Whether `demo` or `dev` has stored anything in a home folder."""
    return has_database(home / DEMO_FOLDER)


def _nothing_stored(settings: Settings) -> NothingStoredError:
    return NothingStoredError(str(settings.home), is_demo=uses_demo_start(), has_demo=has_demo(settings.home))
