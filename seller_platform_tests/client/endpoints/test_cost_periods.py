"""Tests which cost periods can be written again."""

import pytest

from seller_platform.client.endpoints.cost_periods import read_periods
from seller_platform.errors import ContractViolationError


def test_a_period_without_its_first_day_cannot_be_written_again() -> None:
    rows = [("A", None, "2026-01-31", "[]", "2026-03-01")]

    with pytest.raises(ContractViolationError, match="cost_periods of SKU 'A': a period lacks its from_date"):
        read_periods("A", rows)
