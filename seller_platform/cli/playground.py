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
import threading
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
from seller_platform.files import write_atomically
from seller_platform.service.applications import add_application, knows_application
from seller_platform.service.groups import set_group
from seller_platform.service.users import ensure_user, grant_accounts
from seller_platform.warehouse.database import Database
from seller_platform.warehouse.location import SANDBOX, WAREHOUSE, embedded_server
from seller_platform.warehouse.server import EmbeddedServer

USER_EMAIL = "demo@sandbox.example"
GROUP_TITLE = "All shops"
_FILE = "playground.json"
_READY_SECONDS = 60
_STARTS_A_MINUTE = 5
_CHILDREN_SECONDS = 5


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
    server: EmbeddedServer
    service: "Program"


class ServiceStartError(SellerPlatformError):
    """The sandbox service does not come up."""


@contextmanager
def open_playground(
    home: Path, output: Output, *, port: int | None = None, accounts: int = 3, months: int = 4
) -> Iterator[Playground]:
    """Fill and serve the sandbox until the block ends.

    Args:
        home: The home folder of the installation; the playground is `sandbox` inside it.
        port: Where the service listens; a free port where none is given.
        accounts: How many accounts are invented.
        months: How many months of theirs, up to yesterday.

    Raises:
        ServiceStartError: The service does not answer.
    """
    folder = home / "sandbox"
    server = embedded_server(folder)
    sandbox_url, warehouse_url = server.database(SANDBOX), server.database(WAREHOUSE)
    with Database(sandbox_url) as database:
        database.migrate()
        report = invent(database, output, accounts=accounts, months=months)
        credentials = _credentials(folder / _FILE, database)
        ensure_user(database, USER_EMAIL, "Demo", credentials.password)
        keys = [account.key for account in report.accounts]
        grant_accounts(database, USER_EMAIL, keys)
        set_group(database, USER_EMAIL, GROUP_TITLE, keys)
    base_url = f"http://127.0.0.1:{port or free_port()}"
    environment = {
        "SELLER_PLATFORM_HOME": str(folder),
        "SELLER_PLATFORM_DATABASE_URL": warehouse_url,
        "SELLER_PLATFORM_HISTORY_START": report.period.start.isoformat(),
        "SELLER_API_BASE_URL": base_url,
        "SELLER_API_AUTH_URL": base_url,
        "SELLER_API_CLIENT_ID": credentials.client_id,
        "SELLER_API_CLIENT_SECRET": credentials.client_secret,
        "SELLER_API_REDIRECT_URI": credentials.redirect_uri,
    }
    with running(
        "the service",
        [sys.executable, "-m", "seller_platform.cli", "service", "run", "--port", str(urlsplit(base_url).port)],
        {"SELLER_PLATFORM_SERVICE_DATABASE_URL": sandbox_url},
        folder / "service.log",
    ) as service:
        await_answer(f"{base_url}{SERVICE_STATUS}", service)
        yield Playground(folder, base_url, sandbox_url, credentials, report.rows, environment, server, service)


class Program:
    """A program of ours, which runs until it is ended, and its children with it."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], log: Path) -> None:
        """Start it.

        Args:
            name: What it is called in messages.
            environment: Variables beside those of this process.
            log: Where its output goes.
        """
        self.name, self.log = name, log
        self._command, self._environment = command, environment
        self._starts: list[float] = []
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        self._starts.append(time.monotonic())
        with self.log.open("ab") as file:
            self.process = subprocess.Popen(
                self._command,
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches us alone, and we end it in order
            )

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def keeps_ending(self) -> bool:
        """Whether starting it again has not helped, several times within a minute."""
        return len([start for start in self._starts if start > time.monotonic() - 60]) > _STARTS_A_MINUTE

    def end(self) -> None:
        """Ask it to end, and insist if it does not."""
        for number, seconds in ((signal.SIGINT, 15), (signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            with suppress(ProcessLookupError):
                # The first signal goes to the program alone, which ends its own children.
                (os.kill if number is signal.SIGINT else os.killpg)(self.process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
                break
        # Its children too, and wait for them: one that still dies would hold the embedded server open.
        deadline = time.monotonic() + _CHILDREN_SECONDS
        with suppress(ProcessLookupError):
            while time.monotonic() < deadline:
                os.killpg(self.process.pid, signal.SIGKILL)
                time.sleep(0.02)


@contextmanager
def running(name: str, command: list[str], environment: dict[str, str], log: Path) -> Iterator[Program]:
    """Run a program of ours until the block ends."""
    program = Program(name, command, environment, log)
    try:
        yield program
    finally:
        program.end()


def free_port() -> int:
    """Return a port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def port_or_free(preferred: int) -> int:
    """Return a port if it is free now, else another one that is."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", preferred))
        except OSError:
            return free_port()
        return preferred


def await_answer(url: str, program: Program, *, unless: threading.Event | None = None) -> None:
    """Wait until an address answers, or until `unless` is set.

    Raises:
        ServiceStartError: The process ended, or time was up.
    """
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline and not program.has_ended:
        if unless is not None and unless.is_set():
            return
        with suppress(httpx.TransportError):
            if httpx.get(url, timeout=5).is_success:
                return
        time.sleep(0.1)
    tail = " | ".join(program.log.read_text(errors="replace").strip().splitlines()[-3:])
    raise ServiceStartError(f"{url} does not answer: {tail or 'no word in its log'}. Look into {program.log}")


def _credentials(path: Path, database: Database) -> Credentials:
    if path.exists():
        kept = Credentials(**json.loads(path.read_text()))
        if knows_application(database, kept.client_id):
            return kept
    redirect_uri = f"http://127.0.0.1:{free_port()}/callback"
    client_id, client_secret = add_application(database, "Seller Platform", redirect_uri)
    fresh = Credentials(secrets.token_urlsafe(12), redirect_uri, client_id, client_secret)
    write_atomically(path, json.dumps(asdict(fresh)).encode(), 0o600)
    return fresh
