"""Tests the load of products from a CSV file."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from seller_platform.contract import Window, dataset_named
from seller_platform.contract.wire import COST_PERIODS_PATH
from seller_platform.errors import ProductFileError
from seller_platform.service.csv_loads.products import LoadedProducts, load_products
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.served import ACCOUNTS, ANN, Served, connect, insert_rows, list_accounts, stored

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
    sold = [(DAY, sku, f"{sku} sold", asin, 1, "10.00", "0.00", "0.00", "0.00", DAY) for sku, asin in _SOLD]
    insert_rows(database, DAILY, US, sold)
    for day, name in (("2026-02-28", "A before"), ("2026-03-01", "A now")):
        insert_rows(database, INVENTORY, US, [("A", name, "B-A", "X", 4, 0, 0, 4, "1.00", 4, None, None, day)])


_SOLD = (("A", "B-OLD"), ("B", "B-B"), ("C", None))


def _load(database: Database, folder: Path, *lines: str, header: str = "account,sku,parent_asin") -> LoadedProducts:
    file = folder / "products.csv"
    file.write_text("\n".join((header, *lines)))
    return load_products(database, file)


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


def test_each_wrong_line_is_named_and_none_is_loaded(shop: Database, tmp_path: Path) -> None:
    wrong = {
        "us-9,A,B-A,Name,,": "column account: 'us-9' is not the key of an account; they are: de-2, fr-3, gb-5, it-4,",
        "us-1, ,B-A,Name,,": "column sku: ' ' is not a SKU",
        "us-1,C,,Name,,": "column asin: '' is empty, and no stored row of SKU 'C' has one",
        "us-1,D,B-D,,,": "column product_name: '' is empty, and no stored row of SKU 'D' has one",
        "us-1,E,B-E,Name,x,": "column buybox_price: 'x' is not a number",
        "us-1,F,B-F,Name,,1.5": "column lead_time_days: '1.5' is not a number from 0 to less than 10000",
        "us-1,A,B-A,Name,,": "SKU 'A' of us-1 stands in line 2; keep one",
    }

    with pytest.raises(ProductFileError) as caught:
        header = "account,sku,asin,product_name,buybox_price,lead_time_days"
        _load(shop, tmp_path, "us-1,A,B-A,Name,1,1", *wrong, header=header)

    assert len(caught.value.problems) == len(wrong)
    for number, (problem, expected) in enumerate(zip(caught.value.problems, wrong.values(), strict=True), start=3):
        assert problem.startswith(f"line {number}"), problem
        assert expected in problem
    assert _stored(shop) == []


def test_a_replica_knows_the_parents_that_were_loaded(service: Served, tmp_path: Path) -> None:
    connect(service.database, US)
    for dataset in (DAILY, LEDGER, COSTS):
        mark_loaded(service.database, dataset, US, Window.day(DAY))
    _store_rows(service.database)
    by_parent = {"view_by": "product", "group_by": "parent_asin", "start_date": str(DAY), "end_date": str(DAY)}
    account = {"account_title": "Shop US"}

    def ask(client: httpx.Client) -> list[httpx.Response]:
        return [
            client.get("/sales/statistics-dashboard", params={**account, **by_parent}),
            client.get(COST_PERIODS_PATH, params={**account, "parent_asin": "P-1"}),
        ]

    with service.client(ANN) as client:
        before = ask(client)
        _load(service.database, tmp_path, "us-1,A,P-1", "us-1,B,P-1")
        statistics, costs = ask(client)

    assert [answer.status_code for answer in before] == [422, 422]
    assert all("`seller-platform service products load`" in answer.json()["message"] for answer in before)
    rows = [(row["parent_asin"], row["units_ordered"]) for row in statistics.json()["data"]]
    assert rows == [("P-1", 2), (None, 1)]
    assert costs.json() == {"data": []}
