"""Tests how `seller-platform verify` reports comparisons."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from seller_platform.cli.output import Output
from seller_platform.cli.verify import report
from seller_platform.contract import Window, dataset_named
from seller_platform.errors import ReadingHeldError, RequestsUsedUpError
from seller_platform.ingest.loads.comparing import ComparedRows, Comparison
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform_tests.support.command_line import check_document

MARCH = SliceRequest(dataset_named("orders"), "S1.DE", Window.month_of(date(2026, 3, 1)))
EQUAL = Comparison(MARCH, ComparedRows(3, 0, 0, ()))
OTHER = Comparison(replace(MARCH, account="Ä shop"), ComparedRows(60, 2, 1, ("sku A: not stored", "sku B: not listed")))
HELD = replace(OTHER, error=ReadingHeldError("orders of Ä shop", "rows are missing", 7))
SPENT = replace(
    EQUAL, rows=None, error=RequestsUsedUpError("default", per_day=9, renews_at=datetime(2026, 3, 2, tzinfo=UTC))
)
REPAIR = "`seller-platform verify --repair --account 'Ä shop' --dataset orders --from 2026-03 --to 2026-03`"


@pytest.mark.parametrize(
    ("comparisons", "code", "words"),
    [
        ([EQUAL], 0, ""),
        ([EQUAL, OTHER], 5, REPAIR),
        ([HELD], 5, "`seller-platform accept LOAD`"),
        ([EQUAL, SPENT], RequestsUsedUpError.exit_code, "9"),
        ([OTHER, SPENT], 5, REPAIR),
    ],
)
def test_what_differs_comes_before_what_could_not_be_read(
    capsys: pytest.CaptureFixture[str], comparisons: list[Comparison], code: int, words: str
) -> None:
    ended = 0
    try:
        report(Output(as_json=True), comparisons, {}, changing=frozenset(), left_out={"inventory of 1 account": "old"})
    except SystemExit as error:
        ended = int(str(error.code))
    printed = capsys.readouterr().out

    check_document(["verify", "--json"], printed)
    document = json.loads(printed)
    assert (ended, document.get("exit_code", 0)) == (code, code)
    assert words in document.get("message", "")
    assert sum(row["slices"] for row in document["verified"]) == len(comparisons)
    assert [each["not_stored"] for each in document["differences"]] == [2] * (
        OTHER in comparisons or HELD in comparisons
    )
    assert len(document["failures"]) == len({*comparisons} & {HELD, SPENT})
    assert document["not_compared"]["inventory of 1 account"] == "old"


def test_the_text_names_rows_and_what_may_have_changed_since(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        report(
            Output(as_json=False), [OTHER], {}, changing=frozenset({f"orders of Ä shop, {MARCH.month}"}), left_out={}
        )

    printed = capsys.readouterr().out
    assert "2 rows are listed and not stored, 1 stored and not listed; the upstream may have changed it" in printed
    assert "  sku A: not stored\n" in printed
