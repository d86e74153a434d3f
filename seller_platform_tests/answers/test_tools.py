"""Tests of what holds for every tool, and of the accounts that an asker may see."""

import re
from dataclasses import replace
from datetime import date

import pytest

from seller_platform.answers.asker import Asker
from seller_platform.answers.tools import TOOLS, Tool, call_tool
from seller_platform.contract import Account, Window
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.sales import ORDERS
from seller_platform.errors import UnanswerableError
from seller_platform.warehouse.loads.history_start import extend_history
from seller_platform.warehouse.marts.account_profit_daily import ACCOUNT_PROFIT_DAILY
from seller_platform.warehouse.marts.builds import build_partition
from seller_platform.warehouse.monitoring.sampling import DrawnSlice, Stratum, count_slices, keep_comparison
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.readers import open_reading
from seller_platform_tests.support.demo_company import AU, DE, NOW, US
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts


def test_the_accounts_are_listed_with_zone_currency_and_months(asker: Asker) -> None:
    answer = call_tool(asker, "accounts", {})

    assert [row.key for row in answer.rows] == sorted([US, DE, AU])
    assert answer.proof.currencies == ("AUD", "EUR", "USD")
    assert {f"{row.first_month:%Y-%m}..{row.last_month:%Y-%m}" for row in answer.rows} == {"2026-01..2026-04"}


def test_an_account_that_may_not_be_seen_is_as_one_that_does_not_exist(asker: Asker) -> None:
    of_us = replace(asker, accounts=frozenset({US}))

    assert [row.key for row in call_tool(of_us, "accounts", {}).rows] == [US]
    messages = set()
    for name in (DE, 'Köhler "Haus & Hof" DE', "A0.NONE"):
        with pytest.raises(UnanswerableError) as refused:
            of_us.chosen_accounts([name])
        messages.add(str(refused.value).replace(repr(name), "NAME"))
        assert refused.value.candidates == (f"{US} (North Pine US)",)
    [message] = messages
    assert message.startswith("NAME is neither the key nor the title of exactly one account. ")


def test_a_figure_is_explained_down_to_its_rows_and_their_requests(asker: Asker) -> None:
    day = {"metric": "product_sales", "accounts": [US], "first_day": "2026-03-06", "last_day": "2026-03-06"}

    answer = call_tool(asker, "explain", day)
    listed = [row for row in answer.rows if row.table == "seller.daily_product_sales"]
    load, *rows = listed
    [figure] = call_tool(asker, "query", day).rows

    assert [load.kind, *{row.kind for row in rows}] == ["load", "row"]
    assert {(row.number, row.page, row.at) for row in rows} == {(load.number, 1, NOW)}
    assert sum(row.values["product_sales"] for row in rows) == figure.value
    of_us = "GET /sales/per-day-per-product?seller_id=A4LL303DM980YE&marketplace_id=A1SBX4US70Q2KD&"
    assert all(row.request.startswith(f"{of_us}start_date=2026-03-01&end_date=2026-03-31&") for row in rows)
    assert all(row.is_exact for row in rows)


def test_the_rows_of_a_long_period_are_listed_in_part_and_counted(asker: Asker) -> None:
    march = {"metric": "units", "first_day": "2026-03-01", "last_day": "2026-03-31", "rows": 3}

    answer = call_tool(asker, "explain", {**march, "accounts": [US], "products": ["COT-PIL-COV-0011-OCEBLU"]})

    sold = [row.values["sku"] for row in answer.rows if (row.kind, row.table) == ("row", "seller.daily_product_sales")]
    assert sold == ["COT-PIL-COV-0011-OCEBLU"] * 3
    assert re.match(r"3 of \d+ rows of seller.daily_product_sales are listed", answer.notes[1])


def test_who_may_see_one_account_gets_no_rows_of_another_explained(asker: Asker, company: Database) -> None:
    march = {"metric": "orders", "first_day": "2026-03-01", "last_day": "2026-03-31"}

    with open_reading(company.url, connections=1) as reader:  # each call needs one at a time
        of_us = replace(asker, database=reader, accounts=frozenset({US}))
        rows = call_tool(of_us, "explain", march).rows
        with pytest.raises(UnanswerableError, match="neither the key nor the title"):
            call_tool(of_us, "explain", {**march, "accounts": [DE]})

    assert {row.account for row in rows} == {US}
    assert {row.account for row in call_tool(asker, "explain", march).rows} == {US, DE, AU}


