"""Who asks of the demo's company as it was read on 15 April 2026."""

from collections.abc import Iterator

import pytest

from seller_platform.answers.asker import Asker
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.readers import open_as_reader
from seller_platform_tests.support.demo_company import NOW


@pytest.fixture(scope="session")
def asker(company: Database) -> Iterator[Asker]:
    """The operator, who may see every account."""
    with open_as_reader(company) as reader:
        yield Asker(reader, dagster_url="http://dagster.test", clock=lambda: NOW)
