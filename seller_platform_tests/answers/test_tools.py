"""Tests of what holds for every tool, and of the accounts that an asker may see."""

from dataclasses import replace

import pytest

from seller_platform.answers.asker import Asker
from seller_platform.answers.tools import TOOLS, Tool, call_tool
from seller_platform.errors import UnanswerableError
from seller_platform_tests.support.demo_company import AU, DE, US


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
