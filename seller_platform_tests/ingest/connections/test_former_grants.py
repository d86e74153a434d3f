"""Tests that a grant that is carried over replaces no other one by accident."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from seller_platform.contract.tokens import TokenPair
from seller_platform.errors import RequestError
from seller_platform.ingest.connections.former_grants import carry_grant
from seller_platform.ingest.connections.upstream import Upstream, store_upstream, upstream_of
from seller_platform.settings import read_settings
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.connections.secrets import SecretBox, new_key, secret_box
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.postgres import Databases

FORMER = Upstream("http://api.one", "http://auth.one", "one", "secret-one", "http://127.0.0.1:1/one")
TODAY = Upstream("http://api.two", "http://auth.one", "two", "secret-two", "http://127.0.0.1:1/two")
PAIR = TokenPair("access", "refresh", datetime(2026, 3, 1, tzinfo=UTC), 3600, 5, "of March")
BOX = SecretBox(new_key())


@pytest.fixture
def former(databases: Databases, tmp_path: Path) -> Iterator[Database]:
    """A former installation, whose home folder is the test's."""
    name = databases.lend()
    with Database(databases.server.url(name), connections=1) as opened:
        box = secret_box(tmp_path, None)
        store_upstream(FORMER, "default", opened, box)
        Grants(opened, box).store("default", PAIR)
        yield opened
    databases.take_back(name)


@pytest.mark.parametrize("issued_at", [datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)])
def test_a_grant_of_another_authorisation_stays_unless_replaced(
    database: Database, former: Database, tmp_path: Path, issued_at: datetime
) -> None:
    other = replace(PAIR, issued_at=issued_at, generation=1, authorization="of today")
    store_upstream(TODAY, "default", database, BOX)
    Grants(database, BOX).store("default", other)

    with pytest.raises(RequestError, match=f"another authorisation already, of {issued_at:%Y-%m-%d}.*--replace"):
        _carry(former, tmp_path, database)

    assert Grants(database, BOX).current("default") == (other, None)
    assert upstream_of("default", read_settings(), database, BOX) == TODAY
    assert _carry(former, tmp_path, database, replace_stored=True) == FORMER
    assert Grants(database, BOX).current("default") == (PAIR, None)


def test_a_refused_grant_is_replaced(database: Database, former: Database, tmp_path: Path) -> None:
    store_upstream(TODAY, "default", database, BOX)
    Grants(database, BOX).store("default", replace(PAIR, authorization="of today"))
    with Grants(database, BOX).locked("default") as grant:
        grant.refuse("invalid_grant")

    _carry(former, tmp_path, database)

    assert Grants(database, BOX).current("default") == (PAIR, None)


def _carry(former: Database, home: Path, database: Database, *, replace_stored: bool = False) -> Upstream:
    return carry_grant(
        former,
        home,
        connection="default",
        settings=read_settings(),
        database=database,
        box=BOX,
        replace_stored=replace_stored,
    )
