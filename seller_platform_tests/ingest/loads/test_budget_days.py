"""Tests what a connection with a budget loads from day to day."""

from datetime import date

import pytest

from seller_platform_tests.ingest.loads.budget_days import COSTS, BudgetDays, best_missing

pytestmark = pytest.mark.slow

SINCE, FIRST = date(2025, 9, 1), date(2026, 3, 29)


def test_days_are_as_fresh_as_the_budget_permits_and_it_is_kept_exactly(database_url: str) -> None:
    world = BudgetDays(database_url, accounts=5, per_day=34, since=SINCE)

    figures = list(world.run(FIRST, 4))

    assert [each.sent for each in figures] == [34] * 4
    assert all(set(each.ages.values()) == {0} for each in figures)
    assert [each.missing for each in figures] == best_missing(5, 34, SINCE, FIRST, 4)


def test_accounts_take_turns_where_not_even_today_fits(database_url: str) -> None:
    """The slices of six accounts take 30 requests, so that each is read every second day."""
    world = BudgetDays(database_url, accounts=6, per_day=15, since=date(2026, 3, 1))
    longest = -(-6 * sum(COSTS.values()) // 15)

    figures = list(world.run(FIRST, 5))

    assert max(each.sent for each in figures) <= 15
    assert min(each.sent for each in figures) >= 13
    assert max(max(each.ages.values()) for each in figures[longest - 1 :]) <= longest
