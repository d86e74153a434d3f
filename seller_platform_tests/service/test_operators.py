"""What the operator does: users, grants, applications."""

import pytest

from seller_platform.contract import Account
from seller_platform.errors import (
    DuplicateUserError,
    InvalidApplicationError,
    InvalidUserError,
    UnknownAccountError,
    UnknownUserError,
)
from seller_platform.service.applications import add_application, check_redirect_uri, knows_application
from seller_platform.service.passwords import verify_password
from seller_platform.service.users import add_user, ensure_user, grant_accounts
from seller_platform.warehouse.database import Database
from seller_platform_tests.service.conftest import list_accounts


def _scalars(database: Database, statement: str) -> list[object]:
    with database.begin() as connection:
        return list(connection.exec_driver_sql(statement).scalars())


def test_a_second_user_with_the_same_address_is_refused(database: Database) -> None:
    add_user(database, "ann@shop.example", "Ann", "password")

    with pytest.raises(DuplicateUserError, match=r"'ANN@shop\.example' already"):
        add_user(database, "ANN@shop.example", "Ann", "password")


def test_ensuring_a_user_twice_changes_name_and_password(database: Database) -> None:
    first = ensure_user(database, "ann@shop.example", "Ann", "old")
    second = ensure_user(database, "Ann@shop.example", "Anna", "new")

    assert first == second
    assert _scalars(database, "SELECT name FROM service.users") == ["Anna"]
    [password_hash] = _scalars(database, "SELECT password_hash FROM service.users")
    assert str(password_hash).startswith("$argon2id$")
    assert verify_password(str(password_hash), "new")
    assert not verify_password(str(password_hash), "old")


@pytest.mark.parametrize(
    ("email", "name", "password"),
    [
        ("ann", "Ann", "password"),
        ("ann@", "Ann", "password"),
        ("a nn@shop.example", "Ann", "password"),
        ("ann@shop.example", " ", "password"),
        ("ann@shop.example", "Ann", ""),
        ("ann@shop.example", "Ann", "x" * 1025),
        ("ann@shop.example", "A\0", "password"),
    ],
)
def test_a_user_who_cannot_be_is_refused(database: Database, email: str, name: str, password: str) -> None:
    with pytest.raises(InvalidUserError):
        add_user(database, email, name, password)


def test_grants_add_up_and_name_what_is_unknown(database: Database) -> None:
    add_user(database, "ann@shop.example", "Ann", "password")
    list_accounts(database, {f"S{n}.US": Account(n, f"Shop {n}", "US", "USD", "UTC", "US", f"S{n}") for n in (1, 2)})

    grant_accounts(database, "Ann@shop.example", ["S1.US"])
    grant_accounts(database, "ann@shop.example", ["S1.US", "S2.US"])
    with pytest.raises(UnknownAccountError, match=r"S1\.US, S2\.US"):
        grant_accounts(database, "ann@shop.example", ["S3.US"])
    with pytest.raises(UnknownUserError, match="nobody"):
        grant_accounts(database, "nobody@shop.example", ["S1.US"])

    assert _scalars(database, "SELECT account FROM service.user_accounts ORDER BY 1") == ["S1.US", "S2.US"]


def test_an_application_is_known_by_its_id(database: Database) -> None:
    client_id, secret = add_application(database, "App", "https://app.example/callback")

    assert knows_application(database, client_id)
    assert not knows_application(database, "other")
    assert len(secret) >= 43


@pytest.mark.parametrize(
    "uri",
    [
        "https://app.example/callback?tenant=1",
        "http://127.0.0.1:8765/callback",
        "http://localhost/callback",
        "http://[::1]:1/",
    ],
)
def test_redirect_uris_that_are_safe_are_taken(uri: str) -> None:
    check_redirect_uri(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "http://app.example/callback",
        "https://app.example/#fragment",
        "https://app.example/#",
        "/callback",
        "https://",
        "javascript:alert(1)",
        "https://user:secret@app.example/",
        "https://app.example/a b",
        "https://app.example\\@evil.example/",
        "https://app.example:99999/",
        "https://[::1/",
        "https://bücher.example/",
        "https://app.example/\r\nX: y",
    ],
)
def test_redirect_uris_that_are_not_safe_are_refused(uri: str) -> None:
    with pytest.raises(InvalidApplicationError):
        check_redirect_uri(uri)
