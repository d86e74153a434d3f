"""`seller-platform database run` and `url`: how other programs reach the database."""

import secrets
import threading
from contextlib import suppress
from urllib.parse import quote

import click

from seller_platform.cli.installation import command_settings, expect_home, open_installation
from seller_platform.cli.output import Document, Output, json_option
from seller_platform.errors import RequestError
from seller_platform.files import write_atomically
from seller_platform.settings import Settings
from seller_platform.warehouse.postgres.database import Database, url_without_secrets
from seller_platform.warehouse.postgres.location import WAREHOUSE, embedded_server, stored_warehouse_url
from seller_platform.warehouse.postgres.programs import CLIENT_USER, LOOPBACK
from seller_platform.warehouse.schema.readers import save_reader


class DesktopLogin(Document, frozen=True):
    """The login for desktop clients.

    Attributes:
        url: With the password.
        psql: The command that connects.
    """

    url: str
    psql: str


class UrlDocument(Document, frozen=True):
    """The address of the warehouse.

    Attributes:
        is_embedded: Whether it is the embedded server of the home folder.
    """

    url: str
    is_embedded: bool


def require_embedded(settings: Settings, verb: str) -> None:
    """Refuse settings that name another server, which no command runs or removes.

    Raises:
        RequestError: They do.
    """
    if settings.database_url is None:
        return
    with Database(settings.database_url.get_secret_value()) as database:
        raise RequestError(
            f"SELLER_PLATFORM_DATABASE_URL names {database.where}, so there is no embedded server to {verb}",
            code="NotEmbeddedError",
            step="Connect to that server (`seller-platform database reader NAME` prints a line for psql, and "
            "`seller-platform database url` prints the URL), or unset the variable to use the server of the home "
            "folder.",
        )


@click.command()
@click.option("--new-password", is_flag=True, help="Replace the password that is stored in the home folder.")
@json_option(DesktopLogin)
def run(*, new_password: bool, output: Output) -> None:
    """Keep the embedded server up for desktop clients and psql, until Ctrl-C.

    It listens on a port of this machine. The login may read what a reader may, and write nothing; its password stays
    the same from start to start, and so does the port if it is free. Other commands of the same home folder work
    meanwhile.
    """
    settings = command_settings()
    require_embedded(settings, "run")
    with open_installation() as installation:
        file = settings.home / "desktop.password"
        if new_password or not file.exists():
            write_atomically(file, secrets.token_urlsafe(24).encode(), 0o600)
        password = file.read_text()
        save_reader(installation.database, CLIENT_USER, password)
        server = embedded_server(settings.home, settings.root_data_folder)
        with suppress(KeyboardInterrupt):
            secret, port = quote(password, safe=""), server.port
            full = f"postgresql://{CLIENT_USER}:{secret}@{LOOPBACK}:{port}/{WAREHOUSE}"
            psql = f"PGPASSWORD={secret} psql postgresql://{CLIENT_USER}@{LOOPBACK}:{port}/{WAREHOUSE}"
            output.document(DesktopLogin(url=full, psql=psql))
            parts = {"Host": LOOPBACK, "Port": port, "Database": WAREHOUSE, "User": CLIENT_USER, "Password": password}
            for name, value in {"URL": full, "psql": psql, **parts}.items():
                output.line(f"{name:<9} {value}")
            output.line("This login reads; it changes no table. Ctrl-C ends it.")
            while not threading.Event().wait(1.0):
                if server.revive():
                    output.say(f"PostgreSQL ended unexpectedly and is started again, on port {server.port}.")


@click.command()
@click.option("--with-password", is_flag=True, help="Show the password of the URL, too.")
@json_option(UrlDocument)
def url(*, with_password: bool, output: Output) -> None:
    """Print the URL of the warehouse, for psql and other programs.

    The password is left out. The embedded server is reached through a socket, by your user of this machine.
    """
    settings = expect_home()
    address, is_embedded = stored_warehouse_url(settings), settings.database_url is None
    shown = address if with_password else url_without_secrets(address)
    output.document(UrlDocument(url=shown, is_embedded=is_embedded))
    output.line(shown)
    if is_embedded:
        output.say("The embedded server runs while a program uses it; `seller-platform database run` keeps it up.")
