"""Fixture of a sandbox with four busy months, for tests that only read it."""

from collections.abc import Iterator

import pytest

from seller_platform.sandbox.load import load_sandbox
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.postgres import copied
from seller_platform_tests.support.sandbox_tables import TODAY


@pytest.fixture(scope="session")
def sandbox(postgres: EmbeddedServer) -> Iterator[Database]:
    """A database with three accounts; tests must not change it."""
    with Database(copied(postgres, "sandbox_to_look_at")) as database:
        load_sandbox(database, months=4, orders_per_month=1_500, today=TODAY)
        yield database
