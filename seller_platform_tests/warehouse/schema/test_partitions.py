"""Tests that what is done for one account touches one partition of each table.

PostgreSQL counts the scans and the changes of each partition, whatever executes them: statements, views, triggers or
COPY. So a plan that reads another account's partition is noticed without a list of statements, unless it reads rows by
their ctid: PostgreSQL does not count such scans. `loads/test_holds.py` tests the statements that do.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime

import psycopg
import pytest

from seller_platform.contract import REFRESHED, Dataset, Window
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.history.changes import changes_since
from seller_platform.warehouse.history.provenance import explain
from seller_platform.warehouse.history.volumes import unusual_days
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.expectations import skus_of_account
from seller_platform.warehouse.loads.slices import revert
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.readers.arrow import read_arrow
from seller_platform.warehouse.readers.relations import Selection, relation_of
from seller_platform_tests.service.test_answers import EFFECTS
from seller_platform_tests.support.known_rows import US, fill
from seller_platform_tests.support.many_accounts import OWNED, repeat_for_others
from seller_platform_tests.support.postgres import copied, drop_database, end_connections
from seller_platform_tests.support.served import ANN, Served, running_app, served
from seller_platform_tests.support.stored_rows import LAST_DAY, connect, rows_of, store_slice

pytestmark = pytest.mark.slow

ACCOUNT, NAME = "us-1", "one_partition"
FEBRUARY = Window.month_of(date(2026, 2, 1))
_OTHERS = """
SELECT relname, seq_scan + coalesce(idx_scan, 0) AS scans, n_tup_ins + n_tup_upd + n_tup_del AS changes
FROM pg_stat_user_tables
WHERE schemaname = 'partitions'
  AND right(relname, 1) <> satisfies_hash_partition('seller.orders'::regclass, 2, 1, %s::text)::integer::text
"""


@pytest.fixture(scope="module")
def database(postgres: EmbeddedServer) -> Iterator[Database]:
    """A database in which tables have thousands of rows, which are those of one account under many keys."""
    with Database(copied(postgres, NAME)) as opened:
        with served(opened, opened.url) as service:
            fill(service)
        connect(opened, ACCOUNT)
        for dataset in REFRESHED:
            for rows in (rows_of(dataset, ACCOUNT), rows_of(dataset, ACCOUNT)[1:]):
                _store(opened, dataset, rows)
        repeat_for_others(opened, 2_000)
        with psycopg.connect(opened.url, autocommit=True) as connection:
            # Nested loops leave out partitions while executed; other plans read what planning did not leave out.
            connection.execute(f"ALTER DATABASE {NAME} SET enable_nestloop = off")
        yield opened
    drop_database(postgres, NAME)


def _store(database: Database, dataset: Dataset, rows: list[Row]) -> int:
    window = FEBRUARY if dataset.is_dated else Window.day(LAST_DAY)
    within = [row for row in rows if row[-1] in list(window.each_day())]
    parts = dataset.split_by.values if dataset.split_by else ("platform",)
    return store_slice(database, dataset, window, within, ACCOUNT, parts=parts).id


def _load(database: Database) -> None:
    for dataset in REFRESHED:
        rows = rows_of(dataset, ACCOUNT)
        _store(database, dataset, rows)
        changed = _store(database, dataset, [*rows[:-3], *rows[-2:]])
        if dataset.is_dated:
            unusual_days(database, dataset, ACCOUNT, FEBRUARY, {}, today=LAST_DAY)
        changes_since(database, dataset, ACCOUNT)
        revert(database, changed)


def _read(database: Database) -> None:
    for dataset in REFRESHED:
        relation, window = relation_of(dataset), FEBRUARY if dataset.is_dated else Window.day(LAST_DAY)
        for selection in (Selection(ACCOUNT, window), Selection(ACCOUNT)):
            read_arrow(database, relation, [selection])
            read_arrow(database, replace(relation, as_of=datetime.now(UTC)), [selection])
        explain(database, dataset, {"account": ACCOUNT}, account=ACCOUNT)
    skus_of_account(database, ACCOUNT)


def _build(database: Database) -> None:
    for mart in MARTS:
        build_partition(database, mart, ACCOUNT, FEBRUARY if mart.is_monthly else None)


def _serve(database: Database) -> None:
    with running_app(database.url) as url, Served(url, database, "", "").client(ANN) as client:
        for path, query, parameter, _, effects in EFFECTS:
            for value in effects:
                answer = client.get(path, params={**US, **query, parameter: value})
                assert answer.status_code in (200, 422), answer.text


def _counters(postgres: EmbeddedServer) -> dict[str, tuple[int, int]]:
    end_connections(postgres, NAME)
    with psycopg.connect(postgres.url(NAME)) as connection:
        return {name: (scans, changes) for name, scans, changes in connection.execute(_OTHERS, [ACCOUNT])}


@pytest.mark.parametrize("work", [_load, _read, _build, _serve], ids=lambda work: work.__name__.strip("_"))
def test_one_account_is_in_one_partition(
    database: Database, postgres: EmbeddedServer, work: Callable[[Database], None]
) -> None:
    before = _counters(postgres)

    work(database)

    after = _counters(postgres)
    assert {name: counts for name, counts in after.items() if counts != before[name]} == {}
    assert len(before) == 2 * len(OWNED)
