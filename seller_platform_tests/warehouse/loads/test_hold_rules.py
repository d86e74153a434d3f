"""Tests of the rules of holds by themselves, at their limits, and of which days columns are compared."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from seller_platform.contract import Dataset, dataset_named
from seller_platform.warehouse.loads.day_changes import ROWS, WHOLE_LIST, DayChange, Figures, _dear_days
from seller_platform.warehouse.loads.holds import RULES, Claim, Contradiction, Judge

NAMES = ("transactions", "sales_by_date", "warehouse_stock", "accounts")
LEDGER, SALES, STOCK, ACCOUNTS = (dataset_named(name) for name in NAMES)
FIRST, SECOND, THIRD = "2026-03-01", "2026-03-02", "2026-03-03"
SETTLED = Judge(frozenset({date(2026, 3, 1)}))


def _day(rows: int, *, net: str = "100", notes: int = 0, gross: int = 100) -> Figures:
    filled = {("filled", "amount"): 10, ("filled", "description"): notes}
    sums = {("gross", "amount"): Decimal(gross), ("net", "amount"): Decimal(net)}
    return Counter({ROWS: rows, **filled, **sums})


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


def _scaled(rows: int, gross: int) -> DayChange:
    return DayChange(rows, rows, compared=(_day(rows), _day(rows, gross=gross, net="100")))


def _recent(lost: int) -> dict[str, DayChange]:
    return {f"2026-04-{day:02}": DayChange(1, int(day > lost), lost=int(day <= lost)) for day in range(1, 10)}


def _counted(scaled: int) -> DayChange:
    figures = Counter({ROWS: 10, ("filled", "quantity"): 10})
    return DayChange(10, 10, compared=(figures, figures), scaled={"quantity": scaled})


@pytest.mark.parametrize(
    ("rule", "dataset", "within", "beyond"),
    [
        ("nothing", LEDGER, {THIRD: DayChange(5, 1, lost=4)}, {THIRD: DayChange(5, 0, lost=5)}),
        ("emptied", LEDGER, {FIRST: _lost_notes(1, had=1)}, {FIRST: _lost_notes(2, had=2)}),
        ("emptied", LEDGER, {SECOND: _lost_notes(8, had=5)}, {SECOND: _lost_notes(8, had=6)}),
        ("others", LEDGER, {FIRST: DayChange(4, 4, others=1)}, {FIRST: DayChange(4, 4, others=2)}),
        ("others", LEDGER, _settled(10, DayChange(25, 25, others=2)), _settled(10, DayChange(25, 25, others=3))),
        ("others", LEDGER, _settled(2, DayChange(1, 1, others=1)), _settled(3, DayChange(1, 1, others=1))),
        ("rows", LEDGER, _settled(5, DayChange(60, 59)), _settled(10, DayChange(60, 59))),
        ("rows", LEDGER, _settled(5, DayChange(60, 61)), _settled(10, DayChange(60, 61))),
        ("sums", LEDGER, _settled(1, _scaled(10, 175)), _settled(1, _scaled(10, 176))),
        ("sums", LEDGER, _settled(1, _scaled(10, 58)), _settled(1, _scaled(10, 57))),
        ("lost", LEDGER, {SECOND: DayChange(10, 5, lost=5)}, {SECOND: DayChange(10, 4, lost=6)}),
        (
            "lost",
            LEDGER,
            {f"2026-03-{day:02}": DayChange(10, 6, lost=4) for day in range(2, 7)},
            {f"2026-03-{day:02}": DayChange(10, 6, lost=4) for day in range(2, 8)},
        ),
        ("lost", SALES, _recent(2), _recent(3)),
        ("list", STOCK, {WHOLE_LIST: DayChange(100, 51, lost=49)}, {WHOLE_LIST: DayChange(10, 5, lost=5)}),
        ("list", STOCK, {WHOLE_LIST: DayChange(51, 100)}, {WHOLE_LIST: DayChange(5, 10)}),
        ("list", STOCK, {WHOLE_LIST: DayChange(2, 4)}, {WHOLE_LIST: DayChange(2, 5)}),
        ("lost", ACCOUNTS, {WHOLE_LIST: DayChange(2, 9, lost=1)}, {WHOLE_LIST: DayChange(3, 1, lost=2)}),
        ("values", STOCK, {WHOLE_LIST: _counted(5)}, {WHOLE_LIST: _counted(6)}),
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


EMPTY_AND_LOST = ["emptied description", "emptied description"]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        pytest.param([_lost_notes(10), DayChange(0, 7)], EMPTY_AND_LOST, id="a day comes that had no rows"),
        pytest.param([_lost_notes(10), DayChange(1, 1)], EMPTY_AND_LOST[:1], id="a day with rows is not compared"),
        pytest.param([_lost_notes(10), DayChange(10, 10)], EMPTY_AND_LOST[:1], id="nor one with as many"),
        pytest.param([DayChange(12, 24, compared=(_day(12, notes=7), _day(24)))], EMPTY_AND_LOST, id="rows come"),
        pytest.param([DayChange(14, 12, compared=(_day(14, notes=7), _day(12)))], [], id="half of the rows before"),
    ],
)
def test_a_column_is_compared_with_the_rows_before_on_every_day(changes: list[DayChange], found: list[str]) -> None:
    days = dict(zip([SECOND, THIRD], changes, strict=False))

    assert _found(days) == ({SECOND: found} if found else {})


@pytest.mark.parametrize(
    ("before", "after", "is_held"), [("60", "-15", False), ("60", "-16", True), ("0", "75", False), ("0", "76", True)]
)
def test_a_sum_has_changed_if_it_did_with_its_signs(before: str, after: str, *, is_held: bool) -> None:
    change = DayChange(10, 10, compared=(_day(10, net=before), _day(10, net=after)))

    judge = Judge(frozenset(date(2026, 3, day) for day in (1, 2)))
    assert _found({FIRST: change, SECOND: DayChange(1, 1)}, judge=judge) == (
        {FIRST: ["sums amount"]} if is_held else {}
    )


def test_rules_about_days_that_may_change_are_for_no_other_day() -> None:
    lost = DayChange(20, 11, lost=9, others=9)

    assert _found({FIRST: lost, SECOND: lost, THIRD: lost}) == {FIRST: ["others"], SECOND: ["lost"], THIRD: ["lost"]}
    assert _found({WHOLE_LIST: lost}, judge=Judge(), dataset=STOCK) == {}


def test_a_list_with_one_row_a_day_may_get_days() -> None:
    old = {f"2026-02-{day:02}": DayChange(1, 1) for day in range(1, 6)}
    new = {f"2026-03-{day:02}": DayChange(0, 1) for day in range(1, 10)}

    assert _found({**old, **new}, judge=Judge(), dataset=SALES) == {}
    assert _found(dict.fromkeys(old, DayChange(2, 1)), judge=Judge(), dataset=SALES) == {}


def test_days_that_do_not_contradict_a_rule_about_several_are_left_out() -> None:
    gone = DayChange(10, 10, lost=9, others=9)
    changes = {SECOND: _lost_notes(10, had=9), THIRD: _lost_notes(10, had=0), FIRST: gone}

    assert set(_found(changes)) == {FIRST, SECOND}
    changes = {SECOND: _lost_notes(1000, had=900), THIRD: _lost_notes(10, had=6, has=7)}
    assert _found(changes) == {SECOND: ["emptied description", "emptied description"]}


@pytest.mark.parametrize("readings", [1, 2, 3, 4])
@pytest.mark.parametrize("needs_person", [True, False])
@pytest.mark.parametrize("account", ["", "us-1 was account 1 and is account 2"])
def test_a_day_is_believed_from_the_third_reading_on_but_no_other_identity(
    readings: int, account: str, *, needs_person: bool
) -> None:
    now, change = datetime(2026, 3, 20, tzinfo=UTC), DayChange(5, 5)
    former = [(now - timedelta(days=days), Claim(5, account=account)) for days in range(1, readings)]
    judge, findings = Judge(account=account, needs_person=needs_person), {FIRST: [Contradiction(RULES[0], "")]}

    held, believed = judge.held(findings, {FIRST: change}, {FIRST: former}, now)

    is_held = readings < 3 or needs_person
    assert [*held] == ([FIRST] if is_held else [])
    assert believed == ({} if is_held else {FIRST: {"by": f"{readings} readings that say the same"}})


def test_a_doubt_says_how_many_rows_of_its_days_lost_the_column() -> None:
    changes = {FIRST: _lost_notes(10, had=9), SECOND: _lost_notes(20, had=15)}
    findings = Judge().findings(LEDGER, changes, lacks_total=False)

    assert (
        Judge().doubt_about(findings, changes).reason == "description is empty in 24 of 24 rows that had it, on 2 days"
    )


_ROWS_OF_DAYS = {"1st": 10, "2nd": 100}


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
    assert _dear_days(_ROWS_OF_DAYS, defaultdict(Counter, went), defaultdict(Counter, came)) == compared


def test_a_day_without_stored_rows_has_nothing_to_compare() -> None:
    assert _dear_days({"1st": 0, "2nd": 4}, defaultdict(Counter), {"1st": _of(3), "2nd": _of(1)}) == {"2nd"}
