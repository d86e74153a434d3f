"""Tests that the sums of statistics agree with the stored rows after any load, revert and change of costs."""

import json
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random

import psycopg
import pytest

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.service.sums.costs import CHANGED
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.loads.slices import revert
from seller_platform.warehouse.postgres.sessions import conninfo
from seller_platform_tests.service.statistics.test_endpoint import (
    LEGAL,
    PATH,
    PERIOD_OF,
    check,
    expected_sums,
    read_stored,
)
from seller_platform_tests.support.cost_shop import period as cost_period
from seller_platform_tests.support.served import ANN, Served, add_product, ask, body_of, locked_sums
from seller_platform_tests.support.stored_rows import store_slice

DAILY, LEDGER = map(dataset_named, ("daily_product_sales", "transactions"))
US = "us-1"
DAYS = (date(2026, 2, 10), date(2026, 4, 20))
MONTHS = tuple(Window(date(2026, month, 1), date(2026, month + 1, 1)) for month in (2, 3, 4))
FEW = (("product", "sku", None), ("product", "asin", "Month"), ("product", "parent_asin", "Week"))
SKUS = ("A", "B", "C ü", "d")


@pytest.fixture
def shop(service: Served) -> Served:
    for number, sku in enumerate(SKUS):
        add_product(service.database, US, sku, f"B{number}", f"P{number // 2}")
    for day in range(120):
        for currency, rate in (("EUR", Decimal(1)), ("USD", Decimal("1.083517") + day), ("GBP", Decimal("0.85") + day)):
            service.execute(
                "INSERT INTO service.exchange_rates VALUES (%s, %s, %s)",
                *(date(2026, 1, 1) + timedelta(days=day), currency, rate),
            )
    return service


def _store(served: Served, dataset: Dataset, window: Window, rows: Sequence[Row]) -> Receipt:
    return store_slice(served.database, dataset, window, rows, parts=("platform", "non-platform"))


def _sales(random: Random, window: Window) -> list[Row]:
    return [
        (day, sku, "Name", "ASIN", random.randrange(9), f"{random.randrange(9999) / 100:.2f}", "0", "0", "0", day)
        for day in window.each_day()
        for sku in SKUS
        for _ in range(random.choice((0, 0, 1, 2)))
    ]


def _ledger(random: Random, window: Window) -> list[Row]:
    return [
        (f"{day}T12:00:00-08:00", kind, "order", sku, kind, 1, f"{-random.randrange(999) / 100}", "USD", None, day)
        for day in window.each_day()
        for sku in (*SKUS, None)
        for kind in random.choice(((), (), ("Fee",), ("Fee", "Order", "Fee")))
    ]


def _change(random: Random, dataset: Dataset, rows: Sequence[Row]) -> list[Row]:
    """Return rows of which few are missing or have another amount."""
    column = 5 if dataset == DAILY else 6
    changed = [row for row in rows if random.random() > 0.05]
    return [
        (*row[:column], f"{random.randrange(999) / -100}", *row[column + 1 :]) if random.random() < 0.05 else row
        for row in changed
    ]


def _write_costs(served: Served, random: Random) -> None:
    """Replace the costs of a product as no program of ours does, so that nothing but the rows shows it."""
    sku = random.choice(SKUS)
    served.execute("DELETE FROM seller.cost_periods WHERE sku = %s", sku)
    first = DAYS[0] + timedelta(days=random.randrange(40))
    elements = [
        {"amount": f"{random.randrange(5000) / 1000}", "currency": currency}
        for currency in random.choice((("USD",), ("USD", "GBP"), ("GBP", "EUR", "USD")))
    ]
    for start in (first, first + timedelta(days=9)):
        last, written_on = start + timedelta(days=20), date(2026, 3, 1)
        served.insert_rows(COST_PERIODS, US, [(sku, start, last, json.dumps(elements), written_on)])


