"""The demo's company, of which agents ask."""

from collections.abc import Iterator

import pytest

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.demo_company import load_demo_company
from seller_platform_tests.support.postgres import TEMPLATE


@pytest.fixture(scope="session")
def company(postgres: EmbeddedServer) -> Iterator[Database]:
    """A warehouse whose users are those of these tests."""
    with Database(postgres.database("demo_company_of_agents", template=TEMPLATE)) as database:
        load_demo_company(database)
        yield database
