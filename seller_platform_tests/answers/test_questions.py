"""Asks the sixty questions, and calls the tools with what an attacker may send."""

import json
import re
from collections import Counter
from dataclasses import replace
from random import Random

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

from seller_platform.answers.asker import Asker
from seller_platform.answers.tools import TOOLS, call_tool
from seller_platform.documentation import PAGES
from seller_platform.errors import UnanswerableError
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.demo_company import US
from seller_platform_tests.support.hostile_calls import hostile_calls, leaks
from seller_platform_tests.support.questions import questions


def test_sixty_questions_of_sixty_are_answered_right_or_rightly_refused(asker: Asker) -> None:
    wrong = {}
    for question in questions():
        try:
            answer = json.loads(call_tool(asker, question.tool, question.arguments).model_dump_json())
            problems = question.problems(answer)
        except UnanswerableError as refused:
            problems = question.problems(None, str(refused), refused.candidates)
        if problems:
            wrong[question.ask] = problems

    assert wrong == {}
    assert Counter(question.kind for question in questions()) == {"plain": 30, "tempting": 20, "unanswerable": 10}


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
