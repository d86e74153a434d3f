"""Tests of the rules of holds by themselves, at their limits."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from seller_platform.contract import Dataset, dataset_named
from seller_platform.warehouse.loads.day_changes import WHOLE_LIST, DayChange, Figures
from seller_platform.warehouse.loads.holds import RULES, Contradiction, Judge, doubt_about

LEDGER, SALES, STOCK = (dataset_named(name) for name in ("transactions", "sales_by_date", "warehouse_stock"))
FIRST, SECOND, THIRD = "2026-03-01", "2026-03-02", "2026-03-03"
SETTLED = Judge(frozenset({date(2026, 3, 1)}))


def _day(rows: int, *, net: str = "100", amounts: int = 10, notes: int = 0, gross: int = 100) -> Figures:
    filled = {"amount": amounts, "description": notes}
    return Figures(rows, filled, {"amount": Decimal(gross)}, {"amount": Decimal(net)})


def _found(
    changes: Mapping[str, DayChange], *, judge: Judge = SETTLED, dataset: Dataset = LEDGER
) -> dict[str, list[str]]:
    findings = judge.findings(dataset, changes, lacks_total=False)
    return {day: [f"{each.rule.name} {each.column}".rstrip() for each in of_day] for day, of_day in findings.items()}


def _lost_notes(before: int, *, had: int = 6, has: int = 0) -> DayChange:
    return DayChange(before, before, compared=(_day(before, notes=had), _day(before, notes=has)))


def _settled(days: int, change: DayChange) -> dict[str, DayChange]:
    """Return ten settled days with as many rows, the first of which change."""
    others = DayChange(change.before, change.before)
    return {f"2026-02-{number:02}": change if number <= days else others for number in range(1, 11)}


def _without(rows: int) -> DayChange:
    return DayChange(20, 20, compared=(_day(20, amounts=20), _day(20, amounts=rows)))


@pytest.mark.parametrize(
    ("rule", "dataset", "within", "beyond"),
    [
        ("nothing", LEDGER, {THIRD: DayChange(5, 1)}, {THIRD: DayChange(5, 0)}),
        ("no_amounts", LEDGER, {THIRD: _without(1)}, {THIRD: _without(0)}),
        ("emptied_day", LEDGER, {FIRST: _lost_notes(1, had=1)}, {FIRST: _lost_notes(2, had=2)}),
        ("emptied_recent_day", LEDGER, {SECOND: _lost_notes(8, had=5)}, {SECOND: _lost_notes(8, had=6)}),
        ("others", LEDGER, {FIRST: DayChange(4, 4, others=1)}, {FIRST: DayChange(4, 4, others=2)}),
        (
            "others_of_many_days",
            LEDGER,
            _settled(10, DayChange(25, 25, others=2)),
            _settled(10, DayChange(25, 25, others=3)),
        ),
        ("others_of_few_rows", LEDGER, _settled(2, DayChange(1, 1, others=1)), _settled(3, DayChange(1, 1, others=1))),
        ("missing", LEDGER, _settled(5, DayChange(60, 59)), _settled(10, DayChange(60, 59))),
        (
            "scaled",
            LEDGER,
            {FIRST: DayChange(10, 10, compared=(_day(10), _day(10, gross=500)))},
            {FIRST: DayChange(10, 10, compared=(_day(10), _day(10, gross=501)))},
        ),
        ("lost", LEDGER, {SECOND: DayChange(10, 5, lost=5)}, {SECOND: DayChange(10, 4, lost=6)}),
        (
            "lost_of_many_days",
            LEDGER,
            {f"2026-03-{day:02}": DayChange(10, 6, lost=4) for day in range(2, 7)},
            {f"2026-03-{day:02}": DayChange(10, 6, lost=4) for day in range(2, 8)},
        ),
        ("lost_of_list", STOCK, {WHOLE_LIST: DayChange(10, 5, lost=5)}, {WHOLE_LIST: DayChange(10, 4, lost=6)}),
    ],
)
def test_each_rule_holds_what_is_beyond_its_limits(
    rule: str, dataset: Dataset, within: Mapping[str, DayChange], beyond: Mapping[str, DayChange]
) -> None:
    judge = Judge(frozenset({date(2026, 3, 1), *(date(2026, 2, day) for day in range(1, 11))}))

    found = _found(beyond, judge=judge, dataset=dataset)

    assert _found(within, judge=judge, dataset=dataset) == {}
    assert {day for day in beyond if any(each.split()[0] == rule for each in found.get(day, ()))} == {
        day for day, change in beyond.items() if change != DayChange(change.before, change.before)
    }


def test_a_column_is_empty_although_a_day_comes_that_had_no_rows() -> None:
    changes = {SECOND: _lost_notes(10), THIRD: DayChange(0, 7)}

    assert _found(changes) == {SECOND: ["emptied description", "emptied_recent_day description"]}


@pytest.mark.parametrize("before", [1, 10])
def test_columns_are_compared_only_if_every_day_with_rows_is(before: int) -> None:
    changes = {SECOND: _lost_notes(10), THIRD: DayChange(before, before)}

    assert _found(changes) == {SECOND: ["emptied_recent_day description"]}


def test_the_share_of_a_column_is_that_of_the_rows_before() -> None:
    lost = DayChange(12, 24, compared=(_day(12, notes=7), _day(24)))
    few = DayChange(14, 12, compared=(_day(14, notes=7), _day(12)))

    assert [_found({SECOND: each}) for each in (lost, few)] == [
        {SECOND: ["emptied description", "emptied_recent_day description"]},
        {},
    ]


def test_rows_without_amounts_are_named_so_if_every_day_is_without() -> None:
    without = DayChange(10, 10, compared=(_day(10, net="0"), _day(10, net="0", amounts=0)))
    same = DayChange(10, 10, compared=(_day(10), _day(10)))

    assert _found({SECOND: without, THIRD: without})[THIRD][0] == "no_amounts"
    for other in (DayChange(10, 10), same):
        assert "no_amounts" not in _found({SECOND: without, THIRD: other}).get(SECOND, [])


@pytest.mark.parametrize(
    ("before", "after", "is_held"), [("60", "-90", False), ("60", "-91", True), ("0", "300", False)]
)
def test_a_sum_has_turned_if_it_changed_by_more_than_its_amounts(before: str, after: str, *, is_held: bool) -> None:
    change = DayChange(10, 10, compared=(_day(10, net=before), _day(10, net=after)))

    assert _found({FIRST: change}) == ({FIRST: ["turned amount"]} if is_held else {})


def test_rules_about_days_that_may_change_are_for_no_other_day() -> None:
    lost = DayChange(20, 11, lost=9, others=9)

    assert _found({FIRST: lost, SECOND: lost, THIRD: lost}) == {FIRST: ["others"], SECOND: ["lost"], THIRD: ["lost"]}
    assert _found({WHOLE_LIST: lost}, judge=Judge(), dataset=STOCK) == {}


@pytest.mark.parametrize(("after", "expected"), [(44, {}), (45, {}), (48, {WHOLE_LIST: ["added_to_list"]})])
def test_a_list_that_doubles_is_in_doubt(after: int, expected: Mapping[str, list[str]]) -> None:
    before = {44: 23, 45: 24, 48: 24}[after]

    assert _found({WHOLE_LIST: DayChange(before, after)}, judge=Judge(), dataset=STOCK) == expected


def test_a_list_with_one_row_a_day_may_get_days() -> None:
    old = {f"2026-02-{day:02}": DayChange(1, 1) for day in range(1, 6)}
    new = {f"2026-03-{day:02}": DayChange(0, 1) for day in range(1, 10)}

    assert _found({**old, **new}, judge=Judge(), dataset=SALES) == {}
    assert _found(dict.fromkeys(old, DayChange(2, 1)), judge=Judge(), dataset=SALES) == {}
    assert len(_found(dict.fromkeys(old, DayChange(1, 0)), judge=Judge(), dataset=SALES)) == 5


def test_days_that_do_not_contradict_a_rule_about_several_are_left_out() -> None:
    gone = DayChange(10, 10, lost=9, others=9)
    changes = {SECOND: _lost_notes(10, had=9), THIRD: _lost_notes(10, had=0), FIRST: gone}

    assert set(_found(changes)) == {FIRST, SECOND}
    changes = {SECOND: _lost_notes(1000, had=900), THIRD: _lost_notes(10, had=6, has=7)}
    assert _found(changes) == {SECOND: ["emptied description", "emptied_recent_day description"]}


@pytest.mark.parametrize("readings", [1, 2, 3, 4])
@pytest.mark.parametrize("identities", ["", "us-1 was account 1 and is account 2"])
def test_a_day_is_believed_from_the_third_reading_on_but_no_other_identity(readings: int, identities: str) -> None:
    now, change = datetime(2026, 3, 20, tzinfo=UTC), DayChange(5, 5)
    former = [(now - timedelta(days=days), (5, "0")) for days in range(1, readings)]
    judge, findings = Judge(other_identities=identities), {FIRST: [Contradiction(RULES[0], "")]}

    held, believed = judge.held(findings, {FIRST: change}, {FIRST: former}, now)

    is_held = readings < 3 or identities != ""
    assert [*held] == ([FIRST] if is_held else [])
    assert believed == ({} if is_held else {FIRST: {"by": f"{readings} readings that say the same"}})


def test_a_doubt_says_how_many_rows_of_its_days_lost_the_column() -> None:
    changes = {FIRST: _lost_notes(10, had=9), SECOND: _lost_notes(20, had=15)}
    findings = Judge().findings(LEDGER, changes, lacks_total=False)

    assert doubt_about(findings, changes).reason == "description is empty in 24 of 24 rows that had it"
