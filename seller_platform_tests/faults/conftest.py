"""A connection through the fault proxy."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from seller_platform.contract.tokens import TokenPair
from seller_platform.ingest.connections.upstream import open_keeper
from seller_platform.warehouse.connections.accounts import save_connection
from seller_platform.warehouse.connections.secrets import secret_box
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.broken_connection import Broken
from seller_platform_tests.support.fault_proxy import open_proxy


@pytest.fixture
def broken(database: Database, tmp_path: Path) -> Iterator[Broken]:
    with (
        independent_upstream.open_independent_upstream("http://127.0.0.1:1/cb") as upstream,
        open_proxy(upstream.url) as proxy,
    ):
        built = Broken(upstream, proxy, database, tmp_path)
        save_connection(database, built.stored_upstream.as_connection("default"))
        tokens = upstream.issue()
        keeper = open_keeper(built.stored_upstream, "default", database, secret_box(tmp_path, None), tmp_path)
        keeper.adopt(
            TokenPair(tokens["access_token"], tokens["refresh_token"], datetime.now(UTC), int(tokens["expires_in"]))
        )
        yield built
