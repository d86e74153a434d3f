"""A connection to an upstream whose answers are sent by faults."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.broken_connection import Broken


@pytest.fixture
def broken(database: Database, tmp_path: Path) -> Iterator[Broken]:
    with independent_upstream.open_independent_upstream("http://127.0.0.1:1/cb") as upstream:
        built = Broken(upstream, database, tmp_path)
        upstream.token_seconds = 86_400  # so that tokens are refreshed when a test says so, however long it takes
        built.site.connect(upstream.issue())
        yield built
