"""A real PostgreSQL for every test that asks for one: an own database, cloned from a migrated template."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import certifi
import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.postgres import TEMPLATE, Databases
from seller_platform_tests.support.watchdog import Watchdog, folder_of_the_run

_WATCHDOG = pytest.StashKey[Watchdog]()


def pytest_configure(config: pytest.Config) -> None:
    """Let HTTP clients trust a single authority: no test speaks TLS, and all of them take 20 ms to load each time.

    And let hypothesis not mind how long anything takes on a machine that does other things, too. SIGTERM interrupts the
    run as Ctrl-C does, also where a shell started it in the background, with SIGINT ignored.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # the workers of pytest-xdist belong to a run that has its watchdog
        config.stash[_WATCHDOG] = Watchdog()
        # Not below pytest's own folder, which each start of another pytest closes to the server's user again.
        config.option.basetemp = config.option.basetemp or folder_of_the_run() / "temporary"
    settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("patient")
    authorities = folder_of_the_run() / f"authority-{os.getpid()}.pem"
    first, end, _ = certifi.contents().partition("-----END CERTIFICATE-----")
    authorities.write_text(f"{first}{end}\n")
    os.environ["SSL_CERT_FILE"] = str(authorities)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """End the processes that are left when all fixtures have ended and all workers have stopped."""
    try:
        yield
    finally:
        if watchdog := session.config.stash.get(_WATCHDOG, None):
            watchdog.end(keeps_folder=session.testsfailed > 0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark journeys and browser tests as slow, and give every test process its share of the journeys first.

    pytest-xdist gives the first process the first tests, as many as there are for each, and so on.
    """
    for item in items:
        if item.get_closest_marker("journey") or item.get_closest_marker("browser"):
            item.add_marker("slow")
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    journeys = [item for item in items if item.get_closest_marker("journey")]
    others = [item for item in items if not item.get_closest_marker("journey")]
    modules = sorted({item.path for item in journeys})
    ordered: list[pytest.Item] = []
    for process in range(processes):
        share = (len(items) - len(ordered)) // (processes - process)
        first = [item for item in journeys if modules.index(item.path) % processes == process]
        ordered += first + others[: max(0, share - len(first))]
        del others[: max(0, share - len(first))]
    items[:] = ordered + others


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedServer]:
    """The embedded server of this test process."""
    with tempfile.TemporaryDirectory(dir=folder_of_the_run(), ignore_cleanup_errors=True) as folder:
        server = EmbeddedServer(Path(folder) / "postgres")
        # No test outlives the machine: what it writes need not reach the disk, which is what tests would wait for.
        with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
            for name in ("fsync", "full_page_writes"):
                connection.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(name)))
            connection.execute("SELECT pg_reload_conf()")
        with Database(server.database(TEMPLATE)) as template:
            template.migrate()
        yield server
        server.close()


@pytest.fixture(scope="session")
def databases(postgres: EmbeddedServer) -> Databases:
    """What lends databases of that server."""
    return Databases(postgres)


@pytest.fixture
def database_url(postgres: EmbeddedServer, databases: Databases) -> Iterator[str]:
    """The URL of an empty, migrated database of the test's own."""
    name = databases.lend()
    yield postgres.url(name)
    databases.take_back(name)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """The same database, opened."""
    with Database(database_url) as opened:
        yield opened
