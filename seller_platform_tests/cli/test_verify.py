"""Tests how `seller-platform verify` reports comparisons."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from seller_platform.cli.output import Output
from seller_platform.cli.sync import SliceOptions
from seller_platform.cli.verify import report
from seller_platform.contract import Window, dataset_named
from seller_platform.errors import NotOfferedError, ReadingHeldError, RequestsUsedUpError
from seller_platform.ingest.loads.comparing import Comparison, comparison_of
from seller_platform.ingest.loads.loading import SliceResult
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.warehouse.loads.difference import RowsApart
from seller_platform_tests.support.command_line import check_document

MARCH = SliceRequest(dataset_named("orders"), "de-2", Window.month_of(date(2026, 3, 1)))
THERE = SliceResult(replace(MARCH, account="Ä shop"))
NAMES = (*MARCH.dataset.key, *(tag.name for tag in MARCH.dataset.tags))
ROWS = [dict.fromkeys(NAMES, number) for number in range(3)]
APART = (60, RowsApart(2, 1, ROWS[:2], ROWS[2:]))
EQUAL = comparison_of(SliceResult(MARCH), (3, RowsApart(0, 0, (), ())))
OTHER = comparison_of(THERE, APART, may_have_changed=True)
HELD = comparison_of(replace(THERE, error=ReadingHeldError("orders of Ä shop", "rows are missing", 7)), APART)
SPENT = comparison_of(
    SliceResult(MARCH, error=RequestsUsedUpError("default", per_day=9, renews_at=datetime(2026, 3, 2, tzinfo=UTC)))
)
GONE = comparison_of(SliceResult(MARCH, error=NotOfferedError("orders", "/sales/orders", 404)))
SELECTION = SliceOptions(("Ä shop",), ("orders",), date(2026, 3, 1), date(2026, 3, 1))
REPAIR = "`seller-platform verify --repair --account 'Ä shop' --dataset orders --from 2026-03 --to 2026-03`"


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(
    ("comparisons", "code", "words"),
    [
        ([EQUAL, GONE], 0, ""),
        ([EQUAL, OTHER], 5, REPAIR),
        ([HELD], 5, "`seller-platform accept LOAD`"),
        ([EQUAL, SPENT], RequestsUsedUpError.exit_code, "9"),
        ([OTHER, SPENT], 5, REPAIR),
    ],
)
def test_what_differs_comes_before_what_could_not_be_read(
    capsys: pytest.CaptureFixture[str], comparisons: list[Comparison], code: int, words: str, as_json: bool
) -> None:
    ended = 0
    try:
        report(Output(as_json=as_json), comparisons, {}, SELECTION)
    except SystemExit as error:
        ended = int(str(error.code))
    printed = capsys.readouterr()

    assert (ended, words in printed.out + printed.err) == (code, True)
    if as_json:
        check_document(["verify", "--json"], printed.out)
        document = json.loads(printed.out)
        assert sum(document["results"].values()) == len(comparisons)
        assert [each["result"] for each in document["differences"]] == [
            each.result for each in comparisons if each is not EQUAL
        ]
    elif OTHER in comparisons:
        assert "orders of Ä shop, 2026-03-01..2026-03-31: platform_order_id 2" in printed.out
        assert "the upstream may have changed it since it was read" in printed.out
