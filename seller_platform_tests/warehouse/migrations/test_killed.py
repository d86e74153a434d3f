"""An upgrade that is killed after any of its statements goes on when it runs again, with the same end."""

import os
import signal
from collections.abc import Iterator
from datetime import date, timedelta
from multiprocessing.connection import Connection
from typing import Any

import psycopg
import pytest
from sqlalchemy import event, text

from seller_platform.contract import Window, dataset_named
from seller_platform.warehouse.migrations.upgrade import upgrade
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.next_versions import migrations
from seller_platform_tests.support.contents import Contents, contents_of
from seller_platform_tests.support.installation import begin
from seller_platform_tests.support.postgres import drop_database, end_connections
from seller_platform_tests.support.stored_rows import store_slice
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

_FILLED = "is_filled"
_NEVER = 1_000_000


@pytest.fixture(scope="module")
def filled(postgres: EmbeddedServer) -> Iterator[tuple[str, Contents]]:
    """A database with orders, of which some are former ones, and what it has."""
    url = postgres.database(_FILLED)
    with Database(url) as database:
        database.migrate(partitions=2)
        _fill(database)
        contents = contents_of(database)
    end_connections(postgres, _FILLED)
    yield _FILLED, contents
    drop_database(postgres, _FILLED)


@pytest.mark.parametrize(
    "step", [pytest.param(1, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]), pytest.param(61)]
)
def test_an_upgrade_killed_after_any_statement_goes_on(
    postgres: EmbeddedServer, filled: tuple[str, Contents], step: int
) -> None:
    template, before = filled
    whole = _upgraded(postgres, template, before, killed_after=_NEVER)

    for number in range(1, whole + 1, step):
        _upgraded(postgres, template, before, killed_after=number)

    assert whole > 150


def _upgraded(postgres: EmbeddedServer, template: str, before: Contents, *, killed_after: int) -> int:
    """Upgrade a copy of a database, if need be twice, and return how many statements the last try has executed."""
    name = "killed"
    url = postgres.database(name, template=template)
    for number in sorted({killed_after, _NEVER}):
        process, pipe = begin(_upgrade_in_a_process, url, number)
        process.join(PATIENCE_SECONDS)
        assert process.exitcode == (0 if number == _NEVER else -signal.SIGKILL), (killed_after, process.exitcode)
    with Database(url) as database:
        assert database.version() == migrations()[-1].revision
        assert contents_of(database, before) == before, killed_after
        with database.begin() as connection:
            assert connection.execute(text(_WRONG)).all() == [], killed_after
    drop_database(postgres, name)
    return int(pipe.recv())


def _upgrade_in_a_process(pipe: Connection, url: str, killed_after: int) -> None:
    """Upgrade a database; the process kills itself after so many statements."""
    executed = 0

    class Killing(psycopg.Cursor[Any]):
        def execute(self, *arguments: Any, **options: Any) -> Any:
            nonlocal executed
            super().execute(*arguments, **options)
            executed += 1
            if executed == killed_after:
                os.kill(os.getpid(), signal.SIGKILL)
            return self

    with Database(url) as database:
        event.listen(database.engine, "connect", lambda driver, _: setattr(driver, "cursor_factory", Killing))
        upgrade(database, migrations=migrations())
    pipe.send(executed)


def _fill(database: Database) -> None:
    for account in ("A.DE", "A.FR", "B.US"):
        for month in (Window.month_of(date(2026, 1, 1)), Window.month_of(date(2026, 2, 1))):
            rows = [
                (f"305-{number}-{account}", f"{day}T12:00:00Z", "Shipped", "19.90", "EUR", 1, "SKU", "B0", None, day)
                for number in range(40)
                for day in [month.start + timedelta(days=number % 28)]
            ]
            for listed in (rows, rows[3:]):
                store_slice(database, dataset_named("orders"), month, listed, account)


_WRONG = """
SELECT 'unfilled', platform_order_id FROM seller.orders WHERE total_cents IS DISTINCT FROM 1990 OR order_series <> '305'
UNION ALL
SELECT 'unfilled', platform_order_id FROM history.orders WHERE total_cents IS DISTINCT FROM 1990
UNION ALL
SELECT 'invalid', relname FROM pg_index JOIN pg_class ON oid = indexrelid WHERE NOT indisvalid
UNION ALL
SELECT 'lacking', name FROM unnest(ARRAY['seller.ix_orders_asin', 'seller.ix_orders_series']) AS name
WHERE (SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass(name)) <> 2
"""
