"""Who asks of the demo's company as it was read on 15 April 2026."""

from collections.abc import Iterator

import pytest

from seller_platform.agents.asker import Asker
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.readers import open_reading, save_reader
from seller_platform_tests.support.demo_company import AU, DE, NOW, US
from seller_platform_tests.support.served import ANN, Served, add_user, running_app
from seller_platform_tests.support.services import documents, service

__all__ = ["documents", "service"]


@pytest.fixture(scope="session")
def asker(company: Database) -> Iterator[Asker]:
    """The operator, who may see every account."""
    save_reader(company, "asker", "correct horse battery")
    with open_reading(company.url) as database:
        reader_url = company.url_of_user("asker")
        yield Asker(database, reader_url=reader_url, dagster_url="http://dagster.test", clock=lambda: NOW)


@pytest.fixture(scope="session")
def agents(company: Database) -> Iterator[Served]:
    """A service that answers agents over the demo's company; Ann may read its three accounts."""
    add_user(company, ANN, (US, DE, AU))
    with running_app(company.url, private_client_hosts=("localhost",), now=NOW, serves_agents=True) as base_url:
        yield Served(base_url, company, "", "")
