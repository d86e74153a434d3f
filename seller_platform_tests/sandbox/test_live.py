"""Tests of a sandbox that lives: what it lists on each day, and what a warehouse makes of it."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import text

from seller_platform.contract import DATASETS, Dataset, Window, dataset_named
from seller_platform.sandbox import load_sandbox
from seller_platform.sandbox.late_changes import (
    LATE_FEES,
    RESTATED_BASIS_POINTS,
    fees_coming_after,
    orders_changing_after,
)
from seller_platform.sandbox.live import Life, LivingSandbox, Step
from seller_platform.warehouse.history.settledness import lookbacks, settledness
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.sandbox.test_agreement import DISAGREEMENTS, at
from seller_platform_tests.support.postgres import TEMPLATE
from seller_platform_tests.support.sandbox_tables import TABLES, rows

pytestmark = pytest.mark.slow

SINCE, FIRST, UNTIL = date(2026, 2, 20), date(2026, 1, 1), date(2026, 3, 9)
LIFE = Life(SINCE, accounts=2, months=2, orders_per_month=150, seed=1)
LISTS = [
    dataset for dataset in DATASETS if dataset.table in TABLES and dataset.name not in ("accounts", "cost_periods")
]
SNAPSHOTS = [dataset for dataset in LISTS if not dataset.is_dated]
ORDERS, TRANSACTIONS = dataset_named("orders"), dataset_named("transactions")


def begin(database: Database, life: Life) -> LivingSandbox:
    """Generate the accounts of a life as of its first day."""
    load_sandbox(
        database,
        accounts=life.accounts,
        months=life.months,
        orders_per_month=life.orders_per_month,
        seed=life.seed,
        today=life.since,
    )
    return LivingSandbox(database, life)


def live(database: Database, life: Life, until: date) -> list[Step]:
    """Let days go by, and return them."""
    return [step for step in begin(database, life).steps(lambda: datetime.now(UTC), until=until) if step is not None]


@pytest.fixture(scope="module")
def lived(postgres: EmbeddedServer) -> Iterator[tuple[Database, dict[date, list[str]]]]:
    """A sandbox that has lived for some weeks, and what disagreed on each of its days."""
    disagreed = {}
    with Database(postgres.database("sandbox_that_lived", template=TEMPLATE)) as database:
        for step in begin(database, LIFE).steps(lambda: datetime.now(UTC), until=UNTIL):
            assert step is not None
            disagreed[step.day] = disagreements(database, step.day)
        yield database, disagreed


def disagreements(database: Database, today: date) -> list[str]:
    """Return the names of what disagrees on a day, without the snapshots of the days before."""
    with database.connect() as connection:
        for dataset in SNAPSHOTS:
            connection.execute(text(f"DELETE FROM {dataset.table} WHERE local_day < :today"), {"today": today})
        try:
            return [
                name
                for name, query in DISAGREEMENTS.items()
                if connection.execute(text(at(query, FIRST, today).replace(":", r"\:").replace(r"\:\:", "::"))).first()
            ]
        finally:
            connection.rollback()


def newest(database: Database, dataset: Dataset) -> list[tuple[object, ...]]:
    """Return the rows of a list as the service would list them."""
    condition = "" if dataset.is_dated else f"WHERE local_day = (SELECT max(local_day) FROM {dataset.table})"
    columns = ", ".join(["account", "local_day", *(each.name for each in (*dataset.columns, *dataset.tags))])
    return rows(database, f"SELECT {columns} FROM {dataset.table} {condition} ORDER BY ({columns})::text")


def test_nothing_disagrees_on_any_day_of_a_life(lived: tuple[Database, dict[date, list[str]]]) -> None:
    assert set(Window(SINCE, UNTIL).each_day()) - {SINCE} < set(lived[1])
    assert {day: names for day, names in lived[1].items() if names} == {}


def test_a_lived_day_lists_what_is_generated_for_it(
    lived: tuple[Database, dict[date, list[str]]], database: Database
) -> None:
    load_sandbox(database, accounts=2, months=3, orders_per_month=LIFE.orders_per_month, today=UNTIL)

    for dataset in LISTS:
        assert newest(lived[0], dataset) == newest(database, dataset), dataset.name


def test_orders_of_a_life_were_pending_before(lived: tuple[Database, dict[date, list[str]]]) -> None:
    pairs = rows(
        lived[0],
        "SELECT former.order_status, present.order_status FROM history.orders AS former "
        "JOIN seller.orders AS present USING (account, platform_order_id, sku) GROUP BY 1, 2 ORDER BY 1, 2",
    )

    assert pairs == [("Pending", "Cancelled"), ("Pending", "Shipped")]


def test_fees_of_a_closed_month_are_restated(lived: tuple[Database, dict[date, list[str]]]) -> None:
    restated = rows(
        lived[0],
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


def test_settledness_and_lookback_of_a_life_are_those_of_its_law(database: Database) -> None:
    """The view counts the last 90 days only, so this life ends today."""
    today = datetime.now(UTC).date()
    life = Life(today - timedelta(days=40), accounts=1, months=2, orders_per_month=900, seed=3)
    world = begin(database, life)
    for _ in world.steps(lambda: datetime.now(UTC), until=today - timedelta(days=1)):
        pass
    # Each day was read on the day after it, and not within the minutes of this test.
    with database.begin() as connection:
        connection.execute(text("UPDATE platform.loads SET started_at = window_end + time '12:00'"))
    key = life.accounts_on(today)[0].key

    measured = settledness(database, [ORDERS, TRANSACTIONS], [key])

    percent = measured["orders", key].percent
    for days in (1, 2, 3, 5, 7, 10, 14, 21):
        assert float(percent[days]) == pytest.approx(100 * orders_changing_after(days), abs=7), days
    assert percent[10] == percent[30] == 0
    assert measured["transactions", key].percent[3] > measured["transactions", key].percent[14] == 0
    assert lookbacks(database, [ORDERS], [key], adaptive=True) == {("orders", key): 10}
    late = rows(
        database,
        "SELECT count(*) FILTER (WHERE former IS NULL AND window_end - local_day > 1) AS late, count(*) AS fees "
        "FROM seller.transactions AS fee JOIN platform.loads ON loads.id = load_id "
        "LEFT JOIN LATERAL (SELECT true FROM history.transactions AS former WHERE former.gone_load_id = fee.load_id "
        "  AND (former.order_id, former.sku, former.posted_date) = (fee.order_id, fee.sku, fee.posted_date) LIMIT 1) "
        "  AS gone (former) ON true WHERE transaction_type = 'Fee' AND order_id IS NOT NULL",
    )[0]
    assert late[0] / late[1] == pytest.approx(LATE_FEES, abs=0.03)
    assert fees_coming_after(1) == pytest.approx(LATE_FEES)
