"""Tests the tools against sixty known answers and pandas, by hostile calls, and for askers of few accounts."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise, product
from pathlib import Path
from random import Random
from statistics import median_low
from typing import Any

import pandas as pd
import psycopg
import pytest
import yaml
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from seller_platform.agents.asker import Asker
from seller_platform.agents.metrics import METRICS, Dimension
from seller_platform.agents.proof import Asked, Period, Seen
from seller_platform.agents.protocol import call
from seller_platform.agents.tools import TOOLS, Tool, call_tool
from seller_platform.cli.pages import PAGES
from seller_platform.commands import use_demo_start, use_start
from seller_platform.contract import Account, Window
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.errors import UnanswerableError
from seller_platform.marts.account_profit_daily import ACCOUNT_PROFIT_DAILY
from seller_platform.marts.inventory_health import INVENTORY_HEALTH
from seller_platform.marts.restock_plan import RESTOCK_PLAN
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.loads.history_start import extend_history
from seller_platform.warehouse.monitoring.problems import slice_problems
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.readers import open_reading
from seller_platform_tests.support.demo_company import AU, DE, NOW, US
from seller_platform_tests.support.hostile_calls import hostile_calls, leaks
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts

_CENT = Decimal("0.01")
_TABLES = ("daily_product_sales", "transactions", "orders", "cost_periods")


@dataclass(frozen=True)
class Company:
    """Daily sales with the cost of a unit, the ledger, and orders."""

    sales: pd.DataFrame
    ledger: pd.DataFrame
    orders: pd.DataFrame

    @classmethod
    def read(cls, database: Database) -> "Company":
        with database.begin() as connection:

            def rows(statement: str) -> pd.DataFrame:
                result = connection.execute(text(statement))
                return pd.DataFrame([tuple(row) for row in result], columns=list(result.keys()), dtype=object)

            sales, ledger, orders, costs = (rows(f"TABLE seller.{name}") for name in _TABLES)
        periods: dict[tuple[str, str], list[tuple[date, date, Decimal]]] = {}
        cost: Any
        for cost in costs.itertuples():
            elements = cost.cost_elements if isinstance(cost.cost_elements, list) else json.loads(cost.cost_elements)
            amount = sum((Decimal(str(each["amount"])) for each in elements), Decimal(0))
            periods.setdefault((cost.account, cost.sku), []).append((cost.from_date, cost.to_date or date.max, amount))

        def cost_of(row: Any) -> Decimal | None:
            of_product = periods.get((row.account, row.sku), ())
            return next((amount for first, last, amount in of_product if first <= row.local_day <= last), None)

        sales["unit_cost"] = pd.Series([cost_of(row) for row in sales.itertuples()], index=sales.index, dtype=object)
        return cls(sales, ledger, orders)

    def values(self, account: str, first: date, last: date, sku: str | None = None) -> dict[str, Decimal | None]:
        """Return every metric of an account over days, both inclusive; None where it is not known."""

        def chosen(rows: pd.DataFrame) -> pd.DataFrame:
            rows = rows[(rows.account == account) & (rows.local_day >= first) & (rows.local_day <= last)]
            return rows if sku is None else rows[rows.sku == sku]

        sales, ledger, orders = chosen(self.sales), chosen(self.ledger), chosen(self.orders)
        about = ledger.transaction_type + " " + ledger.description
        is_fee = ledger.transaction_type == "Fee"

        def posted(rows: pd.Series) -> Decimal:
            return sum(ledger.amount[rows], Decimal(0))

        revenue, units = sum(sales.product_sales, Decimal(0)), sum(sales.units_ordered)
        fees, refunds = -posted(is_fee), -posted(ledger.transaction_type == "Refund")
        unknown = sum(sales.units_ordered[sales.unit_cost.isna()])
        is_known = sales.empty or bool(sales.unit_cost.notna().any())
        known = sales[sales.unit_cost.notna()]
        cost = sum(known.units_ordered * known.unit_cost, Decimal(0))
        profit = revenue - cost - fees
        others = posted(~is_fee & ~ledger.transaction_type.isin(["Order", "Transfer"]))
        net = profit + sum(sales.shipping_credits, Decimal(0)) - sum(sales.rebates, Decimal(0)) + others

        def percent(amount: Decimal) -> Decimal:
            return (100 * amount / revenue).quantize(_CENT, ROUND_HALF_UP)

        return {
            "units": Decimal(units),
            "orders": Decimal(orders.platform_order_id[~orders.order_status.isin(["Cancelled", "Canceled"])].nunique()),
            "product_sales": revenue,
            "average_price": (revenue / units).quantize(_CENT, ROUND_HALF_UP),
            "refunds": refunds,
            "refund_rate": percent(refunds),
            "platform_fees": fees,
            "fee_rate": percent(fees),
            "advertising": -posted(~is_fee & about.str.contains("dvertis")),
            "storage": -posted(~is_fee & about.str.contains("torage")),
            "reimbursements": posted(about.str.contains("eimbursement")),
            "payouts": -posted(ledger.transaction_type == "Transfer"),
            "taxes": sum(sales.taxes, Decimal(0)),
            "shipping_credits": sum(sales.shipping_credits, Decimal(0)),
            "rebates": sum(sales.rebates, Decimal(0)),
            "orders_placed": Decimal(orders.platform_order_id.nunique()),
            "sales_without_cost": sum(sales.product_sales[sales.unit_cost.isna()], Decimal(0)),
            "product_cost": cost if is_known else None,
            "profit": profit if is_known else None,
            "profit_margin": percent(profit) if is_known else None,
            "net_profit": net if is_known else None,
            "net_margin": percent(net) if is_known else None,
            "units_without_cost": Decimal(unknown),
        }


_FILE = Path(__file__).with_name("questions.yaml")
_DAYS = {"days": ("first_day", "last_day"), "other": ("other_first_day", "other_last_day")}


@dataclass(frozen=True)
class Question:
    """A question, the call that asks it, and what is known of its answer.

    Attributes:
        kind: plain, tempting or unanswerable.
        known: What is right: value, rows, count, says, or statements for them; or refused and candidates.
    """

    kind: str
    ask: str
    tool: str
    arguments: Mapping[str, Any]
    known: Mapping[str, Any]

    def problems(
        self, answer: Mapping[str, Any] | None, refusal: str = "", candidates: Sequence[str] = ()
    ) -> list[str]:
        """Return what is wrong with an answer, as JSON has it, or with a refusal; None stands for no answer."""
        if ("refused" in self.known) != (answer is None):
            return [f"answered with {answer}, refused with {refusal!r}"]
        if answer is None:
            problems = [] if self.known["refused"] in refusal else [f"refused with {refusal!r}"]
            offered = self.known.get("candidates", ())
            return problems + [f"no {each}" for each in offered if not any(each in one for one in candidates)]
        rows, text = answer["rows"], json.dumps(answer, ensure_ascii=False)
        problems = [f"does not say {words!r}" for words in self.known.get("says", ()) if words not in text]
        expected = self.known.get("rows", [{"value": self.known["value"]}] if "value" in self.known else [])
        if ("value" in self.known and len(rows) != 1) or ("count" in self.known and len(rows) != self.known["count"]):
            problems.append(f"has {len(rows)} rows")
        if self.known.get("any_order"):
            rows, expected = (sorted(each, key=lambda row: row["product"]) for each in (rows, expected))
        for row, part in zip(rows, expected, strict=False):
            problems += [
                f"{name} is {row.get(name)}, not {value}"
                for name, value in part.items()
                if str(row.get(name)) != str(value)
            ]
        return problems + ([f"has {len(rows)} rows"] if len(rows) < len(expected) else [])


def _computed(question: Question, company: Database) -> Question:
    """Return a question with what its statements say is right, and check that the reason of a refusal is true."""
    known = dict(question.known)

    def rows_of(statement: str) -> list[dict[str, Any]]:
        with company.begin() as connection:
            rows = connection.exec_driver_sql(statement.replace("%", "%%")).mappings().all()
        return [
            {name: f"{value:f}" if isinstance(value, Decimal) else value for name, value in row.items()} for row in rows
        ]

    if "because" in known:
        assert [*rows_of(known["because"])[0].values()] == [True], question.ask
    if "says_sql" in known:
        known["says"] = [*known.get("says", ()), *rows_of(known["says_sql"])[0].values()]
    if "sql" in known:
        known["rows"] = rows_of(known["sql"])
        known["count"] = len(known["rows"])
    return replace(question, known=known)


def questions() -> list[Question]:
    """Return the questions of the file, in its order."""
    return [
        Question(kind, each.pop("ask"), call.pop("tool"), _arguments(call), each)
        for kind, of_kind in yaml.safe_load(_FILE.read_text()).items()
        for each in of_kind
        if (call := each.pop("call"))
    ]


def _arguments(call: dict[str, Any]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for name, value in call.items():
        if name in _DAYS:
            arguments |= dict(zip(_DAYS[name], value.split(".."), strict=True))
        else:
            arguments[name] = value
    return arguments


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
    assert not any(each.base_url in str(answer.as_json()) for each in connections(asker.database))


@pytest.mark.parametrize("metric", [each.name for each in METRICS if Dimension.STATUS not in each.dimensions])
def test_a_figure_has_the_same_problems_at_every_grain(asker: Asker, metric: str) -> None:
    dimensions = {each.name: each.dimensions for each in METRICS}[metric]
    march = {"metric": metric, "accounts": [US], "first_day": "2026-03-01", "last_day": "2026-03-31"}
    for account in (US, DE, AU):
        problems = {
            call_tool(asker, "query", {**march, "accounts": [account], "by": by}).proof.problems
            for by in ([], *([each] for each in dimensions))
        }
        assert len(problems) == 1, account
    if metric == "net_profit":
        assert any("cost_coverage" in each for each in next(iter(problems)))


def test_the_problems_of_what_stock_is_computed_from_are_in_its_proof(asker: Asker) -> None:
    datasets = {each.name for mart in (INVENTORY_HEALTH, RESTOCK_PLAN) for each in mart.datasets}
    names = {INVENTORY_HEALTH.table, RESTOCK_PLAN.table, *datasets}
    for account in (US, DE, AU):
        found = slice_problems(asker.database, names, accounts=[account], months=[date(2026, 3, 1), date(2026, 4, 1)])
        problems = call_tool(asker, "stock", {"accounts": [account]}).proof.problems
        assert set(problems) == {f"{each.subject}: {each.message}" for each in found}
        assert any(each.startswith("inventory of") for each in problems)


@pytest.mark.parametrize("by", ["day", "week"])
@pytest.mark.parametrize("account", [US, DE, AU])
def test_rows_add_up_to_the_total_or_a_note_says_that_they_do_not(asker: Asker, account: str, by: str) -> None:
    ends = set()
    for metric in ("product_sales", "refunds", "product_cost", "profit", "net_profit", "sales_without_cost"):
        march = {"metric": metric, "accounts": [account], "first_day": "2026-03-01", "last_day": "2026-03-31"}
        [total] = call_tool(asker, "query", march).rows
        answer = call_tool(asker, "query", {**march, "by": [by]})
        parts = [row.value for row in answer.rows]
        says = any(f"do not add up to that of all together, which is {total.value} " in each for each in answer.notes)
        assert (None in parts) == says, metric
        assert says or sum(parts) == total.value, metric
        ends.add(says)
    assert ends == ({True, False} if (account, by) == (AU, "day") else {False})


def test_the_proof_of_accounts_with_days_of_their_own_spans_them_all(asker: Asker) -> None:
    accounts = asker.chosen_accounts([DE, US])
    whole, since = Window(date(2026, 1, 1), date(2026, 3, 1)), Window(date(2026, 2, 15), date(2026, 3, 2))

    proof = Asked(asker, accounts, [since, whole], (TRANSACTIONS,)).prove("")

    assert (proof.period, proof.coverage) == (
        Period(first_day=date(2026, 1, 1), last_day=date(2026, 3, 1)),
        "Every day is stored: 15 to 59 days of 2 accounts, of transactions.",
    )
    with pytest.raises(UnanswerableError, match=r"transactions of de-1002, 2026-02-10\.\.2026-02-14"):
        Asked(asker, accounts, [whole, since], (TRANSACTIONS,)).prove("")


def test_payouts_say_which_days_of_the_ledger_they_are_of(asker: Asker, frames: "Company") -> None:
    in_sydney_only = replace(asker, clock=lambda: datetime(2026, 4, 14, 15, tzinfo=UTC))

    answer = call_tool(in_sydney_only, "payouts", {"accounts": [US, AU]})

    assert answer.proof.period == Period(first_day=date(2026, 1, 1), last_day=date(2026, 4, 14))
    assert answer.proof.coverage == "Every day is stored: 103 to 104 days of 2 accounts, of transactions."
    assert any("the sum of the ledger since 2026-01-01" in each for each in answer.notes)
    for row in answer.rows:
        ledger = frames.ledger[frames.ledger.account == row.account]
        is_payout = ledger.transaction_type == "Transfer"
        later = ledger.posted_date > ledger.posted_date[is_payout].max()
        assert row.earned_since == sum(ledger.amount[later & ~is_payout], Decimal(0))
        assert row.owed == sum(ledger.amount, Decimal(0))
        days = sorted(set(ledger.local_day[is_payout & (ledger.amount < 0)]))
        usual = median_low([after - before for before, after in pairwise(days)][-6:])
        of_last_day = is_payout & (ledger.local_day == days[-1])
        assert (row.last_day, row.usual_days, row.expected_day) == (days[-1], usual.days, days[-1] + usual)
        assert row.last_amount == -sum(ledger.amount[of_last_day], Decimal(0))


def test_a_problem_names_each_account_and_month_once(asker: Asker) -> None:
    rows = call_tool(asker, "problems", {}).rows

    assert any(row.slices > row.owners for row in rows)
    assert all(len(each) == len(set(each)) for row in rows for each in (row.accounts, row.months))


def test_the_query_tool_names_all_that_a_metric_is_divided_by() -> None:
    [doc] = [tool.doc for tool in TOOLS if tool.name == "query"]

    assert [each for each in Dimension if each.value not in doc] == []


def test_the_commands_of_answers_have_no_doubled_percent_sign(asker: Asker) -> None:
    march = {"first_day": "2026-03-01", "last_day": "2026-03-31", "accounts": [US]}
    commands = [call_tool(asker, "query", {"metric": each.name, **march}).proof.seen.command for each in METRICS]
    commands += [call_tool(asker, name, {}).proof.seen.command for name in ("payouts", "stock", "accounts", "problems")]

    assert sum("LIKE" in each for each in commands) >= 5
    assert [each for each in commands if "%%" in each] == []


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


def test_a_figure_of_an_old_build_says_so_and_one_of_no_build_is_refused(database: Database) -> None:
    january, today = Window.month_of(date(2026, 1, 1)), Window.day(NOW.date())
    connect_accounts(database, [("S1", Account(1, "A", "US", "USD", "UTC", "M", "S1"))])
    extend_history(database, january.start)
    for dataset in ACCOUNT_PROFIT_DAILY.datasets:
        store_receipt(database, dataset, "S1", january if dataset.is_dated else today, at=NOW, time_zone="UTC")
    asker = Asker(database, clock=lambda: NOW)
    profit = {"metric": "profit", "first_day": "2026-01-01", "last_day": "2026-01-31"}

    with pytest.raises(UnanswerableError, match="never loaded: account_profit_daily of S1, 2026-01"):
        call_tool(asker, "query", profit)
    build_partition(database, ACCOUNT_PROFIT_DAILY, "S1", january)
    current = call_tool(asker, "query", profit).proof.problems
    store_receipt(database, COST_PERIODS, "S1", today, at=NOW, time_zone="UTC")

    assert not any(each.startswith("marts.") for each in current)
    [problem] = set(call_tool(asker, "query", profit).proof.problems) - set(current)
    assert problem.startswith("marts.account_profit_daily of S1, 2026-01: it is older than what it is made of")


def test_an_unknown_tool_is_refused_with_its_neighbours(asker: Asker) -> None:
    with pytest.raises(UnanswerableError, match="did you mean 'accounts'") as refused:
        call_tool(asker, "account", {})

    assert "accounts" in refused.value.candidates


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_schema_of_a_tool_describes_an_object(tool: Tool) -> None:
    assert tool.input_schema["type"] == "object"
    assert not tool.input_schema["additionalProperties"]
    # References and patterns that look ahead are what versions of pydantic, and hosts, do not agree about.
    assert not re.search(r'"(\$ref|\$defs|pattern|anyOf)"', json.dumps(tool.input_schema))


def test_the_arguments_are_taken_as_hosts_mean_them(asker: Asker) -> None:
    march = {"metric": "units", "first_day": "2026-03-01", "last_day": "2026-03-31"}
    expected = call_tool(asker, "query", {**march, "accounts": [US], "by": ["product"], "limit": 5}).rows
    spellings: tuple[dict[str, object], ...] = (
        {"accounts": US, "by": "product", "limit": "5", "products": None, "order": None, "currency": "null"},
        {"accounts": f'["{US}"]', "by": '["product"]', "limit": 5.0, "products": "", "order": "", "currency": None},
        {"accounts": "North Pine US", "by": ["product"], "limit": 5, "products": "null", "currency": ""},
    )

    assert [call_tool(asker, "query", {**march, **each}).rows for each in spellings] == [expected] * 3
    assert len(call_tool(asker, "coverage", {"accounts": None, "month": None, "datasets": "orders"}).rows) == 13
    with pytest.raises(UnanswerableError, match=r"metric: .*first_day: .*last_day"):
        call_tool(asker, "query", {"metric": None, "first_day": None, "last_day": ""})


def test_an_answer_fits_and_says_what_was_left_out(asker: Asker) -> None:
    march = {"metric": "orders", "first_day": "2026-01-01", "last_day": "2026-03-31"}
    calls: tuple[tuple[str, dict[str, Any], str | None], ...] = (
        ("explain", {**march, "rows": 200}, "ask for fewer accounts or months, or single days or products"),
        ("query", {**march, "by": ["account", "day", "product"], "limit": 1_000}, "single days or products"),
        ("coverage", {}, None),
        ("sql", {"statement": "SELECT repeat('x', 900) FROM generate_series(1, 100)"}, "ask for fewer columns or rows"),
    )
    for name, arguments, hint in calls:
        answer = call_tool(asker, name, arguments, is_local=True)
        text = json.dumps(answer.as_json())
        assert len(text) <= 32_000, name
        if hint:
            assert re.match(r"Only [\d,]+ rows of [\d,]+ are here", answer.notes[-1]), name
            assert answer.notes[-1].endswith(f"{hint} to see the others."), name
            assert len(text) > 24_000, name
    with pytest.raises(UnanswerableError, match="one row is longer than an answer may be"):
        call_tool(asker, "sql", {"statement": "SELECT repeat('x', 40000)"}, is_local=True)


def test_an_answer_says_when_there_are_more_rows_than_its_limit(asker: Asker) -> None:
    march = {"metric": "units", "first_day": "2026-03-01", "last_day": "2026-03-31", "by": ["account"]}
    calls: dict[str, dict[str, Any]] = {
        "query": march,
        "compare": {**march, "other_first_day": "2026-01-01", "other_last_day": "2026-01-31"},
        "stock": {"every": True},
        "sql": {"statement": "SELECT generate_series(1, 3)"},
    }
    for name, arguments in calls.items():
        for limit, is_cut in ((1, True), (1_000, False)):
            answer = call_tool(asker, name, {**arguments, "limit": limit}, is_local=True)
            assert (f"There are more rows than the limit of {limit}." in answer.notes) == is_cut, name
            assert (len(answer.rows) == 1) == is_cut, name


def test_coverage_begins_with_a_summary_of_what_is_chosen(asker: Asker) -> None:
    chosen = {"accounts": [DE], "datasets": ["transactions"], "month": "2026-02"}
    summary, *slices = call_tool(asker, "coverage", {**chosen, "month": None}).rows
    [of_month] = call_tool(asker, "coverage", chosen).rows[1:]

    assert (summary.accounts, summary.slices, summary.rows) == (1, 4, sum(row.rows for row in slices))
    assert (summary.first_month, summary.last_month) == (slices[0].month, slices[-1].month)
    assert (of_month.month, of_month.days_read) == (date(2026, 2, 1), 23)
    with pytest.raises(UnanswerableError, match=r"no dataset 'order' .did you mean 'orders'"):
        call_tool(asker, "coverage", {"datasets": ["order"]})


def test_each_answer_says_which_day_it_is(asker: Asker) -> None:
    late = replace(asker, clock=lambda: datetime(2026, 4, 15, 23, tzinfo=UTC))
    days = {"UTC": "2026-04-15", "America/Los_Angeles": "2026-04-15", "Australia/Sydney": "2026-04-16"}

    for name, arguments in (("accounts", {}), ("docs", {"words": "days"}), ("query", {"metric": "sofas"})):
        assert {**call(late, name, arguments)[0]["today"], **days} == call(late, name, arguments)[0]["today"], name
    assert {row.key: str(row.today) for row in call_tool(late, "accounts", {}).rows} == {
        **{US: "2026-04-15", DE: "2026-04-16", AU: "2026-04-16"}
    }


def test_each_question_is_answered_right_or_rightly_refused(asker: Asker, company: Database) -> None:
    wrong = {}
    for question in (_computed(each, company) for each in questions()):
        try:
            answer = call_tool(asker, question.tool, question.arguments).as_json()
            problems = question.problems(answer)
        except UnanswerableError as refused:
            problems = question.problems(None, str(refused), refused.candidates)
        if problems:
            wrong[question.ask] = problems

    assert wrong == {}
    kinds = {"plain": 30, "tempting": 20, "unanswerable": 10, "by_sql": 40, "open": 20}
    assert Counter(question.kind for question in questions()) == kinds


def test_every_answer_about_rows_says_how_many_slices_may_differ(asker: Asker) -> None:
    march = {"metric": "units", "accounts": [US], "first_day": "2026-03-01", "last_day": "2026-03-31"}
    asked = {"accounts": {}, "coverage": {}, "problems": {}, "query": march, "explain": march, "stock": {}}

    assert {name: call_tool(asker, name, arguments).proof.bound for name, arguments in asked.items()} == dict.fromkeys(
        asked, asker.bound()
    )
    assert "no settled one was compared yet" in asker.bound()
    assert call_tool(asker, "docs", {"words": "unsettled days"}).proof.bound is None


def test_days_are_counted_only_of_lists_that_have_days(asker: Asker) -> None:
    rows = call_tool(asker, "coverage", {}).rows

    assert {row.month is None for row in rows} == {True, False}
    assert all((row.days_read is None) is (row.month is None) for row in rows)


def test_an_error_of_the_program_is_not_taken_for_a_slow_warehouse(asker: Asker, database: Database) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE platform.accounts RENAME TO other")
    with pytest.raises(DBAPIError, match=r"platform\.accounts"):
        call_tool(replace(asker, database=database, accounts=None), "accounts", {})


def test_the_page_names_every_tool_in_order() -> None:
    (text,) = [page.text for page in PAGES if page.name == "agents"]
    table = text.partition("\n## The tools\n")[2].partition("\n## ")[0]

    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [tool.name for tool in TOOLS]


@pytest.mark.parametrize("count", [200, pytest.param(4_000, marks=pytest.mark.nightly)])
def test_hostile_calls_see_no_rows_of_others_and_write_nothing(company: Database, asker: Asker, count: int) -> None:
    ends: Counter[str] = Counter()
    of_us = replace(asker, accounts=frozenset({US}))
    transactions = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
    with psycopg.connect(company.url, autocommit=True) as connection:
        before = connection.execute(transactions).fetchone()
        for name, arguments in hostile_calls(Random(1), count):
            try:
                answer: object = call_tool(of_us, name, arguments, is_local=True).model_dump(mode="json")
                ends["answered"] += 1
            except UnanswerableError as refused:
                assert not isinstance(refused.__cause__, DBAPIError | psycopg.Error), (name, arguments)
                answer = [str(refused), *refused.candidates]
                ends["refused"] += 1
            assert leaks([name, arguments], answer) == [], (name, arguments)
        assert connection.execute(transactions).fetchone() == before, "a transaction has written"

    assert ends["answered"] > 20
    assert ends["refused"] > 100


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM seller.orders", "SELECT * FROM platform.grants", "SELECT 1; SELECT 2", "SELECT 1 AS a, 2 AS a"],
)
def test_a_statement_of_an_agent_only_reads(asker: Asker, statement: str) -> None:
    with pytest.raises(UnanswerableError):
        call_tool(asker, "sql", {"statement": statement}, is_local=True)
    with pytest.raises(UnanswerableError, match="there is no tool 'sql'"):
        call_tool(asker, "sql", {"statement": "SELECT 1"})
    statement = "SELECT set_config('role', 'none', true) AS role, session_user AS login"
    [row] = call_tool(asker, "sql", {"statement": statement}, is_local=True).rows
    assert row.values == {"role": "none", "login": "asker"}
    with pytest.raises(UnanswerableError, match="Run `seller-platform database reader NAME`"):
        as_owner = replace(asker, reader_url=asker.database.url)
        call_tool(as_owner, "sql", {"statement": "SELECT 1"}, is_local=True)


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
    assert len(by_product) == 20


def test_products_are_compared_although_only_the_first_ones_are_listed(asker: Asker, frames: Company) -> None:
    months = {"first_day": "2026-03-01", "last_day": "2026-03-31", "other_first_day": "2026-01-01"}
    question = {"metric": "units", "accounts": [US], "by": ["product"], **months, "other_last_day": "2026-01-31"}

    first = call_tool(asker, "compare", {**question, "order": "largest", "limit": 5}).rows

    january = {row.product: frames.values(US, date(2026, 1, 1), date(2026, 1, 31), row.product) for row in first}
    assert [row.other_value for row in first] == [january[row.product]["units"] for row in first]
    with pytest.raises(UnanswerableError, match="grain of whole months"):
        call_tool(asker, "compare", {**question, "metric": "profit", "other_last_day": "2026-01-30"})


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


def test_each_metric_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS) == 23
    assert all(metric.doc.endswith(".") and metric.dimensions for metric in METRICS)


def test_an_answer_to_an_agent_names_commands_of_the_demo(tmp_path: Path) -> None:
    use_demo_start()
    try:
        command = Seen(command="seller-platform query 'TABLE x'").command
        remedy = UnanswerableError("no", "Run `seller-platform sync`.").remedy
    finally:
        use_start(tmp_path)

    assert command == "seller-platform --demo query 'TABLE x'"
    assert remedy == "Run `seller-platform --demo sync`."
