"""Tests the loads of products and exchange rates from CSV files."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from seller_platform.contract import Window, dataset_named
from seller_platform.contract.wire import COST_PERIODS_PATH
from seller_platform.errors import SheetError
from seller_platform.service.csv_loads import LoadedProducts, LoadedRates, load_products, load_rates
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.served import Served, ask
from seller_platform_tests.support.stored_rows import ACCOUNTS, connect, insert_rows, list_accounts, stored

DAILY, INVENTORY, COSTS, LEDGER = map(
    dataset_named, ("daily_product_sales", "inventory", "cost_periods", "transactions")
)
US, DAY = "us-1", date(2026, 3, 1)
NOTHING_SENT = (None, None, None)


@pytest.fixture
def shop(database: Database) -> Database:
    """A database with accounts, and with stored rows of three products."""
    list_accounts(database, ACCOUNTS)
    _store_rows(database)
    return database


def _store_rows(database: Database) -> None:
    products = (("A", "B-OLD"), ("B", "B-B"), ("C", None))
    sold = [(DAY, sku, f"{sku} sold", asin, 1, "10.00", "0.00", "0.00", "0.00", DAY) for sku, asin in products]
    insert_rows(database, DAILY, US, sold)
    for day, name in (("2026-02-28", "A before"), ("2026-03-01", "A now")):
        insert_rows(database, INVENTORY, US, [("A", name, "B-A", "X", 4, 0, 0, 4, "1.00", 4, None, None, day)])


def _load(database: Database, folder: Path, *lines: str, header: str = "account,sku,parent_asin") -> LoadedProducts:
    return load_products(database, _written(folder, header, *lines))


def _written(folder: Path, *lines: str) -> Path:
    (folder / "lines.csv").write_text("\n".join(lines))
    return folder / "lines.csv"


def _stored(database: Database) -> Sequence[Any]:
    columns = "sku, asin, parent_asin, product_name, buybox_price, sales_rank, lead_time_days"
    return stored(database, f"SELECT {columns} FROM service.products ORDER BY account, sku")


def test_an_asin_and_a_name_that_are_not_sent_are_those_of_the_rows(shop: Database, tmp_path: Path) -> None:
    loaded = _load(shop, tmp_path, "us-1,A,P-1", "us-1,B,")

    assert loaded == LoadedProducts(2, 1, [US])
    assert _stored(shop) == [("A", "B-A", "P-1", "A now", *NOTHING_SENT), ("B", "B-B", None, "B sold", *NOTHING_SENT)]


def test_a_product_is_replaced_as_a_whole(shop: Database, tmp_path: Path) -> None:
    every = "account,sku,asin,parent_asin,product_name,buybox_price,sales_rank,lead_time_days"
    _load(shop, tmp_path, 'us-1,A,B-9,P-1,"Mug, blue",12.50,7,30', "us-1,B,B-B,P-1,B,,,", header=every)
    _load(shop, tmp_path, "us-1,B,P-2,4", header="account,sku,parent_asin,lead_time_days")

    assert _stored(shop) == [
        ("A", "B-9", "P-1", "Mug, blue", Decimal("12.50"), 7, 30),
        ("B", "B-B", "P-2", "B sold", None, None, 4),
    ]


def test_a_replica_knows_the_parents_that_were_loaded(service: Served, tmp_path: Path, ann: httpx.Client) -> None:
    connect(service.database, US)
    for dataset in (DAILY, LEDGER, COSTS):
        mark_loaded(service.database, dataset, US, Window.day(DAY))
    _store_rows(service.database)
    by_parent = {"view_by": "product", "group_by": "parent_asin", "start_date": str(DAY), "end_date": str(DAY)}
    account = {"account_title": "Shop US"}

    def ask_both() -> list[httpx.Response]:
        return [
            ann.get("/sales/statistics-dashboard", params={**account, **by_parent}),
            ann.get(COST_PERIODS_PATH, params={**account, "parent_asin": "P-1"}),
        ]

    before = ask_both()
    _load(service.database, tmp_path, "us-1,A,P-1", "us-1,B,P-1")
    statistics, costs = ask_both()

    assert [answer.status_code for answer in before] == [422, 422]
    assert all("`seller-platform service products load FILE`" in answer.json()["message"] for answer in before)
    rows = [(row["parent_asin"], row["units_ordered"]) for row in statistics.json()["data"]]
    assert rows == [("P-1", 2), (None, 1)]
    assert costs.json() == {"data": []}


def _load_rates(database: Database, folder: Path, *lines: str, header: str = "day,currency,per_euro") -> LoadedRates:
    return load_rates(database, _written(folder, header, *lines))


def _stored_rates(database: Database) -> Sequence[Any]:
    return stored(database, "SELECT day, currency, per_euro FROM service.exchange_rates ORDER BY 1, 2")


def test_rates_are_loaded_and_those_of_the_same_day_replaced(database: Database, tmp_path: Path) -> None:
    first = _load_rates(database, tmp_path, "2026-03-01,USD,1.09", "2026-03-01,EUR,1", "2026-03-02,USD,1.1")
    _load_rates(database, tmp_path, "1.25,2026-03-02,USD", "0.85,2026-03-02,GBP", header="per_euro,day,currency")

    assert first == LoadedRates(3, ["EUR", "USD"], date(2026, 3, 1), date(2026, 3, 2))
    assert _stored_rates(database) == [
        (date(2026, 3, 1), "EUR", Decimal(1)),
        (date(2026, 3, 1), "USD", Decimal("1.09")),
        (date(2026, 3, 2), "GBP", Decimal("0.85")),
        (date(2026, 3, 2), "USD", Decimal("1.25")),
    ]


def test_a_replica_converts_with_rates_that_were_loaded(service: Served, ann: httpx.Client, tmp_path: Path) -> None:
    connect(service.database, "us-1")
    day = date(2026, 3, 1)
    mark_loaded(service.database, DAILY, "us-1", Window.day(day))
    service.insert_rows(DAILY, "us-1", [(day, "A", "Name", "B1", 1, "10.00", "0.00", "0.00", "0.00", day)])
    query = {"account_title": "Shop US", "start_date": day, "end_date": day, "per_page": 500, "currency": "GBP"}

    before = ask(ann, DAILY.path, **query)
    _load_rates(service.database, tmp_path, "2026-03-01,USD,1.25", "2026-03-01,GBP,0.8")
    after = ask(ann, DAILY.path, **query)

    assert before.status_code == 422
    assert "`seller-platform service rates load FILE --replica`" in before.json()["message"]
    assert [row["product_sales"] for row in after.json()["data"]] == [6.4]
    assert after.headers["X-Computed-By"] == "replica"


WRONG_PRODUCTS = {
    "us-9,A,B-A,Name,,": "column account: 'us-9' is not the key of an account; they are: de-2, fr-3, gb-5, it-4,",
    "us-1, ,B-A,Name,,": "column sku: ' ' is not a SKU",
    "us-1,C,,Name,,": "column asin: '' is empty, and no stored row of SKU 'C' has one",
    "us-1,D,B-D,,,": "column product_name: '' is empty, and no stored row of SKU 'D' has one",
    "us-1,E,B-E,Name,x,": "column buybox_price: 'x' is not a number",
    "us-1,F,B-F,Name,,1.5": "column lead_time_days: '1.5' is not a number from 0 to less than 10000",
    "us-1,A,B-A,Name,,": "SKU 'A' of us-1 stands in line 2; keep one",
}
WRONG_RATES = {
    "2026-02-30,USD,1": "column day: '2026-02-30' is not a day, written as 2026-03-31",
    "2026-03-01,usd,1": "column currency: 'usd' is not an ISO 4217 code such as USD",
    "2026-03-01,GBP,0": "column per_euro: '0' is not more than 0",
    "2026-03-01,JPY,": "column per_euro: '' is not more than 0",
    "2026-03-01,CHF,-1": "column per_euro: '-1' is not a number from 0 to less than",
    "2026-03-01,PLN,1e3": "column per_euro: '1e3' is not a number",
    "2026-03-01,EUR,1.1": "column per_euro: '1.1' is not 1, which it must be for EUR",
    "2026-03-01,GBP": "'2026-03-01,GBP' has 2 cells under 3 columns",
    "2026-03-01,USD,1.2": "the rate of USD on 2026-03-01 stands in line 2; keep one",
}


@pytest.mark.parametrize(
    ("load", "header", "good", "wrong"),
    [
        (_load, "account,sku,asin,product_name,buybox_price,lead_time_days", "us-1,A,B-A,Name,1,1", WRONG_PRODUCTS),
        (_load_rates, "day,currency,per_euro", "2026-03-01,USD,1.1", WRONG_RATES),
    ],
)
def test_each_wrong_line_is_named_and_none_is_loaded(
    shop: Database, tmp_path: Path, load: Callable[..., object], *, header: str, good: str, wrong: Mapping[str, str]
) -> None:
    with pytest.raises(SheetError, match="cannot be used") as caught:
        load(shop, tmp_path, good, *wrong, header=header)

    for number, (problem, expected) in enumerate(zip(caught.value.problems, wrong.values(), strict=True), start=3):
        assert (problem.startswith(f"line {number}"), expected in problem) == (True, True), problem
    assert (_stored(shop), _stored_rates(shop)) == ([], [])
