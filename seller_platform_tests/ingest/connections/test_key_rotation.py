"""Tests that keys can be rotated while other processes read and write secrets."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from seller_platform.contract.tokens import TokenPair
from seller_platform.errors import SecretKeyError
from seller_platform.ingest.connections.key_rotation import reseal, rotate_key_file, sealed_otherwise
from seller_platform.ingest.connections.token_rotation import SPOOL_FOLDER, PairSpool
from seller_platform.warehouse.connections.accounts import (
    KnownConnection,
    client_secret_of,
    save_client_secret,
    save_connection,
)
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.connections.secrets import (
    SecretBox,
    key_file,
    new_key,
    open_stored,
    secret_box,
    write_keys,
)
from seller_platform.warehouse.postgres.database import Database

pytestmark = pytest.mark.slow

PAIR = TokenPair("access-canary", "refresh-canary", datetime(2026, 3, 1, tzinfo=UTC), 3600, 1)
NAMES = ("ana", "ben")


@pytest.fixture
def home(tmp_path: Path, database: Database) -> Path:
    fill(database, secret_box(tmp_path, None))
    return tmp_path


def fill(database: Database, box: SecretBox) -> None:
    for name in NAMES:
        save_connection(database, KnownConnection(name, "http://api", "http://api", "client"))
        save_client_secret(database, box, name, f"secret-of-{name}")
        Grants(database, box).store(name, PAIR)


def opened(database: Database, box: SecretBox) -> list[tuple[str, str | None]]:
    grants = Grants(database, box)
    return [(grants.current(name)[0].access_token, client_secret_of(database, box, name)) for name in NAMES]


ALL = [("access-canary", f"secret-of-{name}") for name in NAMES]


def test_after_a_rotation_the_new_key_alone_opens_every_secret(database: Database, home: Path) -> None:
    old = key_file(home).read_text()
    PairSpool(home / SPOOL_FOLDER, "ana", SecretBox(old)).keep(replace(PAIR, generation=2))
    with Grants(database, SecretBox(old)).locked("ana") as grant:
        grant.refuse("invalid_grant")

    before = secret_box(home, None)
    resealed = rotate_key_file(database, home)

    new = SecretBox(key_file(home).read_text())
    assert (resealed.grants, resealed.client_secrets, resealed.spools) == (2, 2, 1)
    secrets = [key_file(home), *(home / SPOOL_FOLDER).glob("*.pair")]
    assert [path.stat().st_mode & 0o077 for path in secrets] == [0, 0]
    assert opened(database, new) == opened(database, before) == ALL
    assert PairSpool(home / SPOOL_FOLDER, "ana", new).kept() == replace(PAIR, generation=2)
    assert Grants(database, new).current("ana") == (PAIR, "invalid_grant")
    with pytest.raises(SecretKeyError):
        opened(database, SecretBox(old))


def test_a_secret_that_no_key_opens_is_an_error(home: Path) -> None:
    foreign = SecretBox(new_key()).seal(b"secret")

    with pytest.raises(SecretKeyError, match="the secret"):
        open_stored(lambda: foreign, lambda sealed: secret_box(home, None).open(sealed, "the secret"))


def test_an_interrupted_rotation_is_completed_with_the_same_key(database: Database, home: Path) -> None:
    new, old = new_key(), key_file(home).read_text()
    write_keys(key_file(home), (new, old))
    Grants(database, SecretBox(key_file(home))).store("ana", PAIR)

    others = sealed_otherwise(database, home, SecretBox(new))
    rotate_key_file(database, home)

    assert key_file(home).read_text() == new
    assert others == (
        "the grant of connection 'ben'",
        "the client secret of connection 'ana'",
        "the client secret of connection 'ben'",
    )
    assert opened(database, SecretBox(new)) == ALL


def test_what_no_key_opens_stops_the_rotation_and_costs_nothing(database: Database, home: Path) -> None:
    Grants(database, SecretBox(Fernet.generate_key().decode())).store("ben", PAIR)
    old = key_file(home).read_text()

    with pytest.raises(SecretKeyError, match="the grant of connection 'ben'"):
        rotate_key_file(database, home)

    assert old in key_file(home).read_text()
    assert Grants(database, secret_box(home, None)).current("ana")[0] == PAIR


def test_with_several_keys_everything_is_encrypted_with_the_first(database: Database, tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    fill(database, SecretBox(old))

    assert len(sealed_otherwise(database, tmp_path, SecretBox(new))) == 4
    reseal(database, tmp_path, SecretBox(f"{new},{old}"))

    assert sealed_otherwise(database, tmp_path, SecretBox(new)) == ()
    assert len(sealed_otherwise(database, tmp_path, SecretBox(old))) == 4
