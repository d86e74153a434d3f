"""Tests of the governed metrics against an independent computation with pandas."""

from datetime import date
from itertools import product

import pytest

from seller_platform.answers.asker import Asker
from seller_platform.answers.metrics import METRICS, Dimension
from seller_platform.answers.tools import call_tool
from seller_platform.errors import UnanswerableError
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.answers.company_frames import Company
from seller_platform_tests.support.demo_company import AU, DE, US

_MONTHS = {date(2026, 3, 1): date(2026, 3, 31), date(2026, 4, 1): date(2026, 4, 14)}
_PRODUCTS = ("JUT-DOO-MAT-0018-MED", "COI-DOO-MAT-0001-EXTLAR", "Größe/ЧАЙ", "A&B?C=D#1")


@pytest.fixture(scope="module")
def frames(company: Database) -> Company:
    return Company.read(company)


def test_the_metrics_are_what_pandas_computes_of_every_account_and_month(asker: Asker, frames: Company) -> None:
    for (first, last), account in product(_MONTHS.items(), (US, DE, AU)):
        expected = frames.values(account, first, last)

        for metric in METRICS:
            question = {"metric": metric.name, "accounts": [account], "by": ["account", "month"]}
            if expected[metric.name] is None:  # nothing that was sold has a cost
                with pytest.raises(UnanswerableError, match=f"{metric.name} is not known"):
                    call_tool(asker, "query", {**question, "first_day": first, "last_day": last})
                continue
            [row] = call_tool(asker, "query", {**question, "first_day": first, "last_day": last}).rows
            assert (row.account, row.month, row.value) == (account, first, expected[metric.name]), metric.name


def test_the_metrics_by_product_are_what_pandas_computes(asker: Asker, frames: Company) -> None:
    days = {"first_day": "2026-01-01", "last_day": "2026-01-31"}
    expected = {sku: frames.values(US, date(2026, 1, 1), date(2026, 1, 31), sku) for sku in _PRODUCTS}
    by_product = [metric.name for metric in METRICS if Dimension.PRODUCT in metric.dimensions]

    for name in by_product:
        question = {"metric": name, "accounts": [US], "by": ["product"], "products": _PRODUCTS, **days}
        answer = call_tool(asker, "query", question)
        assert {row.product: row.value for row in answer.rows} == {sku: expected[sku][name] for sku in _PRODUCTS}, name
    assert len(by_product) == 14


def test_products_are_compared_although_only_the_first_ones_are_listed(asker: Asker, frames: Company) -> None:
    months = {"first_day": "2026-03-01", "last_day": "2026-03-31", "other_first_day": "2026-01-01"}
    question = {"metric": "units", "accounts": [US], "by": ["product"], **months, "other_last_day": "2026-01-31"}

    first = call_tool(asker, "compare", {**question, "order": "largest", "limit": 5}).rows

    january = {row.product: frames.values(US, date(2026, 1, 1), date(2026, 1, 31), row.product) for row in first}
    assert [row.other_value for row in first] == [january[row.product]["units"] for row in first]
    with pytest.raises(UnanswerableError, match="grain of whole months"):
        call_tool(asker, "compare", {**question, "other_last_day": "2026-01-30"})


@pytest.mark.parametrize("tool", ["query", "compare"])
@pytest.mark.parametrize("metric", ["units", "profit_margin"])
def test_rows_come_in_the_order_that_is_asked_for(asker: Asker, tool: str, metric: str) -> None:
    periods = {"first_day": "2026-03-01", "last_day": "2026-03-31"}
    if tool == "compare":
        periods |= {"other_first_day": "2026-01-01", "other_last_day": "2026-01-31"}
    question = {"metric": metric, "accounts": [US], "by": ["product"], **periods}
    every = call_tool(asker, tool, {**question, "limit": 1_000}).rows
    values = sorted(row.value for row in every if row.value is not None)

    first = {
        order: call_tool(asker, tool, {**question, "order": order, "limit": 3}).rows
        for order in ("largest", "smallest")
    }

    assert [row.value for row in first["smallest"]] == values[:3]
    assert [row.value for row in first["largest"]] == values[:-4:-1]
    assert [row.product for row in every] == sorted(row.product for row in every)
    assert len({row.product for row in every}) == len(every) > 6


def test_there_are_fifteen_metrics_with_a_sentence_each() -> None:
    assert len({metric.name for metric in METRICS}) == 15
    assert all(metric.doc.endswith(".") and metric.dimensions for metric in METRICS)
