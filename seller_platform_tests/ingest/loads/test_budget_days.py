"""Tests what a connection with a budget loads from day to day."""

from datetime import date

import pytest

from seller_platform_tests.support.budget_days import COSTS, BudgetDays, best_missing

pytestmark = pytest.mark.slow

SINCE, FIRST = date(2025, 9, 1), date(2026, 3, 29)


def test_days_are_as_fresh_as_the_budget_permits_and_it_is_kept_exactly(database_url: str) -> None:
    world = BudgetDays(database_url, accounts=8, per_day=48, since=SINCE)

    figures = list(world.run(FIRST, 4))

    assert [each.sent for each in figures] == [48] * 4
    assert all(set(each.ages.values()) == {0} for each in figures)
    assert [each.missing for each in figures] == best_missing(8, 48, SINCE, FIRST, 4)


def test_accounts_take_turns_where_not_even_today_fits(database_url: str) -> None:
    """The slices of twelve accounts take 60 requests, so that each is read every second day."""
    world = BudgetDays(database_url, accounts=12, per_day=30, since=date(2026, 3, 1))
    longest = -(-12 * sum(COSTS.values()) // 30)

    figures = list(world.run(FIRST, 5))

    assert max(each.sent for each in figures) <= 30
    assert min(each.sent for each in figures) >= 28
    assert max(max(each.ages.values()) for each in figures[longest - 1 :]) <= longest