def _wrong(served: Served, currency: str | None, views: Sequence[tuple[str, str, str | None]] = LEGAL) -> list[object]:
    """Return the combinations whose answers are not those of a computation from the rows."""
    shop_rows = read_stored(served.database)
    different: list[object] = []
    with served.client(ANN) as client:
        for view, group, period in views:
            dimension, part = (group, period) if view == "product" else (None, PERIOD_OF[group])
            expected = expected_sums(shop_rows, [US], dimension, part, currency or "USD", days=DAYS)
            query = {"view_by": view, "group_by": group, "period_by": period, "currency": currency}
            days = {"account_title": "Shop US", "start_date": str(DAYS[0]), "end_date": str(DAYS[1])}
            body = body_of(ask(client, PATH, **query, **days))
            rows = {(row.get(group) if dimension else None, row.get("date")): row for row in body["data"]}
            try:
                assert (rows.keys(), body["total"]) == (expected.keys(), len(expected))
                for key, row in rows.items():
                    check(row, expected[key])
            except AssertionError as error:
                different.append((view, group, period, currency, str(error)))
    return different


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_every_combination_agrees_with_the_rows_after_any_change(shop: Served, database_url: str, seed: int) -> None:
    random = Random(seed)
    read: dict[tuple[Dataset, Window], list[Row]] = {}
    receipts: list[Receipt] = []

    def load() -> None:
        dataset, window = random.choice((DAILY, LEDGER)), random.choice(MONTHS)
        before = read.get((dataset, window))
        rows = _change(random, dataset, before) if before else (_sales if dataset == DAILY else _ledger)(random, window)
        read[dataset, window] = rows
        receipt = _store(shop, dataset, window, rows)
        if before:
            receipts.append(receipt)

    def load_while_another_sums() -> None:
        with locked_sums(database_url):
            load()

    def undo() -> None:
        if receipts:
            revert(shop.database, receipts.pop().id)
            receipts.clear()

    def change_a_rate() -> None:
        day = DAYS[0] + timedelta(days=random.randrange(60))
        statement = "UPDATE service.exchange_rates SET per_euro = per_euro + 1 WHERE day = %s AND currency <> 'EUR'"
        shop.execute(statement, day)

    def forget() -> None:
        shop.execute("DELETE FROM service.summaries WHERE account = %s", US)

    for dataset in (DAILY, LEDGER):
        for window in MONTHS:
            read[dataset, window] = (_sales if dataset == DAILY else _ledger)(random, window)
            _store(shop, dataset, window, read[dataset, window])
    changes: list[Callable[[], None]] = [load, lambda: _write_costs(shop, random), load, load_while_another_sums, undo]
    different = _wrong(shop, None)
    for change in (*changes, forget, change_a_rate, *random.choices(changes, k=3)):
        change()
        different += _wrong(shop, random.choice((None, "EUR")), random.sample(LEGAL, 8))

    assert different == []


def test_a_month_is_summed_again_only_after_its_days_or_rates_changed(shop: Served, database_url: str) -> None:
    random = Random(8)
    for window in MONTHS:
        _store(shop, DAILY, window, _sales(random, window))
        _store(shop, LEDGER, window, _ledger(random, window))

    def summed() -> dict[tuple[str, str], datetime]:
        assert [_wrong(shop, currency, FEW) for currency in (None, "EUR")] == [[], []]
        months = shop.stored("SELECT target, month::text, summed_at FROM service.product_months")
        return {(target, month): at for target, month, at in months}

    def again(before: dict[tuple[str, str], datetime], after: dict[tuple[str, str], datetime]) -> set[tuple[str, str]]:
        assert before.keys() == after.keys()
        return {key for key in after if after[key] != before[key]}

    first, second = summed(), summed()
    _store(shop, LEDGER, MONTHS[1], _ledger(random, MONTHS[1]))
    third = summed()
    shop.execute("UPDATE service.exchange_rates SET per_euro = 7 WHERE day = '2026-04-02' AND currency = 'USD'")
    with locked_sums(database_url):
        assert _wrong(shop, "EUR", FEW) == []
    fourth = summed()

    assert len(first) == 6
    assert again(first, second) == set()
    assert again(second, third) == {("USD", "2026-03-01"), ("EUR", "2026-03-01")}
    assert again(third, fourth) == {("EUR", "2026-04-01")}


def test_a_written_cost_is_applied_when_it_is_written(shop: Served, database_url: str) -> None:
    _store(shop, DAILY, MONTHS[1], _sales(Random(6), MONTHS[1]))
    body = {"account_title": "Shop US", "sku": "A", "data": [cost_period("2026-03-01", "2026-03-20", 1.25)]}
    statement = (
        "SELECT (SELECT sum(amount) FROM service.day_sums WHERE kind = 'cost'), "
        "(SELECT 1.25 * sum(units_ordered) FROM seller.daily_product_sales "
        "WHERE date < '2026-03-21' AND sku IN (SELECT sku FROM seller.cost_periods))"
    )

    versions = f"""
    WITH {CHANGED}
    SELECT versions.periods, (kept.periods, kept.rows_hash) = (versions.periods, versions.rows_hash)
    FROM versions JOIN service.cost_versions AS kept USING (account)
    """
    found: list[tuple[object, ...]] = []

    with shop.client(ANN) as client, psycopg.connect(conninfo(database_url), autocommit=True) as connection:
        for method, query, sent in (
            ("POST", {}, body),
            ("POST", {}, {**body, "sku": "B"}),
            ("POST", {}, body),
            ("DELETE", {"account_title": "Shop US", "sku": "A"}, None),
            ("DELETE", {"account_title": "Shop US", "sku": "B"}, None),
        ):
            body_of(client.request(method, "/cogs/cost-periods", params=query, json=sent))
            for kept, computed in connection.execute(statement).fetchall():
                assert kept == computed
            found += connection.execute(versions, {"accounts": [US]}).fetchall()

    assert found == [(1, True), (2, True), (2, True), (1, True), (0, True)]
