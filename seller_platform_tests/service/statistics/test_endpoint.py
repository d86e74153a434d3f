"""Tests the statistics dashboard against a computation in Python, over the sandbox's rows."""

import json
from calendar import month_name
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import partial
from math import ceil, floor
from typing import Any

import httpx
import pytest

from seller_platform.contract import dataset_named
from seller_platform.sandbox.load import load_sandbox
from seller_platform.service.oauth.applications import add_application
from seller_platform.service.users.groups import set_group
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.served import ANN, BOB, CALLBACK, Served, add_user, ask, body_of, running_app
from seller_platform_tests.support.stored_rows import execute
from seller_platform_tests.support.stored_rows import stored as rows_stored

PATH = "/sales/statistics-dashboard"
TODAY = date(2026, 1, 12)
FIRST, LAST = date(2025, 12, 10), date(2026, 1, 11)
CENT = Decimal("0.01")
DIMENSIONS, UNITS = ("sku", "asin", "parent_asin"), ("day", "week", "month", "year")
STOCK = {"velocity", "out_of_stock_days", "inventory", "local_inventory", "buybox_price", "sales_rank"}
PERIODS = ("Date", "Week", "Month", "Quarter", "Semester", "Year")


@dataclass
class Stored:
    """The rows of the sandbox, as plain Python values."""

    keys: list[str]
    currencies: dict[str, str]
    titles: dict[str, str]
    sold: list[tuple[str, date, str, int, Decimal]]
    fees: list[tuple[str, date, str | None, Decimal]]
    costs: dict[tuple[str, str], list[tuple[date, date, list[dict[str, Any]]]]]
    products: dict[tuple[str, str], tuple[str, str, str]]
    rates: dict[tuple[date, str], Decimal] = field(default_factory=dict)

    def rate(self, source: str, target: str, day: date) -> Fraction | None:
        """Return the exact rate; None where nothing is converted."""
        if source == target:
            return None
        return Fraction(self.rates[day, target]) / Fraction(self.rates[day, source])


class Figure:
    """A sum of exact amounts, rounded once to the cent if one of them was converted."""

    def __init__(self) -> None:
        self._sum, self._is_converted = Fraction(0), False

    def add(self, amount: Decimal, rate: Fraction | None) -> None:
        self._sum += Fraction(amount) * (1 if rate is None else rate)
        self._is_converted = self._is_converted or rate is not None

    @property
    def answered(self) -> Decimal:
        if self._is_converted:
            cents = abs(self._sum) * 100
            return Decimal(floor(cents + Fraction(1, 2))) / 100 * (1 if self._sum >= 0 else -1)
        return Decimal(self._sum.numerator) / Decimal(self._sum.denominator)


@dataclass
class Sums:
    units: int = 0
    sales: Figure = field(default_factory=Figure)
    cost: Figure = field(default_factory=Figure)
    fees: Figure = field(default_factory=Figure)

    @property
    def profit(self) -> Decimal:
        return self.sales.answered - self.cost.answered - self.fees.answered


@pytest.fixture(scope="module")
def dashboard(databases: Databases) -> Iterator[Served]:
    with databases.lent() as database:
        sandbox = load_sandbox(database, accounts=3, months=3, orders_per_month=300, today=TODAY)
        keys = [account.key for account in sandbox.accounts]
        for email, granted, members in ((ANN, keys, keys), (BOB, keys[2:], ())):
            add_user(database, email, granted)
            set_group(database, email, "All", members)
        _make_costs_awkward(database, keys[0])
        client_id, secret = add_application(database, "Reader", CALLBACK)
        with running_app(database.url) as base_url:
            yield Served(base_url, database, client_id, secret)


@pytest.fixture(scope="module")
def stored(dashboard: Served) -> Stored:
    return read_stored(dashboard.database)


@pytest.fixture(scope="module")
def ann(dashboard: Served) -> Iterator[httpx.Client]:
    with dashboard.client(ANN) as client:
        yield client


