"""Fixtures of running services: with many rows, with fixed values, and empty."""

from collections.abc import Iterator

import httpx
import pytest

from seller_platform.service.lists.endpoints import SERVED
from seller_platform.service.reports.worker import Pace
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.client_documents import Documents, hosted_documents
from seller_platform_tests.support.known_rows import fill
from seller_platform_tests.support.postgres import copied
from seller_platform_tests.support.served import ANN, Served, served
from seller_platform_tests.support.stored_rows import insert_rows, rows_of


@pytest.fixture(scope="session")
def reading(postgres: EmbeddedServer) -> Iterator[Served]:
    """A service with many rows, for tests that change nothing."""
    url = copied(postgres, "test_service_reading")
    with Database(url) as database, served(database, url) as running:
        for key in ("us-1", "de-2"):
            for dataset in SERVED:
                insert_rows(database, dataset, key, rows_of(dataset, key))
        yield running


@pytest.fixture(scope="session")
def filled(postgres: EmbeddedServer) -> Iterator[Served]:
    """A service with a worker and fixed values, for tests that do not change them."""
    url = copied(postgres, "test_service_filled")
    with Database(url) as database, served(database, url, worker_pace=Pace(poll_seconds=0.2)) as running:
        fill(running)
        yield running


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Documents]:
    """A host of client documents on the loopback, whose certificate is trusted."""
    with hosted_documents(tmp_path_factory.mktemp("documents")) as documents:
        yield documents


@pytest.fixture
def ann(service: Served) -> Iterator[httpx.Client]:
    """A client of this service with a token of Ann."""
    with service.client(ANN) as client:
        yield client


@pytest.fixture
def service(database: Database, database_url: str) -> Iterator[Served]:
    """A service without rows that only this test uses."""
    with served(database, database_url) as running:
        yield running
