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


def pytest_configure() -> None:
    """Let HTTP clients trust a single authority: no test speaks TLS, and all of them take 20 ms to load each time.

    And let hypothesis not mind how long anything takes on a machine that does other things, too; and processes hear of
    SIGTERM: a shell's job in the background ignores SIGINT, from which Dagster takes over what to do about SIGTERM.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("patient")
    authorities = Path(tempfile.gettempdir()) / f"seller-tests-authority-{os.getpid()}.pem"
    first, end, _ = certifi.contents().partition("-----END CERTIFICATE-----")
    authorities.write_text(f"{first}{end}\n")
    os.environ["SSL_CERT_FILE"] = str(authorities)


def pytest_unconfigure() -> None:
    """Remove it."""
    Path(os.environ.pop("SSL_CERT_FILE")).unlink(missing_ok=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let every test process begin with its share of the journeys, module by module: none is left for the end.

    pytest-xdist gives the first process the first tests, as many as there are for each, and so on.
    """
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
    with tempfile.TemporaryDirectory(prefix="seller-tests-", ignore_cleanup_errors=True) as folder:
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
