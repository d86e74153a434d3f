"""Tests the URI of a database."""

import pytest

from seller_platform.warehouse.postgres.database import Database


@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("postgresql://me:canary@db.example:6432/warehouse", "postgres://db.example:6432/warehouse"),
        ("postgresql://me:canary@db.example/warehouse", "postgres://db.example:5432/warehouse"),
        ("postgresql://me:canary@/warehouse?host=/run/pg", "postgres:///warehouse"),
        ("postgresql://me@/warehouse?host=one&host=two&password=canary", "postgres://one:5432/warehouse"),
    ],
)
def test_the_uri_of_a_database_names_server_and_database_but_no_user(url: str, uri: str) -> None:
    with Database(url) as database:
        assert database.uri == uri
