"""Tests of which days the columns are compared, by the rows that differ."""

from collections.abc import Collection, Mapping
from decimal import Decimal

import pytest

from seller_platform.warehouse.loads.day_changes import SCALE, DayChange, Figures, _dear_days

_ROWS = {"1st": 10, "2nd": 100}


def _of(rows: int, amount: int | None = None) -> Figures:
    return Figures(rows, gross={} if amount is None else {"amount": Decimal(amount)})


@pytest.mark.parametrize(
    ("went", "came", "compared"),
    [
        pytest.param({"2nd": _of(28)}, {}, {"1st", "2nd"}, id="all, if more than a quarter of the rows go"),
        pytest.param({}, {"2nd": _of(28)}, {"1st", "2nd"}, id="all, if more than a quarter of the rows come"),
        pytest.param({"1st": _of(3)}, {"1st": _of(3)}, {"1st"}, id="one of which more than a quarter differs"),
        pytest.param({"1st": _of(1, 10)}, {"1st": _of(1, 10)}, set(), id="none, if little differs"),
        pytest.param({"1st": _of(1, 10)}, {"1st": _of(1, 0)}, {"1st", "2nd"}, id="all, if amounts only go"),
        pytest.param(
            {"1st": _of(1, 10)}, {"1st": _of(1, 10 * SCALE)}, set(), id="none, if an amount is 5 times larger"
        ),
        pytest.param({"1st": _of(1, 10)}, {"1st": _of(1, 51)}, {"1st"}, id="one whose amount is larger still"),
        pytest.param({"1st": _of(1, 51)}, {"1st": _of(1, 10)}, {"1st"}, id="one whose amount is smaller"),
        pytest.param({}, {"1st": _of(1, 3)}, {"1st"}, id="one whose amounts only come"),
    ],
)
def test_days_are_compared_whose_rows_differ_much(
    went: Mapping[str, Figures], came: Mapping[str, Figures], compared: Collection[str]
) -> None:
    assert _dear_days(_ROWS, went, came) == compared


def test_figures_after_rows_went_and_came() -> None:
    before, gone, new = (
        Figures(rows, {"sku": filled}, {"amount": Decimal(gross)}, {"amount": Decimal(net)})
        for rows, filled, gross, net in ((10, 9, 80, -8), (4, 3, 30, 20), (2, 1, 7, 5))
    )

    assert before.after(Figures(), Figures()) == before
    assert before.after(gone, Figures()) == Figures(6, {"sku": 6}, {"amount": Decimal(50)}, {"amount": Decimal(-28)})
    assert before.after(gone, new) == Figures(8, {"sku": 7}, {"amount": Decimal(57)}, {"amount": Decimal(-23)})


def test_rows_are_missing_where_fewer_are_stored() -> None:
    assert [DayChange(before, after).missing for before, after in ((10, 4), (4, 10), (4, 4))] == [6, 0, 0]


def test_a_day_without_stored_rows_has_nothing_to_compare() -> None:
    assert _dear_days({"1st": 0, "2nd": 4}, {}, {"1st": _of(3), "2nd": _of(1)}) == {"2nd"}
