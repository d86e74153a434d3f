"""Tests of a live sandbox: its lists on each day."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import text

from seller_platform.contract import DATASETS, Dataset
from seller_platform.errors import RequestError
from seller_platform.sandbox.late_changes import RESTATED_BASIS_POINTS
from seller_platform.sandbox.live import LiveOptions, LiveSandbox
from seller_platform.sandbox.load import load_sandbox
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.postgres import copied
from seller_platform_tests.support.sandbox_tables import TABLES, rows

pytestmark = pytest.mark.nightly  # weeks of a sandbox; commands/test_live plays days

SINCE, UNTIL = date(2026, 2, 20), date(2026, 3, 9)
OPTIONS = LiveOptions(SINCE, accounts=2, months=2, orders_per_month=150, seed=1)
LISTS = [each for each in DATASETS if each.table in TABLES and each.name not in ("accounts", "cost_periods")]


def begin(database: Database, options: LiveOptions) -> LiveSandbox:
    """Generate the accounts of a live sandbox as of its first day."""
    load_sandbox(
        database,
        accounts=options.accounts,
        months=options.months,
        orders_per_month=options.orders_per_month,
        seed=options.seed,
        today=options.since,
    )
    return LiveSandbox(database, options)


def live(database: Database, options: LiveOptions, until: date) -> None:
    """Advance a sandbox to a day."""
    for _ in begin(database, options).steps(lambda: datetime.now(UTC), until=until):
        pass


@pytest.fixture(scope="module")
def live_sandbox(postgres: EmbeddedServer) -> Iterator[Database]:
    """A sandbox that was advanced for some weeks."""
    with Database(copied(postgres, "live_sandbox")) as database:
        live(database, OPTIONS, UNTIL)
        yield database


def newest(database: Database, dataset: Dataset) -> list[tuple[object, ...]]:
    """Return the rows of a list as the service would list them."""
    condition = "" if dataset.is_dated else f"WHERE local_day = (SELECT max(local_day) FROM {dataset.table})"
    columns = ", ".join(["account", "local_day", *(each.name for each in (*dataset.columns, *dataset.tags))])
    return rows(database, f"SELECT {columns} FROM {dataset.table} {condition} ORDER BY ({columns})::text")


def test_a_day_that_was_advanced_to_has_the_rows_generated_for_it(live_sandbox: Database, database: Database) -> None:
    """So they agree with one another, as `test_agreement` shows of all generated rows."""
    load_sandbox(database, accounts=2, months=3, orders_per_month=OPTIONS.orders_per_month, today=UNTIL)

    for dataset in LISTS:
        assert newest(live_sandbox, dataset) == newest(database, dataset), dataset.name


def test_fees_of_a_closed_month_are_restated(live_sandbox: Database) -> None:
    restated = rows(
        live_sandbox,
        "SELECT min(former.local_day), max(former.local_day), min(present.amount / former.amount)::float, "
        "max(present.amount / former.amount)::float, count(*) FROM history.transactions AS former "
        "JOIN seller.transactions AS present USING (account, order_id, sku, posted_date, description, quantity) "
        "WHERE description = 'Fulfilment' AND present.amount <> former.amount",
    )

    first, last, least, most, count = restated[0]
    assert count
    assert date(2026, 2, 19) <= first <= last <= date(2026, 2, 28)
    assert least == pytest.approx(RESTATED_BASIS_POINTS / 10_000, abs=0.01)
    assert most == pytest.approx(RESTATED_BASIS_POINTS / 10_000, abs=0.01)


def test_a_sandbox_continues_where_it_ended_and_only_with_its_accounts(database: Database) -> None:
    options = LiveOptions(SINCE, accounts=1, months=1, orders_per_month=30, seed=1)
    live(database, options, SINCE + timedelta(days=1))

    later = LiveSandbox(database, options).steps(lambda: datetime.now(UTC), until=SINCE + timedelta(days=3))

    assert list(later) == [SINCE + timedelta(days=2), SINCE + timedelta(days=3)]
    with pytest.raises(RequestError, match="has other accounts than these options give"):
        LiveSandbox(database, replace(options, accounts=2))


@pytest.mark.parametrize("table", ["seller.warehouse_stock", "service.products"])
def test_an_interrupted_day_is_stored_when_the_sandbox_continues(database: Database, table: str) -> None:
    options, day = LiveOptions(SINCE, accounts=1, months=1, orders_per_month=30, seed=1), SINCE + timedelta(days=1)
    sandbox = begin(database, options)
    with database.begin() as connection:
        connection.execute(
            text("CREATE FUNCTION seller.stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'stopped'; END $$")
        )
        connection.execute(text(f"CREATE TRIGGER stops BEFORE INSERT ON {table} EXECUTE FUNCTION seller.stop()"))
    with pytest.raises(Exception, match="stopped"):
        next(sandbox.steps(lambda: datetime.now(UTC), until=day))
    database.execute(text(f"DROP TRIGGER stops ON {table}"))

    steps = list(LiveSandbox(database, options).steps(lambda: datetime.now(UTC), until=day))

    assert steps == [day]
    for name in ("inventory", "warehouse_stock"):
        assert rows(database, f"SELECT max(local_day) FROM seller.{name}") == [(day,)]
