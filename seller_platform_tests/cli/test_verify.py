"""Tests how `seller-platform verify` reports comparisons."""

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from seller_platform.cli.output import Output
from seller_platform.cli.verify import report
from seller_platform.contract import Window
from seller_platform.ingest.verification.comparison import Comparison, ComparisonResult
from seller_platform_tests.support.command_line import check_document

_EQUAL = Comparison("orders", "S1.DE", "orders 2026-03-01..2026-03-31", ComparisonResult.EQUAL, rows=3)
_ROWS = replace(_EQUAL, verdict=ComparisonResult.DIFFERENT, differences=("a row lacks",))
_COMPUTED = replace(
    _EQUAL, subject="statistics", asked="statistics week", verdict=ComparisonResult.COMPUTED, differences=("profit",)
)
_ABSENT = replace(_EQUAL, subject="inventory", verdict=ComparisonResult.ABSENT, differences=("never synced",))
_NOT_KNOWN = replace(_EQUAL, verdict=ComparisonResult.NOT_KNOWN, not_known=("parents",))


def _report(capsys: pytest.CaptureFixture[str], *comparisons: Comparison) -> tuple[int, dict[str, Any]]:
    code = 0
    try:
        report(Output(as_json=True), comparisons, {})
    except SystemExit as ended:
        code = int(str(ended.code))
    printed = capsys.readouterr().out
    check_document(["verify", "--json"], printed)
    document: dict[str, Any] = json.loads(printed)
    return code, document


@pytest.mark.parametrize(
    ("comparison", "kind"), [(_ROWS, "differences"), (_COMPUTED, "computed_differences"), (_ABSENT, "absent")]
)
def test_each_kind_of_difference_is_listed_apart_and_fails(
    capsys: pytest.CaptureFixture[str], comparison: Comparison, kind: str
) -> None:
    code, document = _report(capsys, _EQUAL, comparison)

    kinds = {
        name: [each["message"] for each in document[name]] for name in ("differences", "computed_differences", "absent")
    }
    assert (code, document["exit_code"]) == (5, 5)
    assert kinds == {**{name: [] for name in kinds}, kind: list(comparison.differences)}
    assert f"{comparison.subject} of S1.DE" in document["message"]


def test_the_text_names_what_kind_of_difference_each_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        report(Output(as_json=False), [_ROWS, _COMPUTED, _ABSENT], {})

    printed = capsys.readouterr()
    assert "different: orders of S1.DE (orders 2026-03-01..2026-03-31): a row lacks" in printed.out
    assert "computed differently: statistics of S1.DE (statistics week): profit" in printed.out
    assert "absent: inventory of S1.DE" in printed.out
    words = ("source and replica differ: orders", "computes other values: statistics", "never synced: inventory")
    assert all(word in printed.err for word in words), printed.err


def test_different_rows_are_read_again_by_a_command_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    april = replace(_ROWS, window=Window.month_of(date(2026, 4, 1)))
    march = replace(april, window=Window.month_of(date(2026, 3, 1)), account="account-7")

    of_rows = _report(capsys, april, march, _ABSENT, _EQUAL, _COMPUTED)[1]["message"]
    with_statistics = _report(capsys, april, replace(march, subject="statistics"))[1]["message"]
    of_accounts = _report(capsys, replace(_ROWS, subject="accounts", account="default"))[1]["message"]

    options = "--account S1.DE --account account-7 --dataset orders --dataset inventory --from 2026-03 --to 2026-04"
    assert f"Read them again with `seller-platform sync {options}`" in of_rows
    assert "`seller-platform sync --account S1.DE --account account-7 --from 2026-03 --to 2026-04`" in with_statistics
    assert "`seller-platform sync`" in of_accounts


def test_what_the_replica_computes_is_said_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    march = replace(_COMPUTED, window=Window.month_of(date(2026, 3, 1)))
    lists = ("daily_product_sales", "transactions", "cost_periods")

    alone = _report(capsys, march)[1]["message"]
    beside = _report(capsys, march, replace(_ROWS, subject="transactions"))[1]["message"]

    options = "--account S1.DE " + " ".join(f"--dataset {name}" for name in lists) + " --from 2026-03 --to 2026-03"
    assert f"The replica computes these answers from {', '.join(lists)}, and the source may from rows" in alone
    assert f"where `seller-platform verify {options}` finds no difference, no sync makes them equal" in alone
    assert "seller-platform sync" not in alone
    assert "no sync makes them equal" not in beside


def test_what_a_replica_cannot_know_fails_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = _report(capsys, _EQUAL, _NOT_KNOWN)

    assert code == 0
    assert [each["message"] for each in document["not_known"]] == ["parents"]
