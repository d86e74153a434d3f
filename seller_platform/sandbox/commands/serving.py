"""The service over a database of this machine, such as the sandbox of `demo` and `dev`, as a program of its own."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from seller_platform.cli.terminal.progress import progress
from seller_platform.commands import uses_demo_start
from seller_platform.contract.wire import SERVICE_STATUS
from seller_platform.sandbox.commands.processes import Program, await_answer, free_port, running
from seller_platform.settings import Settings
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.migrations.pending import version_of
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import SANDBOX, WAREHOUSE, embedded_server, has_database

LOG = "service.log"


@contextmanager
def served_demo(settings: Settings) -> Iterator[None]:
    """Serve the sandbox of `demo` until the block ends, where `--demo` is used and nothing else serves it.

    The commands of `--demo` then reach the upstream of their connection.
    """
    base_url = _stored_url(settings) if uses_demo_start() else None
    port = urlsplit(base_url).port if base_url else None
    if base_url is None or port is None or urlsplit(base_url).hostname != "127.0.0.1" or free_port(port) != port:
        yield
        return
    sandbox_url = embedded_server(settings.home, settings.root_data_folder).database(SANDBOX)
    with starting(sandbox_url, base_url, settings.home / LOG) as service:
        await_service(base_url, service)
        yield


def _stored_url(settings: Settings) -> str | None:
    """Return the address that the demo's connection has; None where there is no demo."""
    if not has_database(settings.home):
        return None
    server = embedded_server(settings.home, settings.root_data_folder)
    if not server.has_database(WAREHOUSE):
        return None
    with Database(server.url(WAREHOUSE)) as database:
        stored = connections(database) if version_of(database) is not None else ()
    return stored[0].base_url if stored else None


def starting(database_url: str, base_url: str, log: Path) -> AbstractContextManager[Program]:
    """Run the service over a database at an address of this machine until the block ends; it may not answer yet."""
    port = str(urlsplit(base_url).port)
    command = [sys.executable, "-m", "seller_platform.cli", "service", "run", "--port", port]
    # The environment, unlike arguments, is not shown in lists of processes.
    # It is reached on the loopback, whatever the public URL of this machine's own service is.
    variables = {"SELLER_PLATFORM_SERVICE_DATABASE_URL": database_url, "SELLER_PLATFORM_SERVICE_PUBLIC_URL": ""}
    return running(f"the {log.stem}", command, variables, log)


def await_service(base_url: str, service: Program) -> None:
    """Wait until the service answers."""
    with progress(f"Starting {service.name}"):
        await_answer(f"{base_url}{SERVICE_STATUS}", service)