def _make_costs_awkward(database: Database, account: str) -> None:
    """Store costs of a product in two currencies, with overlaps and fractions of cents."""
    elements = [
        {"cost_element": "Freight", "amount": 0.1255, "currency": "USD"},
        {"cost_element": "Work", "amount": 2.5, "currency": "GBP"},
        {"cost_element": "Odd", "amount": "1,000.5", "currency": "USD"},
    ]
    execute(
        database,
        "INSERT INTO seller.cost_periods SELECT sku, '2025-12-20', '2026-01-05', %s::jsonb, NULL, local_day, account, "
        "0, 0 FROM (SELECT DISTINCT sku, local_day, account FROM seller.cost_periods WHERE account = %s "
        "ORDER BY sku LIMIT 5) AS few",
        json.dumps(elements),
        account,
    )


def read_stored(database: Database) -> Stored:
    rows = partial(rows_stored, database)
    accounts = rows("SELECT account, currency_code, account_title FROM seller.accounts ORDER BY id")
    costs = defaultdict(list)
    for account, sku, first, last, elements in rows(
        "SELECT account, sku, from_date, to_date, cost_elements::text FROM seller.cost_periods"
    ):
        costs[account, sku].append((first, last, json.loads(elements, parse_float=Decimal)))
    return Stored(
        keys=[account for account, _, _ in accounts],
        currencies={account: currency for account, currency, _ in accounts},
        titles={account: title for account, _, title in accounts},
        sold=rows("SELECT account, local_day, sku, units_ordered, product_sales FROM seller.daily_product_sales"),
        fees=rows(
            "SELECT account, local_day, sku, -sum(amount) FROM seller.transactions "
            "WHERE transaction_type = 'Fee' GROUP BY 1, 2, 3"
        ),
        costs=dict(costs),
        products={
            (account, sku): (sku, asin, parent or asin)
            for account, sku, asin, parent in rows("SELECT account, sku, asin, parent_asin FROM service.products")
        },
        rates={(day, code): rate for day, code, rate in rows("SELECT * FROM service.exchange_rates")},
    )


def _unit_costs(stored: Stored, account: str, sku: str, day: date) -> list[tuple[Decimal, str]]:
    elements = [
        (Decimal(str(element["amount"]).replace(",", "")), element["currency"])
        for first, last, each in stored.costs.get((account, sku), [])
        if first <= day <= last
        for element in each
    ]
    own = stored.currencies[account]
    together = sum((amount for amount, currency in elements if currency == own), Decimal(0))
    return [(together, own), *(element for element in elements if element[1] != own)]


def label_of(period: str | None, day: date) -> str | None:
    """Return the label of a day's period, computed by Python's calendar."""
    year, week, _ = day.isocalendar()
    return {
        None: None,
        "Date": day.isoformat(),
        "Week": f"Week {week} {year:04d}",
        "Month": f"{month_name[day.month]} {day.year:04d}",
        "Quarter": f"Q{(day.month + 2) // 3} {day.year:04d}",
        "Semester": f"H{1 if day.month < 7 else 2} {day.year:04d}",
        "Year": f"{day.year:04d}",
    }[period]


def expected_sums(
    stored: Stored,
    accounts: list[str],
    dimension: str | None,
    period: str | None,
    currency: str,
    *,
    days: tuple[date, date] = (FIRST, LAST),
) -> dict[tuple[str | None, str | None], Sums]:
    sums: dict[tuple[str | None, str | None], Sums] = defaultdict(Sums)

    def sums_of(account: str, sku: str | None, day: date) -> Sums:
        names = stored.products[account, sku] if sku and dimension else None
        name = names[DIMENSIONS.index(dimension)] if names and dimension else None
        return sums[name, label_of(period, day)]

    for account, day, sku, units, sales in stored.sold:
        if account in accounts and days[0] <= day <= days[1]:
            row, own = sums_of(account, sku, day), stored.currencies[account]
            row.units += units
            row.sales.add(sales, stored.rate(own, currency, day))
            for amount, code in _unit_costs(stored, account, sku, day):
                if units * amount:
                    row.cost.add(units * amount, stored.rate(code, currency, day))
    for account, day, charged, fees in stored.fees:
        if account in accounts and days[0] <= day <= days[1] and (charged or not dimension):
            rate = stored.rate(stored.currencies[account], currency, day)
            sums_of(account, charged, day).fees.add(fees, rate)
    return sums


