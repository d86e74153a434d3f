"""Opens an installation: its home folder, its settings, its warehouse, and the key of its secrets.

The home folder is the one that SELLER_PLATFORM_HOME names; without it, `project.nearest_home` says which. Commands
that begin an installation create it, and say so. All others end with an error where nothing is stored. `--demo` uses
the folder of `demo` and `dev`, which is `sandbox` in the home folder.
"""

import getpass
import os
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seller_platform.capabilities import contributed, extras
from seller_platform.cli.output import note
from seller_platform.cli.terminal.progress import progress
from seller_platform.commands import DEMO, use_demo_start
from seller_platform.contract import DATASETS, REFRESHED, Dataset
from seller_platform.errors import unknown_dataset
from seller_platform.files import make_folders
from seller_platform.project import NAMES_FILE
from seller_platform.settings import DEMO_FOLDER, Settings, named_in, read_settings
from seller_platform.warehouse.connections.accounts import KnownAccount, account_of, accounts, accounts_named
from seller_platform.warehouse.migrations.pending import migrate, version_of
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import (
    data_elsewhere,
    embedded_server,
    has_database,
    nothing_stored,
    stored_warehouse_url,
    warehouse_url,
)
from seller_platform.warehouse.postgres.versions import FEW_PARTITIONS

if TYPE_CHECKING:
    from dagster import DagsterInstance

    from seller_platform.warehouse.connections.secrets import SecretBox

_OPENING = "Opening the database"
_HOME = "SELLER_PLATFORM_HOME"


@dataclass(frozen=True)
class Installation:
    """The settings, the warehouse, and the box that decrypts its secrets."""

    settings: Settings
    database: Database

    @property
    def datasets(self) -> tuple[Dataset, ...]:
        """The lists and the costs that the settings choose; by default all.

        Raises:
            RequestError: A name is that of no dataset.
        """
        if (names := self.settings.datasets) is None:
            return REFRESHED
        known = [each.name for each in DATASETS]
        for name in (name for name in names if name not in (*known, *extras())):
            raise unknown_dataset(name, known)
        return tuple(each for each in REFRESHED if each.name in names)

    def accounts(self, names: Sequence[str] = ()) -> tuple[KnownAccount, ...]:
        """Return the listed accounts of these names; without names, those whose keys the settings have, by default all.

        Raises:
            UnknownAccountError: There is no such account, although some are known.
        """
        if names or (keys := self.settings.accounts) is None:
            return accounts_named(self.database, names)
        listed = accounts(self.database)
        for unknown in sorted({*keys} - {each.key for each in listed}) if listed else ():
            account_of(self.database, unknown)  # it may be a retired one
        return tuple(each for each in listed if each.key in keys)

    @cached_property
    def box(self) -> "SecretBox":
        """The box of the installation's key, which is created on first use."""
        # Imported here because reading commands need no key, and its library takes a tenth of a second to import.
        from seller_platform.warehouse.connections.secrets import secret_box

        return secret_box(self.settings.home, self.settings.secret_key)


def open_installation(
    partitions: int = FEW_PARTITIONS, *, settings: Settings | None = None
) -> AbstractContextManager[Installation]:
    """Open the warehouse that the environment names, and migrate it, for a command that begins an installation.

    A home folder that does not exist is created.

    Args:
        partitions: How many partitions the tables of an empty warehouse get.
        settings: By default those of the command.

    Raises:
        SettingsError: A setting cannot be used.
        WarehouseError: PostgreSQL cannot be used.
    """
    return _opened(make_home(settings=settings), creates=True, partitions=partitions)


def open_stored_installation() -> AbstractContextManager[Installation]:
    """Open the warehouse that the environment names, and migrate it, for a command that needs stored rows.

    Raises:
        RequestError: There is no warehouse, or it has no tables. Nothing was created.
    """
    return _opened(expect_home(), creates=False)


@contextmanager
def open_served_installation() -> Iterator[Installation]:
    """Open the stored warehouse for a command that sends requests to the upstream.

    With `--demo` the sandbox is served until the block ends.
    """
    with open_stored_installation() as installation, served_upstream(installation.settings):
        yield installation


