"""Tests that former rows are kept and loads undone; the simulation plays sequences of loads, holds and reverts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
import time_machine
from sqlalchemy import event, text

from seller_platform.contract import DATASETS, Account, Dataset, Kind, Slicing, Source, Window, dataset_named
from seller_platform.warehouse.history.changes import changes_since
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.loads.slices import revert
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.stored_rows import connect_accounts, count_rows, store_slice

TRANSACTIONS = dataset_named("transactions")
ACCOUNT = "us-7"
MARCH = Window.month_of(date(2026, 3, 1))
DAYS = Window(date(2026, 3, 1), date(2026, 3, 4))

Content = tuple[str, date, Decimal]
"""What the model knows of a row: its order, day and amount."""


def _load(database: Database, contents: Sequence[Content], window: Window = DAYS) -> Receipt:
    rows: list[Row] = [
        (f"{day}T10:00:00+00:00", None, order, None, None, None, amount, "USD", None, f"{day}")
        for order, day, amount in contents
    ]
    return store_slice(database, TRANSACTIONS, window, rows, ACCOUNT)


def _contents(database: Database, source: str) -> Counter[Content]:
    rows = database.execute(text(f"SELECT order_id, local_day, amount FROM {source}")).tuples()
    return Counter((order, day, amount) for order, day, amount in rows)


def _order(number: int, amount: str = "1.5", *, day: int = 0) -> Content:
    return f"order-{number}", date(2026, 3, 1 + day), Decimal(amount)


def test_a_load_is_undone_with_those_after_it_and_a_revert_can_be_reverted(database: Database) -> None:
    first = _load(database, [_order(1)])
    second = _load(database, [])
    _load(database, [_order(2)])

    undone = revert(database, second.id)
    after_it = _contents(database, "seller.transactions")
    revert(database, undone.id)

    assert (undone.rows, undone.digest, undone.changed) == (1, first.digest, True)
    assert (undone.requests, undone.pages, undone.body_bytes) == (0, 0, 0)
    assert after_it == Counter({_order(1): 1})
    assert _contents(database, "seller.transactions") == Counter({_order(2): 1})
    assert _contents(database, f"history.transactions_as_of('{undone.finished_at}')") == after_it


def test_a_loader_whose_clock_is_ahead_changes_no_past_state(database: Database) -> None:
    now = datetime.now(UTC)
    receipts, states = [], []
    for number in range(6):
        contents = [_order(day, str(number), day=day) for day in range(3)]
        with time_machine.travel(now + timedelta(hours=number % 2)):
            receipts.append(_load(database, contents, MARCH if number % 2 else DAYS))
        states.append(_contents(database, "seller.transactions"))
    moments = [receipt.finished_at for receipt in receipts]
    between = [first + (second - first) / 2 for first, second in pairwise(moments)]

    past = [_contents(database, f"history.transactions_as_of('{moment}')") for moment in moments]

    assert (past, moments) == (states, sorted(moments))
    assert [_contents(database, f"history.transactions_as_of('{moment}')") for moment in between] == states[:-1]
    assert all(receipt.seconds >= 0 for receipt in receipts)


@pytest.fixture
def orders(database: Database) -> Iterator[Database]:
    """An account of which a month of orders was loaded twice."""
    connect_accounts(database, [(ACCOUNT, Account(1, "North Pine", None, None, "UTC", None, None))])
    for totals in ({"1": "5.00", "2": "7.00", "3": "1.00"}, {"1": "5.00", "2": "9.00", "4": "3.00"}):
        _load_orders(database, totals)
    yield database


def _load_orders(database: Database, totals: Mapping[str, str]) -> None:
    rows = [
        (name, "2026-03-01T10:00:00Z", "Shipped", Decimal(total), "USD", 1, "SKU", "A", "Cup", "2026-03-01")
        for name, total in totals.items()
    ]
    store_slice(database, dataset_named("orders"), MARCH, rows, ACCOUNT)


def test_changes_are_of_one_moment_while_another_load_is_published(orders: Database) -> None:
    loads_between = [{"1": "5.00", "2": "11.00", "5": "1.00"}]

    @event.listens_for(orders.engine, "after_cursor_execute")
    def load(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "FROM platform.published_loads" in statement and loads_between:
            with Database(orders.url) as other:
                _load_orders(other, loads_between.pop())

    changes = changes_since(orders, dataset_named("orders"), ACCOUNT, MARCH)

    assert not loads_between
    assert [row["platform_order_id"] for row in changes.came] == ["4"]
    assert [row["platform_order_id"] for row in changes.went] == ["3"]
    assert [(row.before["order_total"], row.after["order_total"]) for row in changes.changed] == [
        (Decimal(7), Decimal(9))
    ]


DAY = date(2026, 3, 1)
# The keys of reports are numbers of our own, and accounts without a number are refused.
KEYED = [
    each
    for each in DATASETS
    if each.key and each.source is not Source.REPORT and each.slicing is not Slicing.CONNECTION
]


@pytest.mark.parametrize("dataset", KEYED, ids=lambda dataset: dataset.name)
def test_rows_without_their_key_are_stored_and_become_former_rows(database: Database, dataset: Dataset) -> None:
    day_of = {Kind.TIMESTAMP: f"{DAY}T12:00:00+01:00", Kind.DATE: str(DAY)}
    row = [day_of[column.kind] if column.name == dataset.day else None for column in dataset.columns]
    for rows in (2, 1):
        store_slice(database, dataset, Window.day(DAY), [(*row, str(DAY))] * rows)

    assert [count_rows(database, f"{schema}.{dataset.name}") for schema in ("seller", "history")] == [1, 1]
