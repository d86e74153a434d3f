"""Fixtures of running services: with many rows, with fixed values, and empty."""

from collections.abc import Iterator
from inspect import signature

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


def _service_of(request: pytest.FixtureRequest) -> Served:
    """Return the service of a test, which is its first parameter of this type; without one it has its own."""
    parameters = signature(request.function).parameters.values()
    name = next((each.name for each in parameters if each.annotation is Served), "service")
    service: Served = request.getfixturevalue(name)
    return service


@pytest.fixture
def ann(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """A client of the test's service with a token of Ann."""
    with _service_of(request).client(ANN) as client:
        yield client


@pytest.fixture
def browser(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """A client of the test's service without a token, in which no user is logged in."""
    with _service_of(request).client() as client:
        yield client


@pytest.fixture
def user(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """A browser at the test's service, in which Ann is logged in."""
    with _service_of(request).logged_in() as browser:
        yield browser


@pytest.fixture
def service(database: Database, database_url: str) -> Iterator[Served]:
    """A service without rows that only this test uses."""
    with served(database, database_url) as running:
        yield running
