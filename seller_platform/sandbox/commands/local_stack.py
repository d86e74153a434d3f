"""The local stack of `demo` and `dev`: a served sandbox and its environment.

It has a folder of its own inside the home folder, so that generated rows never mix with the rows of a real
connection.
"""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path

from seller_platform.cli.installation import command_settings
from seller_platform.cli.output import Output
from seller_platform.cli.terminal.progress import progress
from seller_platform.clocks import utc_now
from seller_platform.commands import keep_start
from seller_platform.contract import Window
from seller_platform.files import write_atomically
from seller_platform.project import NAMES_FILE
from seller_platform.sandbox.commands.processes import Program, free_port
from seller_platform.sandbox.commands.serving import LOG, await_service, starting
from seller_platform.sandbox.load import ACCOUNTS, MONTHS, load_sandbox
from seller_platform.service.errors import DuplicateUserError
from seller_platform.service.oauth.applications import add_application, applications_of
from seller_platform.service.users.groups import set_group
from seller_platform.service.users.store import add_user, grant_accounts, set_password
from seller_platform.settings import DEMO_FOLDER, Settings, named_in, read_settings
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.location import SANDBOX, WAREHOUSE, embedded_server

USER_EMAIL = "demo@sandbox.example"
GROUP_TITLE = "All shops"


@dataclass(frozen=True)
class Credentials:
    """The login and the application of a local stack, generated on first use.

    They are stored in the folder of the stack.
    """

    password: str = field(repr=False)
    redirect_uri: str
    client_id: str
    client_secret: str = field(repr=False)


@dataclass(frozen=True)
class LocalStack:
    """A running sandbox service, the days of its sales, and the environment that points the platform at it."""

    home: Path
    base_url: str
    sandbox_url: str
    credentials: Credentials
    period: Window
    environment: dict[str, str]
    server: EmbeddedServer
    service: Program

    def use(self) -> Settings:
        """Point this process at the stack, and return the settings that it then has."""
        os.environ.update(self.environment)
        return read_settings()


@contextmanager
def open_local_stack(
    home: Path,
    output: Output,
    *,
    port: int | None = None,
    accounts: int = ACCOUNTS,
    months: int = MONTHS,
    history_months: int | None = None,
    today: date | None = None,
) -> Iterator[LocalStack]:
    """Fill and serve the sandbox until the block ends.

    Args:
        home: The home folder of the installation; the stack's folder is `sandbox` inside it.
        port: The port of the service; without it, a free one.
        months: How many months of their sales, up to yesterday.
        history_months: How many of the newest months history begins with, where it has not begun; all by default.
        today: The last day of the generated rows; by default the present day.
    """
    folder = home / DEMO_FOLDER
    with progress("Starting PostgreSQL"):
        server = embedded_server(folder, command_settings().root_data_folder)
    sandbox_url, warehouse_url = server.database(SANDBOX), server.database(WAREHOUSE)
    with Database(sandbox_url) as database:
        migrate(database)
    base_url = f"http://127.0.0.1:{port or free_port()}"
    # The service starts while the sellers are generated, because its imports take a second or two.
    with starting(sandbox_url, base_url, folder / LOG) as service:
        with Database(sandbox_url) as database:
            with output.progress("Generating sellers", None) as show:
                report = load_sandbox(
                    database, accounts=accounts, months=months, today=today or utc_now(), progress=show
                )
            credentials = _credentials(folder / "playground.json", database)
            try:
                add_user(database, USER_EMAIL, "Demo", credentials.password)
            except DuplicateUserError:
                set_password(database, USER_EMAIL, credentials.password)
            keys = [account.key for account in report.accounts]
            grant_accounts(database, USER_EMAIL, keys)
            set_group(database, USER_EMAIL, GROUP_TITLE, keys)
        history = list(report.period.months())[-(history_months or months) :]
        environment = {
            "SELLER_PLATFORM_HOME": str(folder),
            "SELLER_PLATFORM_DATABASE_URL": warehouse_url,
            "SELLER_PLATFORM_HISTORY_START": history[0].start.isoformat(),
            "SELLER_API_BASE_URL": base_url,
            "SELLER_API_AUTH_URL": base_url,
            "SELLER_API_CLIENT_ID": credentials.client_id,
            "SELLER_API_CLIENT_SECRET": credentials.client_secret,
            "SELLER_API_REDIRECT_URI": credentials.redirect_uri,
            NAMES_FILE: os.devnull,  # the folder's project is of a real connection
        }
        keep_start(folder, [str(each.alias) for each in named_in("elsewhere").values() if each.alias in os.environ])
        await_service(base_url, service)
        yield LocalStack(folder, base_url, sandbox_url, credentials, report.period, environment, server, service)


def _credentials(path: Path, database: Database) -> Credentials:
    if path.exists():
        kept = Credentials(**json.loads(path.read_text()))
        if kept.client_id in {each.client_id for each in applications_of(database)}:
            return kept
    redirect_uri = f"http://127.0.0.1:{free_port()}/callback"
    client_id, client_secret = add_application(database, "Seller Platform", redirect_uri)
    fresh = Credentials(secrets.token_urlsafe(12), redirect_uri, client_id, client_secret)
    write_atomically(path, json.dumps(asdict(fresh)).encode(), 0o600)
    return fresh