@contextmanager
def served_upstream(settings: Settings) -> Iterator[None]:
    """Serve the upstream until the block ends, where a capability has one for these settings."""
    with ExitStack() as stack:
        for serve in contributed("upstream"):
            stack.enter_context(serve(settings))
        yield


def report_loads(installation: Installation, report_more: "Callable[[DagsterInstance], None]" = lambda _: None) -> None:
    """Report to Dagster what it does not know yet, where this installation has a Dagster home.

    Otherwise a sensor reports it, once Dagster runs.

    Args:
        report_more: Reports what a capability has made.
    """
    home = installation.settings.home
    if not os.environ.get("DAGSTER_HOME") and not (home / "dagster").is_dir():
        return
    with progress("Reporting to Dagster"):
        # Importing Dagster takes a second.
        from seller_platform.orchestration.assets.reporting import report
        from seller_platform.orchestration.instance.home import open_instance

        with open_instance(home) as instance:
            report(instance, installation.database)
            report_more(instance)


def command_settings() -> Settings:
    """Return the settings, which the group of all commands has read; if it could not, the error is raised here."""
    context = click.get_current_context(silent=True)
    return (context and context.find_object(Settings)) or read_settings()


def make_home(server_folder: str | None = None, *, settings: Settings | None = None) -> Settings:
    """Create the home folder and its embedded server if they do not exist, and return the settings.

    Say which home folder it is, unless the environment names it, and where the rows are, unless they are in it.

    Args:
        server_folder: The folder of the server in the home folder; by default the home folder, unless the settings name
            another server.
    """
    settings = settings or command_settings()
    is_new, texts = not settings.home.exists(), []
    make_folders(settings.home)
    if is_new and "home" not in settings.model_fields_set:
        texts.append(f"A new home folder was created: {settings.home}. {_HOME} names another one.")
    else:
        note_home(settings)
    server_home = settings.home / (server_folder or "")
    if (settings.database_url is None or server_folder is not None) and not has_database(server_home):
        with progress(_OPENING):
            embedded_server(server_home, settings.root_data_folder)
        if data := data_elsewhere(server_home):
            texts.append(f"The rows of {server_home} are stored in {data}.")
    if texts:
        note(" ".join(texts))
    return settings


def expect_home() -> Settings:
    """Return the settings, which or whose home folder have a server; say which home folder is used.

    Raises:
        RequestError: There is no server. None was created.
    """
    settings = command_settings()
    if settings.database_url is None and not has_database(settings.home):
        raise nothing_stored(settings)
    note_home(settings)
    return settings


def note_home(settings: Settings) -> None:
    """Say which home folder is used if no setting names it and it was found in a folder above the current one."""
    if "home" not in settings.model_fields_set and settings.home.parent != Path.cwd() and settings.home.is_dir():
        note(f"The home folder is {settings.home}, in a folder above this one.")


def use_demo(variables: MutableMapping[str, str]) -> None:
    """Let the settings of this process be those of `demo`: its home folder, and no other setting of ours."""
    variables.pop(DEMO, None)  # the programs that a command starts have the demo's home already
    settings = command_settings()
    note_home(settings)  # afterwards a variable names the home folder
    home = settings.home / DEMO_FOLDER
    for each in named_in("elsewhere").values():
        variables.pop(str(each.alias), None)
    variables[_HOME] = str(home)
    variables["SELLER_PLATFORM_SECRETS_DIR"] = os.devnull  # it may hold the settings of a real connection
    variables[NAMES_FILE] = os.devnull
    use_demo_start()


@contextmanager
def _opened(settings: Settings, *, creates: bool, partitions: int = FEW_PARTITIONS) -> Iterator[Installation]:
    with progress(_OPENING):
        database = Database(warehouse_url(settings) if creates else stored_warehouse_url(settings))
        try:
            if not creates and version_of(database) is None:
                raise nothing_stored(settings)
            migrate(database, partitions, note)
            if settings.database_url is None:
                from seller_platform.warehouse.schema.readers import embedded_reader  # it imports every table

                embedded_reader(database)
        except BaseException:
            database.close()
            raise
    with database:
        yield Installation(settings, database)


def user_name() -> str:
    """Return the name of the user who runs the command; without one, the user id."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
