"""Tests that stored grants are encrypted, locked by one process, and never shown."""

import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import text

from seller_platform.contract.tokens import TokenPair
from seller_platform.errors import InvalidSettingError, NotConnectedError, SecretKeyError
from seller_platform.warehouse.connections.accounts import KnownConnection, save_connection
from seller_platform.warehouse.connections.grants import Grants, grant_facts
from seller_platform.warehouse.connections.secrets import SecretBox, secret_box
from seller_platform.warehouse.postgres.database import Database

PAIR = TokenPair("access-canary", "refresh-canary", datetime(2026, 3, 1, tzinfo=UTC), 3600, 1)


@pytest.fixture
def grants(database: Database, tmp_path: Path) -> Grants:
    save_connection(database, KnownConnection("default", "http://api", "http://api", "client"))
    grants = Grants(database, secret_box(tmp_path, None))
    grants.store("default", PAIR)
    return grants


def test_no_token_is_readable_in_the_table_or_in_a_repr(grants: Grants, database: Database) -> None:
    dump = str(database.execute(text("SELECT g.*, encode(token_pair, 'escape') FROM platform.grants g")).all())

    assert "canary" not in dump + repr(PAIR) + str(grant_facts(database))


def test_each_holder_of_the_lock_reads_the_pair_of_the_one_before(grants: Grants) -> None:
    def rotate(_: int) -> int:
        with grants.locked("default") as grant:
            grant.replace(replace(grant.pair, generation=grant.pair.generation + 1))
            return grant.pair.generation

    with ThreadPoolExecutor(6) as threads:
        seen = list(threads.map(rotate, range(12)))

    assert sorted(seen) == list(range(2, 14))


def test_without_a_grant_the_next_step_is_named(grants: Grants) -> None:
    with pytest.raises(NotConnectedError, match="seller-platform connect"):
        grants.current("nobody")


def test_another_key_cannot_read_and_says_so(grants: Grants, database: Database) -> None:
    other = Grants(database, SecretBox(Fernet.generate_key().decode()))

    with pytest.raises(SecretKeyError, match="SELLER_PLATFORM_SECRET_KEY"):
        other.current("default")


def test_a_key_that_is_none_is_refused_without_repeating_it() -> None:
    with pytest.raises(InvalidSettingError) as caught:
        SecretBox("canary-not-a-key")

    assert "canary" not in str(caught.value)


def test_the_key_file_is_made_once_and_for_us_alone(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        boxes = list(threads.map(lambda _: secret_box(tmp_path / "home", None), range(8)))

    sealed = boxes[0].seal(b"secret")
    assert all(box.open(sealed, "it") == b"secret" for box in boxes)
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["secret.key"]
    assert stat.S_IMODE((tmp_path / "home" / "secret.key").stat().st_mode) == 0o600
