"""The playground of `demo` and `dev`: the sandbox served for real, and the platform pointed at it.

It lives in a folder of its own inside the home folder, so that nothing invented ever meets the rows of a real
connection.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from seller_platform.cli.output import Output
from seller_platform.cli.sandbox import invent
from seller_platform.contract.endpoints import SERVICE_STATUS
from seller_platform.errors import SellerPlatformError
from seller_platform.service.applications import add_application, knows_application
from seller_platform.service.users import ensure_user, grant_accounts
from seller_platform.warehouse.accounts import stored_account_keys
from seller_platform.warehouse.database import Database
from seller_platform.warehouse.location import SANDBOX, WAREHOUSE, EmbeddedServer, embedded_server

USER_EMAIL = "demo@sandbox.example"
_FILE = "playground.json"
_READY_SECONDS = 60


@dataclass(frozen=True)
class Credentials:
    """The login and the application of a playground; invented on its first use and kept there."""

    password: str = field(repr=False)
    redirect_uri: str
    client_id: str
    client_secret: str = field(repr=False)


@dataclass(frozen=True)
class Playground:
    """A running sandbox service, and the environment that points the platform at it."""

    home: Path
    base_url: str
    sandbox_url: str
    credentials: Credentials
    rows: dict[str, int]
    environment: dict[str, str]


class ServiceStartError(SellerPlatformError):
    """The sandbox service does not come up."""


@contextmanager
def open_playground(home: Path, output: Output, *, port: int | None = None) -> Iterator[Playground]:
    """Fill and serve the sandbox until the block ends.

    Args:
        home: The home folder of the installation; the playground is `sandbox` inside it.
        port: Where the service listens; a free port where none is given.

    Raises:
        ServiceStartError: The service does not answer.
    """
    folder = home / "sandbox"
    server = embedded_server(folder)
    sandbox_url, warehouse_url = server.database(SANDBOX), server.database(WAREHOUSE)
    with Database(sandbox_url) as database:
        database.migrate()
        rows = invent(database, output)
        credentials = _credentials(folder / _FILE, database)
        ensure_user(database, USER_EMAIL, "Demo", credentials.password)
        grant_accounts(database, USER_EMAIL, stored_account_keys(database))
    base_url = f"http://127.0.0.1:{port or free_port()}"
    environment = {
        "SELLER_PLATFORM_HOME": str(folder),
        "SELLER_PLATFORM_DATABASE_URL": warehouse_url,
        "SELLER_PLATFORM_HISTORY_START": _history_start(rows, sandbox_url),
        "SELLER_API_BASE_URL": base_url,
        "SELLER_API_AUTH_URL": base_url,
        "SELLER_API_CLIENT_ID": credentials.client_id,
        "SELLER_API_CLIENT_SECRET": credentials.client_secret,
        "SELLER_API_REDIRECT_URI": credentials.redirect_uri,
    }
    with _service(sandbox_url, base_url, folder / "service.log"):
        yield Playground(folder, base_url, sandbox_url, credentials, rows, environment)
