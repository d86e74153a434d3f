"""Tests that daily counts and sums agree with the stored rows, also during loads."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from seller_platform.contract import Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.receipts import Slice
from seller_platform.warehouse.loads.retention import prune
from seller_platform.warehouse.loads.slices import open_load
from seller_platform_tests.support.served import ANN, Served, ask, body_of, locked_sums
from seller_platform_tests.support.statements import at_each_statement
from seller_platform_tests.support.stored_rows import LOADED_AT, connect, store_slice

US, DE = "us-1", "de-2"
MARCH = Window(date(2026, 3, 1), date(2026, 4, 1))
FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)
FACTS = LoadFacts(1, 1, 2, None, CountVerdict.UNVERIFIABLE)
ORDERS, DAILY, LEDGER = map(dataset_named, ("orders", "daily_product_sales", "transactions"))


def _order(number: int, day: date) -> Row:
    return (f"O-{number:05}", f"{day}T12:00:00-08:00", "Shipped", "1.00", "USD", 1, "SKU", "ASIN", "Name", day)


def _sale(day: date, units: int, sales: str, sku: str = "SKU") -> Row:
    return (day, sku, "Name", "ASIN", units, sales, "0.00", "0.00", "0.00", day)


def _fee(day: date, amount: str, sku: str | None = "SKU") -> Row:
    return (f"{day}T12:00:00-08:00", "Fee", "order", sku, "Fee", 1, amount, "USD", None, day)


def _ask(served: Served, path: str, **query: object) -> dict[str, Any]:
    sent = {"account_title": "Shop US", "start_date": FIRST, "end_date": date(2026, 3, 31), **query}
    with served.client(ANN) as client:
        return dict(body_of(ask(client, path, **sent)))


def _orders(served: Served, **query: object) -> tuple[int, int]:
    """Return the announced total of orders and the rows of the first page."""
    body = _ask(served, ORDERS.path, per_page=250, **query)
    return body["total"], len(body["data"])


def _figures(served: Served, *names: str, **query: object) -> list[tuple[Any, ...]]:
    sent = {"view_by": "date", "group_by": "day", **query}
    rows = _ask(served, "/sales/statistics-dashboard", **sent)["data"]
    return [tuple(row[name] for name in names) for row in rows]


def _kept(served: Served) -> dict[tuple[str, str], int]:
    """Return how many loads are not in the stored sums, by account and dataset."""
    marks = served.stored(
        "SELECT account, dataset, count(load_id) FROM service.summaries "
        "LEFT JOIN service.unsummed_loads USING (account, dataset) GROUP BY 1, 2"
    )
    return {(account, dataset): loads for account, dataset, loads in marks}


def test_a_load_is_counted_by_the_next_question(service: Served) -> None:
    store_slice(service.database, ORDERS, Window.day(FIRST), [_order(number, FIRST) for number in range(3)])
    assert _orders(service) == (3, 3)
    store_slice(service.database, ORDERS, Window.day(SECOND), [_order(number, SECOND) for number in range(4)])
    assert _orders(service) == (7, 7)
    store_slice(service.database, ORDERS, MARCH, [_order(1, FIRST), _order(2, SECOND)])
    assert _orders(service) == (2, 2)
    store_slice(service.database, ORDERS, Window.day(FIRST), [])
    assert _orders(service) == (1, 1)

    assert _kept(service) == {(US, "orders"): 0}
    store_slice(service.database, ORDERS, Window.day(FIRST), [_order(1, FIRST)])
    assert _kept(service) == {(US, "orders"): 1}


def test_each_part_of_a_list_is_counted(service: Served) -> None:
    rows, parts = [_order(number, FIRST) for number in range(8)], ("platform", "non-platform", "platform", None)
    store_slice(service.database, ORDERS, Window.day(FIRST), rows, parts=parts)

    asked = (None, "platform", "non-platform")

    assert [_orders(service, sales_channel=channel) for channel in asked] == [(8, 8), (4, 4), (2, 2)]


def test_rows_that_are_merged_are_counted_as_one_when_they_are_loaded(service: Served) -> None:
    def totals() -> list[tuple[int, int]]:
        bodies = [_ask(service, DAILY.path, per_page=500, sales_channel=part) for part in (None, "platform")]
        return [(body["total"], len(body["data"])) for body in bodies]

    def store(day: date, *skus: str | None) -> None:
        rows = [(day, sku, *_sale(day, 1, "1.00")[2:]) for sku in skus]
        with open_load(service.database, Slice(DAILY, US, Window.day(day))) as load:
            load.spool.write(rows, tags=("platform",), page=1)
            load.spool.write(rows[::2], tags=("non-platform",), page=1)
            load.store(FACTS, started_at=LOADED_AT)

    store(FIRST, "A", "B", None)
    store(SECOND, "A")
    assert totals() == [(4, 4), (4, 4)]
    store(FIRST, "B", "C", "D")
    assert totals() == [(4, 4), (4, 4)]
    assert _ask(service, DAILY.path, per_page=500, page=2)["total"] == 4
    service.execute("UPDATE service.daily_counts SET rows = rows + 7 WHERE is_merged AND local_day = %s", FIRST)

    # The rows are not counted again.
    assert totals() == [(11, 4), (4, 4)]


def test_a_load_that_was_numbered_first_and_stored_last_is_counted(service: Served) -> None:
    with open_load(service.database, Slice(ORDERS, US, Window(date(2026, 2, 1), FIRST))) as early:
        store_slice(service.database, ORDERS, Window.day(FIRST), [_order(1, FIRST)])
        assert _orders(service, start_date="2026-02-28", end_date="2026-03-20") == (1, 1)
        early.spool.write([_order(2, date(2026, 2, 28))], tags=("platform",), page=1)
        early.store(FACTS, started_at=LOADED_AT)

        assert _orders(service, start_date="2026-02-28", end_date="2026-03-20") == (2, 2)


def test_loads_after_receipts_were_pruned_are_counted(service: Served) -> None:
    for amount in (0, 2):
        store_slice(service.database, ORDERS, Window.day(FIRST), [_order(number, FIRST) for number in range(amount)])
    assert _orders(service) == (2, 2)
    pruned = prune(service.database, snapshots_before=FIRST, receipts_before=date.max, dry=False)
    store_slice(service.database, ORDERS, Window.day(FIRST), [_order(number, FIRST) for number in range(5)])

    # As many receipts as before: one was pruned and one came.
    assert (pruned.receipts, _orders(service)) == (1, (5, 5))


def test_a_group_is_counted_over_all_of_its_accounts(service: Served) -> None:
    asked: Mapping[str, object] = {"account_title": None, "group_title": "World"}
    store_slice(service.database, ORDERS, Window.day(FIRST), [_order(1, FIRST), _order(2, FIRST)])
    service.insert_rows(ORDERS, DE, [_order(3, FIRST)])
    assert _orders(service, **asked) == (3, 3)
    assert _kept(service) == {}
    store_slice(service.database, ORDERS, Window.day(SECOND), [_order(4, SECOND)], DE)
    assert _orders(service, **asked) == (4, 4)
    store_slice(service.database, ORDERS, Window.day(FIRST), [_order(1, FIRST)])

    assert _orders(service, **asked) == (3, 3)
    assert _kept(service) == {(US, "orders"): 0, (DE, "orders"): 0}


def test_a_service_that_cannot_write_sums_answers_from_the_rows(service: Served, database_url: str) -> None:
    store_slice(service.database, ORDERS, Window.day(FIRST), [_order(1, FIRST)])
    store_slice(service.database, LEDGER, Window.day(FIRST), [_fee(FIRST, "-1.00")])
    with locked_sums(database_url):
        answers = [_orders(service), _figures(service, "platform_fees")]
    service.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET default_transaction_read_only = on', current_database());"
        " END $$"
    )
    service.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'seller-platform service'"
    )

    answers += [_orders(service), _figures(service, "platform_fees")]

    assert answers == [(1, 1), [(Decimal("1.00"),)]] * 2
    assert _kept(service) == {(US, "transactions"): 0}


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("is_load_interrupted", [False, True])
def test_loads_and_requests_at_any_statement_agree(service: Served, *, is_load_interrupted: bool, step: int) -> None:
    sizes, fees = iter(range(1, 100)), 0

    def load() -> None:
        nonlocal fees
        fees = next(sizes)
        store_slice(service.database, LEDGER, MARCH, [_fee(FIRST, "-1.00") for _ in range(fees)])

    def ask() -> list[tuple[Any, ...]]:
        return _figures(service, "platform_fees", view_by="product", group_by="sku")

    store_slice(service.database, DAILY, MARCH, [_sale(FIRST, 1, "10.00")])
    load()
    statements = 0
    program, action = (load, ask) if is_load_interrupted else (ask, load)
    for _ in at_each_statement(service.database, program, action, step=step):
        assert ask() == ask() == [(Decimal(fees),)]
        load()
        statements += step

    assert statements > 5


def test_a_group_does_not_know_costs_that_one_of_its_accounts_lacks(service: Served) -> None:
    service.execute("INSERT INTO service.exchange_rates VALUES ('2026-03-01', 'USD', 1.25)")
    asked: Mapping[str, object] = {"account_title": None, "group_title": "World", "currency": "EUR"}
    for account in (US, DE):
        service.insert_rows(DAILY, account, [_sale(FIRST, 1, "10.00")])
    own = _figures(service, "product_sales", "product_cost", **asked)
    connect(service.database, DE)
    store_slice(service.database, DAILY, MARCH, [_sale(FIRST, 1, "10.00")], DE)
    store_slice(service.database, LEDGER, MARCH, [], DE)

    copied = _figures(service, "product_sales", "product_cost", **asked)

    assert (own, copied) == ([(Decimal("18.00"), Decimal("0.00"))], [(Decimal("18.00"), None)])
