"""Services for tests: one to read, one whose rows are known, and one of the test's own."""

from collections.abc import Iterator

import pytest

from seller_platform.service.lists.endpoints import SERVED
from seller_platform.service.reports.worker import Pace
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.known_rows import fill
from seller_platform_tests.support.served import ACCOUNTS, Served, insert_rows, rows_of, served


@pytest.fixture(scope="session")
def reading(postgres: EmbeddedServer) -> Iterator[Served]:
    """A service full of rows, for tests that change nothing."""
    url = postgres.database("test_service_reading", template="template_seller")
    with Database(url) as database, served(database, url) as running:
        for key in ACCOUNTS:
            for dataset in SERVED:
                insert_rows(database, dataset, key, rows_of(dataset, key))
        yield running


@pytest.fixture(scope="session")
def known(postgres: EmbeddedServer) -> Iterator[Served]:
    """A service with a worker, full of rows of which every value is known, for tests that change none of them."""
    url = postgres.database("test_service_known", template="template_seller")
    with Database(url) as database, served(database, url, worker_pace=Pace(poll_seconds=0.2)) as running:
        fill(running)
        yield running


@pytest.fixture
def service(database: Database, database_url: str) -> Iterator[Served]:
    """A service of the test's own, without rows."""
    with served(database, database_url) as running:
        yield running