def _get(client: httpx.Client, **query: object) -> httpx.Response:
    return ask(client, PATH, **{"start_date": FIRST, "end_date": LAST, **query})


def _rows(client: httpx.Client, **query: object) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for page in range(1, 100):
        body = body_of(_get(client, page=page, **query))
        rows += body["data"]
        if page >= body["last_page"]:
            assert body["total"] == len(rows)
            return rows
    raise AssertionError("more pages than expected")


def _ratio(part: Decimal, whole: Decimal) -> Decimal | None:
    return (100 * part / whole).quantize(CENT, ROUND_HALF_UP) if whole else None


def check(row: dict[str, Any], sums: Sums) -> None:
    sales, cost, fees = (figure.answered for figure in (sums.sales, sums.cost, sums.fees))
    assert (row["units_ordered"], row["product_sales"], row["product_cost"]) == (sums.units, sales, cost)
    assert (row["platform_fees"], row["profit"]) == (fees, sums.profit)
    assert (row["roi"], row["profit_margin"]) == (_ratio(sums.profit, cost), _ratio(sums.profit, sales))


LEGAL = [
    *(("product", group, period) for group in DIMENSIONS for period in (None, *PERIODS)),
    *(("date", group, None) for group in UNITS),
]
PERIOD_OF = {"day": "Date", "week": "Week", "month": "Month", "year": "Year"}


@pytest.mark.parametrize(("combination", "currency"), [*((view, "EUR") for view in LEGAL), (LEGAL[0], "JPY")], ids=str)
def test_every_combination_has_the_sums_of_all_accounts_in_one_currency(
    ann: httpx.Client, stored: Stored, combination: tuple[str, str, str | None], currency: str
) -> None:
    view, group, period = combination
    dimension = group if view == "product" else None
    part = period if view == "product" else PERIOD_OF[group]
    expected = expected_sums(stored, stored.keys, dimension, part, currency)

    rows = _rows(ann, group_title="All", view_by=view, group_by=group, period_by=period, currency=currency)

    by_key = {(row.get(group) if dimension else None, row.get("date")): row for row in rows}
    assert len(by_key) == len(rows)
    assert set(by_key) == set(expected)
    for key, row in by_key.items():
        check(row, expected[key])
    is_plain, fields = view == "product" and period is None, set(rows[0])
    assert (fields >= STOCK, STOCK & fields) == (is_plain, STOCK if is_plain else set())
    assert ("trend" in fields, "date" in fields) == (view == "date" or is_plain, not is_plain)
    for dataset in (dataset_named("sales_by_product"), dataset_named("sales_by_date")):
        if (view, group, period) == (*dict(dataset.parameters).values(), None)[:3]:
            assert tuple(rows[0]) == tuple(column.name for column in dataset.columns)


def test_a_date_view_compares_each_row_with_the_period_before(ann: httpx.Client, stored: Stored) -> None:
    account = stored.keys[0]
    currency = stored.currencies[account]
    by_month = expected_sums(stored, [account], None, "Month", currency, days=(date(2025, 11, 1), LAST))
    asked = expected_sums(stored, [account], None, "Month", currency)

    rows = _rows(ann, account_title=stored.titles[account], view_by="date", group_by="month")

    before = {"December 2025": by_month[None, "November 2025"], "January 2026": asked[None, "December 2025"]}
    assert [row["date"] for row in rows] == list(before)
    for row in rows:
        now, then = asked[None, row["date"]], before[row["date"]]
        assert row["trend"] == {
            "units_ordered": _ratio(Decimal(now.units - then.units), Decimal(then.units)),
            "product_sales": _ratio(now.sales.answered - then.sales.answered, then.sales.answered),
            "profit": _ratio(now.profit - then.profit, abs(then.profit)),
        }


