"""The options of the service's commands: the database and `--json`."""

import functools
from collections.abc import Callable
from typing import Any

import click
import msgspec

from seller_platform.cli.installation import command_settings, expect_home, make_home, note_home
from seller_platform.cli.output import json_option, note
from seller_platform.cli.terminal.progress import progress
from seller_platform.service.settings import ServiceSettings
from seller_platform.settings import DEMO_FOLDER, Settings
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import (
    SANDBOX,
    embedded_server,
    has_database,
    has_demo,
    nothing_stored,
    sandbox_url,
    stored_warehouse_url,
    warehouse_url,
)
from seller_platform.warehouse.postgres.urls import parsed_url


def database_options(command: Callable[..., None], *, creates: bool = True) -> Callable[..., None]:
    """Add the options that choose the database, and pass its `url` to the command.

    Args:
        creates: Whether the command creates a database where there is none.
    """

    @click.option(
        "--database-url",
        help="The service's database; by default that of SELLER_PLATFORM_SERVICE_DATABASE_URL, else the sandbox of the "
        "home folder, else that of `demo` and `dev`.",
    )
    @click.option("--replica", is_flag=True, help="Use the warehouse that `sync` fills.")
    @functools.wraps(command)
    def with_url(*, database_url: str | None, replica: bool, **given: Any) -> None:
        if replica and database_url is not None:
            raise click.UsageError("--replica and --database-url name two databases; give one of them")
        if replica:
            url = warehouse_url(make_home()) if creates else stored_warehouse_url(expect_home())
        elif database_url is not None:
            url = database_url
            parsed_url(url, "--database-url")
        elif (stored := (settings := command_settings()).of(ServiceSettings).service_database_url) is not None:
            url = stored.get_secret_value()
            parsed_url(url, "SELLER_PLATFORM_SERVICE_DATABASE_URL")
        else:
            url = _service_url(settings, creates=creates)
        command(url=url, **given)

    return with_url


def result_options(
    document: type[msgspec.Struct], *, creates: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command print a result: add its options, and pass it the migrated `database` of the service."""

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_database(*, url: str, **given: Any) -> None:
            with Database(url) as database:
                with progress("Opening the database"):
                    migrate(database)
                command(database=database, **given)

        return database_options(json_option(document)(with_database), creates=creates)

    return with_options


def _service_url(settings: Settings, *, creates: bool) -> str:
    """Return the URL of the service's database where no setting names one.

    It is the sandbox of the home folder if that was filled, else the one of `demo` and `dev`; without either, that of
    the home folder is created, or refused.
    """
    own, demo = settings.home, settings.home / DEMO_FOLDER
    if has_database(own):
        server = embedded_server(own, settings.root_data_folder)
        if server.has_database(SANDBOX):
            note_home(settings)
            return server.url(SANDBOX)
    if has_demo(own):
        note(f"This is the database of `demo` and `dev`, in {demo}.")
        return embedded_server(demo, settings.root_data_folder).database(SANDBOX)
    if not creates:
        raise nothing_stored(settings)
    return sandbox_url(make_home(""))
