"""Tests the load of exchange rates from a CSV file."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from seller_platform.contract import Window, dataset_named
from seller_platform.errors import RateFileError
from seller_platform.service.csv_loads.rates import LoadedRates, load_rates
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.served import Served, ask, connect, insert_rows, stored

DAILY = dataset_named("daily_product_sales")
HEADER = "day,currency,per_euro"


def _load(database: Database, folder: Path, *lines: str, header: str = HEADER) -> LoadedRates:
    file = folder / "rates.csv"
    file.write_text("\n".join((header, *lines)))
    return load_rates(database, file)


def _stored(database: Database) -> Sequence[Any]:
    return stored(database, "SELECT day, currency, per_euro FROM service.exchange_rates ORDER BY 1, 2")


def test_rates_are_loaded_and_those_of_the_same_day_replaced(database: Database, tmp_path: Path) -> None:
    first = _load(database, tmp_path, "2026-03-01,USD,1.09", "2026-03-01,EUR,1", "2026-03-02,USD,1.1")
    _load(database, tmp_path, "1.25,2026-03-02,USD", "0.85,2026-03-02,GBP", header="per_euro,day,currency")

    assert first == LoadedRates(3, ["EUR", "USD"], date(2026, 3, 1), date(2026, 3, 2))
    assert _stored(database) == [
        (date(2026, 3, 1), "EUR", Decimal(1)),
        (date(2026, 3, 1), "USD", Decimal("1.09")),
        (date(2026, 3, 2), "GBP", Decimal("0.85")),
        (date(2026, 3, 2), "USD", Decimal("1.25")),
    ]


def test_each_wrong_line_is_named_and_none_is_loaded(database: Database, tmp_path: Path) -> None:
    wrong = {
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

    with pytest.raises(RateFileError) as caught:
        _load(database, tmp_path, "2026-03-01,USD,1.1", *wrong)

    assert len(caught.value.problems) == len(wrong)
    for number, (problem, expected) in enumerate(zip(caught.value.problems, wrong.values(), strict=True), start=3):
        assert problem.startswith(f"line {number}"), problem
        assert expected in problem
    assert "was not loaded" in str(caught.value)
    assert _stored(database) == []


def test_a_replica_converts_with_rates_that_were_loaded(service: Served, ann: httpx.Client, tmp_path: Path) -> None:
    connect(service.database, "us-1")
    day = date(2026, 3, 1)
    mark_loaded(service.database, DAILY, "us-1", Window.day(day))
    insert_rows(service.database, DAILY, "us-1", [(day, "A", "Name", "B1", 1, "10.00", "0.00", "0.00", "0.00", day)])
    query = {"account_title": "Shop US", "start_date": day, "end_date": day, "per_page": 500, "currency": "GBP"}

    before = ask(ann, DAILY.path, **query)
    _load(service.database, tmp_path, "2026-03-01,USD,1.25", "2026-03-01,GBP,0.8")
    after = ask(ann, DAILY.path, **query)

    assert before.status_code == 422
    assert "`seller-platform service rates load`" in before.json()["message"]
    assert [row["product_sales"] for row in after.json()["data"]] == [6.4]
    assert after.headers["X-Computed-By"] == "replica"
