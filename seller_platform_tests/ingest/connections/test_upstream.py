"""Tests that a connection uses its stored values first, and settings for missing ones."""

from pathlib import Path

import pytest
from sqlalchemy import text

from seller_platform.contract import Account, account_key
from seller_platform.errors import RequestError, SecretKeyError, SettingsError
from seller_platform.ingest.connections.upstream import Upstream, store_upstream, upstream_of, upstream_to_connect
from seller_platform.settings import Settings, read_settings
from seller_platform.warehouse.connections.accounts import KnownConnection, connections, save_connection
from seller_platform.warehouse.connections.secrets import SecretBox, new_key
from seller_platform.warehouse.postgres.database import Database

STORED = Upstream("http://api.one", "http://auth.one", "one", "canary-one", "http://127.0.0.1:1/one")
BOX = SecretBox(new_key())


@pytest.fixture
def stored(database: Database) -> Database:
    store_upstream(STORED, "ana", database, BOX)
    return database


@pytest.fixture(autouse=True)
def _fresh_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))


def _set(monkeypatch: pytest.MonkeyPatch, **values: str) -> Settings:
    for name, value in values.items():
        monkeypatch.setenv(f"SELLER_API_{name}", value)
    return read_settings()


def test_a_stored_connection_needs_no_setting_and_heeds_none(stored: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = upstream_of("ana", read_settings(), stored, BOX)
    other = _set(
        monkeypatch, BASE_URL="http://api.two", CLIENT_ID="two", CLIENT_SECRET="two", REDIRECT_URI="http://127.0.0.1:2/"
    )

    assert bare == STORED
    assert upstream_of("ana", other, stored, BOX) == STORED


def test_an_old_connection_takes_its_secret_from_settings(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    save_connection(database, KnownConnection("old", "http://api.one", "http://auth.one", "one"))
    with pytest.raises(SettingsError, match=r"application one at http://api\.one, which connection 'old'"):
        upstream_of("old", read_settings(), database, BOX)

    alone = _set(monkeypatch, CLIENT_SECRET="canary")
    upstream = upstream_of("old", alone, database, BOX)
    elsewhere = _set(monkeypatch, BASE_URL="http://api.two")

    assert (upstream.client_secret, upstream.redirect_uri) == ("canary", alone.redirect_uri)
    with pytest.raises(SettingsError):
        upstream_of("old", elsewhere, database, BOX)


def test_a_secret_is_stored_encrypted_and_shown_nowhere(stored: Database) -> None:
    dump = str(stored.execute(text("SELECT c.*, encode(client_secret, 'escape') FROM platform.connections c")).all())

    assert "canary" not in dump + repr(STORED) + repr(connections(stored))
    with pytest.raises(SecretKeyError, match="the client secret of connection 'ana'"):
        upstream_of("ana", read_settings(), stored, SecretBox(new_key()))


def test_connecting_again_takes_what_is_set_and_stored(stored: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = upstream_to_connect("ana", read_settings(), stored, BOX)
    renewed = upstream_to_connect("ana", _set(monkeypatch, CLIENT_SECRET="of today"), stored, BOX)
    named = _set(monkeypatch, BASE_URL="http://api.one/", CLIENT_ID="one", REDIRECT_URI="http://127.0.0.1:9/new")

    assert bare == STORED
    assert renewed.client_secret == "of today"
    assert upstream_to_connect("ana", named, stored, BOX).redirect_uri == "http://127.0.0.1:9/new"


@pytest.mark.parametrize(("name", "value"), [("BASE_URL", "http://api.two"), ("CLIENT_ID", "two")])
def test_connecting_again_as_another_application_must_be_meant(
    stored: Database, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    settings = _set(
        monkeypatch, **{"BASE_URL": "http://api.one", "CLIENT_ID": "one", "CLIENT_SECRET": "x", name: value}
    )

    with pytest.raises(RequestError, match="--replace"):
        upstream_to_connect("ana", settings, stored, BOX)
    assert upstream_to_connect("ana", settings, stored, BOX, replace_stored=True) == Upstream.of(settings)
    assert upstream_to_connect("ben", settings, stored, BOX) == Upstream.of(settings)


@pytest.mark.parametrize("connection", ["default", "us-shop"])
def test_a_connection_is_not_called_as_an_account(database: Database, connection: str) -> None:
    account = Account(1042, "", "US", "USD", "UTC", None, None)

    with pytest.raises(RequestError, match="looks like the key of an account"):
        upstream_to_connect(account_key(account, connection), read_settings(), database, BOX)


def test_values_of_a_connection_that_are_not_given_stay(stored: Database) -> None:
    save_connection(stored, KnownConnection("ana", "http://moved", "http://auth.one", "one"))

    (connection,) = connections(stored)
    assert connection == KnownConnection("ana", "http://moved", "http://auth.one", "one", STORED.redirect_uri)
    assert upstream_of("ana", read_settings(), stored, BOX).client_secret == "canary-one"
