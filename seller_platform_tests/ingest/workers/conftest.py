"""Fixtures of tests of loading processes."""

from collections.abc import Iterator

import pytest

from seller_platform.ingest.workers.pool import LoadingProcesses
from seller_platform.settings import Settings
from seller_platform.warehouse.connections.accounts import save_accounts
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.ingest.workers.connected import Connected
from seller_platform_tests.support.broken_connection import BERLIN
from seller_platform_tests.support.independent_upstream import CLIENT_SECRET, open_independent_upstream
from seller_platform_tests.support.installation import Site
from seller_platform_tests.support.postgres import Databases


@pytest.fixture(scope="module")
def connected(
    postgres: EmbeddedServer, databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connected]:
    name, home = databases.lend(), tmp_path_factory.mktemp("home")
    with (
        open_independent_upstream("http://127.0.0.1:9/back") as upstream,
        Database(postgres.url(name)) as database,
    ):
        settings = Settings.model_validate({"SELLER_PLATFORM_HOME": home, "SELLER_API_CLIENT_SECRET": CLIENT_SECRET})
        connected = Connected(upstream, database, settings)
        Site(database.url, home, upstream.application).connect(upstream.issue())
        save_accounts(database, "default", [(BERLIN.key, BERLIN.account)])
        yield connected
    databases.take_back(name)


@pytest.fixture(scope="module")
def processes(connected: Connected) -> Iterator[LoadingProcesses]:
    """Loading processes for the tests that end none of them."""
    with connected.processes() as running:
        yield running