def test_a_product_is_compared_with_as_many_days_before(ann: httpx.Client, stored: Stored) -> None:
    account = stored.keys[0]
    currency, length = stored.currencies[account], (LAST - FIRST).days + 1
    before = (FIRST - timedelta(days=length), FIRST - timedelta(days=1))
    now = expected_sums(stored, [account], "asin", None, currency)
    then = expected_sums(stored, [account], "asin", None, currency, days=before)

    rows = _rows(ann, account_title=stored.titles[account], view_by="product", group_by="asin")

    for row in rows:
        key = (row["asin"], None)
        earlier = then[key]
        assert row["trend"]["units_ordered"] == _ratio(Decimal(now[key].units - earlier.units), Decimal(earlier.units))
        assert row["trend"]["profit"] == _ratio(now[key].profit - earlier.profit, abs(earlier.profit))
        assert row["velocity"] == (Decimal(now[key].units) / length).quantize(CENT, ROUND_HALF_UP)


def test_the_stock_is_that_of_the_newest_snapshots(dashboard: Served, ann: httpx.Client, stored: Stored) -> None:
    account = stored.keys[0]
    statement = (
        "SELECT sku, afn_fulfillable_quantity, (SELECT sum(quantity) FROM seller.warehouse_stock AS shelf "
        "WHERE (shelf.account, shelf.sku) = (stock.account, stock.sku)), buybox_price, sales_rank "
        "FROM seller.inventory AS stock JOIN service.products USING (account, sku) WHERE account = %s"
    )
    expected = {sku: tuple(values) for sku, *values in dashboard.stored(statement, account)}

    rows = _rows(
        ann, account_title=stored.titles[account], view_by="product", group_by="sku", end_date=TODAY, per_page=2000
    )

    fields = ("inventory", "local_inventory", "buybox_price", "sales_rank")
    assert {row["sku"]: tuple(row[name] for name in fields) for row in rows} == {
        row["sku"]: expected[row["sku"]] for row in rows
    }
    assert all(row["out_of_stock_days"] == (1 if row["inventory"] == 0 else 0) for row in rows)


@pytest.mark.parametrize("days", [("0001-01-01", "9999-12-31"), ("0001-01-01", "0001-01-01"), ("9999-12-31",) * 2])
def test_the_ends_of_the_calendar_are_days(ann: httpx.Client, stored: Stored, days: tuple[str, str]) -> None:
    query = {"account_title": stored.titles[stored.keys[0]], "start_date": days[0], "end_date": days[1]}

    for view, group, period in LEGAL[::3]:
        body_of(_get(ann, **query, view_by=view, group_by=group, period_by=period))


WINDOWS = [(FIRST, LAST), (LAST, LAST), (date(2025, 1, 1), date(2025, 1, 31)), (date.min, date.max), (FIRST, None)]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_velocity_over_the_days_asked_for_changes_what_follows_from_it(
    dashboard: Served, ann: httpx.Client, stored: Stored, window: tuple[date, date | None]
) -> None:
    account = stored.keys[0]
    first, last = window[0], window[1] or date(2026, 3, 9)  # today in Los Angeles, by the tests' clock
    length = (last - first).days + 1
    statement = "SELECT sku, lead_time_days FROM service.products WHERE account = %s"
    leads = dict(dashboard.stored(statement, account))

    def rows(**query: object) -> list[dict[str, Any]]:
        answer = ask(ann, "/inventory/list", account_title=stored.titles[account], per_page=2000, **query)
        return list(body_of(answer)["data"])

    ends = {} if window[1] is None else {"velocity_end_date": last}
    with_window = rows(velocity_start_date=first, **ends)

    computed = {"velocity_30_days", "days_of_stock", "restock_date", "restock_quantity_suggested"}
    assert [_without(row, computed) for row in with_window] == [_without(row, computed) for row in rows()]
    for row in with_window:
        units = sum(
            sold
            for key, day, sku, sold, _ in stored.sold
            if (key, sku) == (account, row["sku"]) and first <= day <= last
        )
        velocity = (Decimal(units) / length).quantize(CENT, ROUND_HALF_UP)
        sellable, inbound, lead = row["afn_fulfillable_quantity"], row["afn_inbound_quantity"], leads[row["sku"]]
        lasts = int(sellable // velocity) if velocity else None
        assert row["velocity_30_days"] == velocity
        assert row["days_of_stock"] == lasts
        assert row["restock_date"] == (None if lasts is None else str(TODAY + timedelta(days=max(0, lasts - lead))))
        assert row["restock_quantity_suggested"] == max(0, ceil(velocity * (lead + 30)) - sellable - inbound)


def _without(row: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}
