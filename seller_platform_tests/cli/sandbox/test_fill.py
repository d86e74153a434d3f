"""Tests that generated rows never replace those of a warehouse."""

import pytest

from seller_platform.cli.sandbox.command import sandbox
from seller_platform.errors import RequestError
from seller_platform.warehouse.connections.accounts import KnownConnection, save_connection
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.command_line import invoke
from seller_platform_tests.support.postgres import drop_database


def test_a_warehouse_with_connections_is_not_filled(database: Database) -> None:
    save_connection(database, KnownConnection("ana", "http://api", "http://auth", "client"))

    with pytest.raises(RequestError, match="is a warehouse with the connections ana; generated rows would"):
        invoke(sandbox, ["load", "--database-url", database.url], catch_exceptions=False)

    with database.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM seller.orders").scalar_one() == 0


def test_an_empty_database_has_no_version(postgres: EmbeddedServer) -> None:
    with Database(postgres.database("nothing_yet")) as empty:
        assert empty.version() is None
    drop_database(postgres, "nothing_yet")