def test_the_bound_is_that_of_the_accounts_that_may_be_seen(database: Database) -> None:
    january = Window.month_of(date(2026, 1, 1))
    connect_accounts(database, [(key, Account(1, "A", "US", "USD", "UTC", "M", key)) for key in ("S1", "S2")])
    for key in ("S1", "S2"):
        store_receipt(database, ORDERS, key, january, at=NOW, time_zone="UTC", rows=5)
    count_slices(database, 10, NOW)
    drawn = DrawnSlice(Stratum.SETTLED, ORDERS, "S1", "default", january)
    keep_comparison(database, drawn, started_at=NOW, requests=1, differed=False)

    bounds = [
        Asker(database, accounts=keys, clock=lambda: NOW).bound()
        for keys in (None, frozenset({"S1"}), frozenset({"S2"}))
    ]

    assert ["Since 15 April 2026, 1 check compared" in bound for bound in bounds] == [True, True, False]
    assert bounds[2].endswith("no settled one was compared yet")


def test_a_figure_of_an_old_build_says_so_and_one_of_no_build_is_refused(database: Database) -> None:
    january, today = Window.month_of(date(2026, 1, 1)), Window.day(NOW.date())
    connect_accounts(database, [("S1", Account(1, "A", "US", "USD", "UTC", "M", "S1"))])
    extend_history(database, january.start)
    for dataset in ACCOUNT_PROFIT_DAILY.datasets:
        store_receipt(database, dataset, "S1", january if dataset.is_dated else today, at=NOW, time_zone="UTC")
    asker = Asker(database, clock=lambda: NOW)
    units = {"metric": "units", "first_day": "2026-01-01", "last_day": "2026-01-31"}

    with pytest.raises(UnanswerableError, match="never loaded: account_profit_daily of S1, 2026-01"):
        call_tool(asker, "query", units)
    build_partition(database, ACCOUNT_PROFIT_DAILY, "S1", january)
    current = call_tool(asker, "query", units).proof.problems
    store_receipt(database, COST_PERIODS, "S1", today, at=NOW, time_zone="UTC")

    assert not any(each.startswith("marts.") for each in current)
    [problem] = set(call_tool(asker, "query", units).proof.problems) - set(current)
    assert problem.startswith("marts.account_profit_daily of S1, 2026-01: it is older than what it is made of")


def test_an_unknown_tool_is_refused_with_its_neighbours(asker: Asker) -> None:
    with pytest.raises(UnanswerableError, match="did you mean 'accounts'") as refused:
        call_tool(asker, "account", {})

    assert "accounts" in refused.value.candidates


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_schemas_of_a_tool_describe_objects(tool: Tool) -> None:
    assert tool.input_schema["type"] == tool.output_schema["type"] == "object"
    assert not tool.input_schema["additionalProperties"]
    assert {"rows", "proof"} <= set(tool.output_schema["required"])


def test_a_cost_plan_says_what_would_change_and_changes_nothing(asker: Asker) -> None:
    line = {"account": "North Pine US", "sku": "NEW-1", "from_date": "2026-01-01", "to_date": "2026-12-31"}
    known = {**line, "sku": "A&B?C=D#1", "from_date": "2026-02-16", "to_date": "2027-12-31"}
    cost = {"cost_element": "Freight", "amount": "1.50", "currency": "USD"}

    answer = call_tool(asker, "cost_plan", {"lines": [line | cost, known | cost]})

    assert [(row.product, row.change.value, str(row.from_date)) for row in answer.rows] == [
        ("NEW-1", "added", "2026-01-01"),
        ("A&B?C=D#1", "removed", "2026-01-01"),
        ("A&B?C=D#1", "changed", "2026-02-16"),
    ]
    assert str(answer.rows[2].before) == "{'USD': Decimal('5.92')}"
    assert "Nothing was stored or written" in answer.notes[0]


def test_a_cost_plan_names_what_cannot_be_written(asker: Asker) -> None:
    line = {"account": US, "sku": "A", "from_date": "2026-13-01", "to_date": "x", "cost_element": "F", "amount": "1e9"}

    with pytest.raises(UnanswerableError, match="line 1, column from_date"):
        call_tool(asker, "cost_plan", {"lines": [{**line, "currency": "USD"}]})
