"""Tests that exactly one of several simultaneous refreshes succeeds."""

from seller_platform_tests.benchmarks.refreshing import AT_ONCE, race
from seller_platform_tests.support.served import Served


def test_of_eight_simultaneous_refreshes_exactly_one_wins(service: Served) -> None:
    ends = race(service, 25)

    assert ends == {(200, *[400] * (AT_ONCE - 1)): 25}
