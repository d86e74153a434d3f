"""Tests of which days the columns are compared, by the rows that differ."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

import pytest

from seller_platform.warehouse.loads.day_changes import ROWS, Figures, _dear_days

_ROWS = {"1st": 10, "2nd": 100}


def _of(rows: int, amount: int | None = None) -> Figures:
    return Counter({ROWS: rows} if amount is None else {ROWS: rows, ("gross", "amount"): amount})


@pytest.mark.parametrize(
    ("went", "came", "compared"),
    [
        pytest.param({"2nd": _of(28)}, {}, {"1st", "2nd"}, id="all, if more than a quarter of the rows go"),
        pytest.param({}, {"2nd": _of(28)}, {"1st", "2nd"}, id="all, if more than a quarter of the rows come"),
        pytest.param({"1st": _of(3)}, {"1st": _of(3)}, {"1st"}, id="one of which more than a quarter differs"),
        pytest.param({"1st": _of(1, 10)}, {"1st": _of(1, 10)}, set(), id="none, if little differs"),
        pytest.param({"1st": _of(1, 10)}, {"1st": _of(1, 0)}, {"1st", "2nd"}, id="all, if amounts only go"),
        pytest.param(
            {"1st": _of(1, 100)}, {"1st": _of(1, 175)}, set(), id="none, if an amount is less than twice as large"
        ),
        pytest.param({"1st": _of(1, 100)}, {"1st": _of(1, 176)}, {"1st"}, id="one whose amount is larger still"),
        pytest.param({"1st": _of(1, 176)}, {"1st": _of(1, 100)}, {"1st"}, id="one whose amount is smaller"),
        pytest.param({}, {"1st": _of(1, 3)}, {"1st"}, id="one whose amounts only come"),
    ],
)
def test_days_are_compared_whose_rows_differ_much(
    went: Mapping[str, Figures], came: Mapping[str, Figures], compared: Collection[str]
) -> None:
    assert _dear_days(_ROWS, defaultdict(Counter, went), defaultdict(Counter, came)) == compared


def test_a_day_without_stored_rows_has_nothing_to_compare() -> None:
    assert _dear_days({"1st": 0, "2nd": 4}, defaultdict(Counter), {"1st": _of(3), "2nd": _of(1)}) == {"2nd"}
